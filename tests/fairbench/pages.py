"""The report's page as tests read it, a page that has everything, and what a terminal shows."""

import base64
import io
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from types import MappingProxyType

from fabricated import Records, analysed, given, study, sweep, timing
from rich.console import Console

from fairbench.analysis.audit import audit
from fairbench.analysis.comparison.controls import Contribution, contributions
from fairbench.analysis.comparison.ranking import Rank, ranking
from fairbench.analysis.comparison.schedules import Interaction, interactions
from fairbench.analysis.comparison.shocks import ShockCost, shock_costs
from fairbench.common.checks import Flag
from fairbench.report.page import render_page
from fairbench.report.study import draw_figures, study_report

VOID = ("meta", "img", "link", "br", "input", "wbr")


class Page(HTMLParser):
    """The page's text, headings, tables, links and colors; every element must be closed in order.

    Attributes:
        text: what is between the tags, style and script left out.
        bold: what is emphasized.
        links: what the page refers to.
        headings: level and text.
        tables: of each table the rows, of each row the texts of its cells, by the table's name.
        ids: every id.
        elements: every element's name and attributes.
        styles: every style attribute.
        variables: the CSS variables, light and dark.
    """

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.links = []
        self.text = []
        self.bold = []
        self.ids = []
        self.headings = []
        self.tables = {}
        self.styles = []
        self.elements = []
        self.feed(text)
        self.close()
        assert self.open == []
        blocks = re.findall(r":root \{ (--.*?) \}", text)
        self.variables = [dict(re.findall(r"--([\w-]+): (#\w{6});", block)) for block in blocks]

    def inside(self, tag, **attributes):
        return any(tag == name and attributes.items() <= given.items() for name, given in self.open)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        for key in ("href", "src", "data", "action", "xlink:href"):
            if key in given:
                self.links.append(given[key])
        if "id" in given:
            self.ids.append(given["id"])
        if "style" in given:
            self.styles.append(given["style"])
        self.elements.append((tag, given))
        if "data-table" in given:
            self.rows = self.tables.setdefault(given["data-table"], [])
        if tag == "tr" and self.inside("table"):
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag in ("h1", "h2", "h3"):
            self.headings.append((int(tag[1]), ""))
        if tag not in VOID:
            self.open.append((tag, given))

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if not self.open or self.open[-1][0] in ("style", "script"):
            return
        self.text.append(data)
        if "win" in self.open[-1][1].get("class", "").split():
            self.bold.append(data.strip())
        if self.inside("td") or self.inside("th"):
            self.rows[-1][-1] += data
        if self.open[-1][0] in ("h1", "h2", "h3"):
            level, text = self.headings[-1]
            self.headings[-1] = (level, text + data)


def printed(*shown, width=300):
    """What a terminal of this width shows."""
    console = Console(file=io.StringIO(), width=width)
    for each in shown:
        console.print(each, crop=False)
    return console.file.getvalue()


def latex(text):
    """The LaTeX of the tables that a page keeps, by their names."""
    packed = re.search(r'id="latex">(.*?)</script>', text)[1]
    return json.loads(zlib.decompress(base64.b64decode(packed)))


HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)> & {{ 7 * 7 }} </title></script> \\input{x} $#_%~^'


def rendered(the_study, records, figures=(), found=MappingProxyType({})):
    """The page of a study as text; `found`: analyses that are given, see `given`."""
    analyses = given(analysed(the_study, records), found)
    report = study_report(analyses)
    report.figures = figures
    return render_page(report)


def everything():
    """A page with every section, in which trials diverged, failed and are missing, and names are meant to break it."""
    the_study, records = broken()
    figures = draw_figures(analysed(the_study, records))
    return rendered(the_study, records, figures, FOUND)


def broken():
    """The study of that page, and its records."""
    the_study = study(optimizers=("AdamW", "Lion", HOSTILE, "PsiLogic"), seeds=(1, 2, 3, 4))
    scores = {"PsiLogic": [0.9, 0.92, 0.91, 0.9], "AdamW": [0.5, 0.51, 0.52, 0.5]}
    scores["Lion"] = [0.6, "diverged", "failed", 0.6]
    scores[HOSTILE] = [0.7, None, 0.72, 0.7]
    lost = sweep(arena="gpt", optimizer="AdamW", lr=1e-2, outcome="diverged")
    return the_study, Records(the_study, lost, timing(), **scores)


FLAGS = [
    Flag("leak", "fail", "Seen <b>before</b>.", "Split again."),
    Flag("clipping", "warn", "Clipped in 100% of steps.", "Look at it."),
    Flag("improving", "note", "Not at its end.", "Train longer."),
]
RUNG = Contribution(
    arena="gpt",
    metric="loss",
    part="ablation step",
    optimizer="+chaos",
    before="AdamW",
    n=4,
    contribution=0.01,
    ci_low=-0.02,
    ci_high=0.04,
    note="",
)
WHOLE_LADDER = replace(RUNG, part="whole", contribution=0.03, ci_low=None, ci_high=None, note="no spread")
RANKED = Rank(
    arena="gpt",
    optimizer="AdamW",
    mean=0.5,
    rank=1.0,
    rank_low=1,
    rank_high=2,
    groups="1",
    method="verdicts on all pairs",
)
INTERACTION = Interaction(
    arena="gpt",
    optimizer="PsiLogic",
    baseline="AdamW",
    metric="loss",
    schedule_a="cosine",
    schedule_b="wsd",
    gain_a=0.01,
    gain_b=0.03,
    verdict_a="better",
    verdict_b="inconclusive",
    survives="no",
    method="paired",
    interaction=0.02,
    ci_low=-0.01,
    ci_high=0.05,
    p=0.04,
    p_holm=0.12,
    n=20,
    note="",
)
SHOCKED = ShockCost(
    arena="gpt-x",
    undisturbed="gpt",
    optimizer="AdamW",
    n=4,
    diverged=0,
    excess=12.0,
    recovery=30.0,
    recovered=0.5,
    lost=0.1,
    lost_low=0.05,
    lost_high=0.15,
)
FOUND = {
    audit: FLAGS,
    contributions: [RUNG, WHOLE_LADDER],
    ranking: [RANKED],
    interactions: [INTERACTION],
    shock_costs: [SHOCKED],
}
"""Analyses that the records of a fabricated study do not have."""
