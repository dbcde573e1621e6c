"""The report's page as tests read it, a page that has everything, and what a terminal shows."""

import base64
import io
import json
import re
import zlib
from html.parser import HTMLParser
from types import MappingProxyType

from fabricated import Records, analysed, given, study, sweep
from rich.console import Console

from fairbench.analysis.audit import audit
from fairbench.analysis.comparison.controls import Contribution, contributions
from fairbench.analysis.comparison.ranking import Rank, ranking
from fairbench.analysis.comparison.schedules import Interaction, interactions
from fairbench.analysis.comparison.shocks import ShockCost, shock_costs
from fairbench.common.checks import Flag
from fairbench.report.page import render_page
from fairbench.report.study import draw_figures, study_report

VOID = ("meta", "img", "link", "br", "input")


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
        self.open, self.links, self.text, self.bold, self.ids = [], [], [], [], []
        self.headings, self.tables, self.styles, self.elements = [], {}, [], []
        self.feed(text)
        self.close()
        assert self.open == []
        blocks = re.findall(r":root \{ (--.*?) \}", text)
        self.variables = [dict(re.findall(r"--([\w-]+): (#\w{6});", block)) for block in blocks]

    def inside(self, tag, **attributes):
        return any(tag == name and attributes.items() <= given.items() for name, given in self.open)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.links += [given[key] for key in ("href", "src", "data", "action", "xlink:href") if key in given]
        self.ids += [given["id"]] if "id" in given else []
        self.elements.append((tag, given))
        self.styles += [given["style"]] if "style" in given else []
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
            self.headings[-1] = self.headings[-1][0], self.headings[-1][1] + data


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
    return the_study, Records(the_study, lost, **scores)


FLAGS = [
    Flag("leak", "fail", "Seen <b>before</b>.", "Split again."),
    Flag("clipping", "warn", "Clipped in 100% of steps.", "Look at it."),
    Flag("improving", "note", "Not at its end.", "Train longer."),
]
FOUND = {
    audit: FLAGS,
    contributions: [
        Contribution("gpt", "loss", "rung", "+chaos", "AdamW", 4, 0.01, -0.02, 0.04, ""),
        Contribution("gpt", "loss", "whole", "+chaos", "AdamW", 4, 0.03, None, None, "no spread"),
    ],
    ranking: [Rank("gpt", "AdamW", 0.5, 1.0, 1, 2, "1", "verdicts on all pairs")],
    interactions: [
        Interaction(
            *("gpt", "PsiLogic", "AdamW", "loss", "cosine", "wsd", 0.01, 0.03, "better", "inconclusive", "no"),
            *(0.02, -0.01, 0.05, 0.04, 0.12, 20, ""),
        )
    ],
    shock_costs: [ShockCost("gpt-x", "gpt", "AdamW", 4, 0, 12.0, 30.0, 0.5, 0.1, 0.05, 0.15, "")],
}
"""Analyses that the records of a fabricated study do not have."""
