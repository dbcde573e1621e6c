"""The page as text: its links, its content, and that names cannot inject elements."""

import base64
import hashlib
import json
import math
import re
from itertools import combinations
from xml.etree import ElementTree

import pytest
from fabricated import EVERY_PAIR, Records, analysed, recorded, study
from pages import HOSTILE, Page, everything, latex, rendered

from fairbench.optimizers.registry import OPTIMIZERS
from fairbench.report.figures.colors import COLORS
from fairbench.report.figures.style import KNOWN, STYLES, style_of, styles_of
from fairbench.report.render.latex import to_latex
from fairbench.report.study import draw_figures, study_report

SECTIONS = [
    "Verdicts",
    "Learning curves",
    "Learning rates",
    "Audit",
    "Results",
    "Causes",
    "Did the mechanism act?",
    "Cost",
    "Budget and treatment",
    "Unfinished trials",
    "What was run",
]
HEAD = {"html", "head", "meta", "link", "title", "style", "body"}
TEXT = {"main", "nav", "section", "h1", "h2", "h3", "p", "ul", "li", "a", "dl", "dt", "dd", "div", "span", "aside"}
STRESSED = {"strong", "small", "details", "summary", "pre"}
TABLES = {"table", "thead", "tbody", "tr", "th", "td"}
CONTROLS = {"script", "search", "output", "button", "select", "option", "label", "input"}
FIGURES = {"figure", "figcaption", "svg", "desc", "defs", "g", "path", "use", "text", "rect", "clippath"}
ELEMENTS = HEAD | TEXT | STRESSED | TABLES | CONTROLS | FIGURES


@pytest.fixture(scope="module")
def text():
    return everything()


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_sections_stand_in_this_order(page):
    (first, *sections) = [x for x in page.headings if x[0] < 3]
    assert first == (1, f"FairBench: fabricated: PsiLogic against AdamW, Lion, {HOSTILE}")
    assert sections == [(2, title) for title in SECTIONS]
    assert len([x for x in page.headings if x[0] == 3]) >= len(page.tables) - 1 > 15


def test_curves_and_rates_are_open_and_arenas_lead_to_their_curves(page):
    opened = [set(given) for tag, given in page.elements if tag == "details"]
    assert opened[:5].count({"open"}) >= 3  # Table 1, the learning curves, the learning rates
    panels = {f"#{name}" for name in page.ids if re.fullmatch(r"learning_curves-\d+", name)}
    assert panels
    assert panels == {link for link in page.links if re.fullmatch(r"#learning_curves-\d+", link)}


def test_a_study_of_one_optimizer_has_table_1():
    alone = study(("vit",), ("AdamW",), reference="AdamW", compare=EVERY_PAIR)
    page = Page(rendered(alone, Records(alone, AdamW=[0.5, 0.6, 0.7])))
    assert page.tables["main"][1][0] == "AdamW"
    assert "verdicts" not in page.tables


def test_empty_sections_are_absent():
    page = Page(rendered(study(("vit",), ("AdamW", "PsiLogic")), lambda spec: None))
    left_out = {"Learning curves", "Causes", "Did the mechanism act?", "Cost"}
    assert [title for level, title in page.headings if level == 2] == [x for x in SECTIONS if x not in left_out]
    assert "vit: 12 without a record (AdamW 6, PsiLogic 6)." in page.text


def test_it_needs_nothing_else(text, page):
    assert not re.search(r"https?:|@import|url\((?!#)", text.replace('xmlns="http://www.w3.org/2000/svg"', ""))
    assert all(link.startswith("#") or link == "data:," for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_no_script_runs_but_its_own(text):
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text


def test_names_are_text_everywhere(text, page):
    assert {tag for tag, _ in page.elements} == ELEMENTS
    assert [given for tag, given in page.elements if tag == "script"].count({}) == 1
    assert not [name for _, given in page.elements for name in given if name.startswith("on")]
    assert HOSTILE in page.tables["metrics"][3]
    assert HOSTILE in page.tables["verdicts"][3]
    assert ["leak", "fail", "Seen <b>before</b>.", "Split again."] in page.tables["audit"]
    assert "failed, RuntimeError: no <luck>" in {row[-1] for row in page.tables["lost"]}


def test_the_figures_are_the_ones_in_the_files():
    the_study = study(("vit", "gpt"))
    records = Records(the_study, PsiLogic=[0.9, 0.91, 0.92])
    figures = draw_figures(analysed(the_study, records))
    found = re.findall(r'<svg [^>]*role="img".*?</svg>', rendered(the_study, records, figures), flags=re.DOTALL)
    for figure in figures:
        files = ElementTree.fromstring(figure.svg)
        for i in range(len(figure.parts)):
            inline = ElementTree.fromstring(found.pop(0))
            (panel,) = (group for group in files.iter() if group.get("id") == f"panel{i}")
            assert _drawn(inline.findall("g")[0], "") == _drawn(panel, "{http://www.w3.org/2000/svg}")
    assert found == []


def _drawn(group, namespace):
    """Every path and text of a group, and where each marker stands; definitions left out."""
    for parent in list(group.iter()):
        for defs in parent.findall(f"{namespace}defs"):
            parent.remove(defs)
    paths = [element.get("d").split() for element in group.iter(f"{namespace}path")]
    texts = [(element.text or "").strip() for element in group.iter(f"{namespace}text")]
    return paths, texts, [(use.get("x"), use.get("y")) for use in group.iter(f"{namespace}use")]


def test_every_value_stands_at_its_mark(text):
    """The script shows values at their positions in the SVG, on linear and logarithmic axes and at the edge."""
    panels = re.findall(r'(<svg [^>]*role="img".*?</svg>)<script[^>]*>(.*?)</script>', text, flags=re.DOTALL)
    said = {}
    for svg, script in panels:
        groups = [group for group in ElementTree.fromstring(svg).iter("g") if "data-arm" in group.attrib]
        uses = [(use, int(group.get("data-arm"))) for group in groups for use in group.iter("use")]
        marks = {(float(use.get("x")), float(use.get("y")), arm) for use, arm in uses}
        for x, y, arm, text_of_value, *_ in json.loads(script)["points"]:
            if marks:  # bars have none
                assert min(math.dist((x, y), at) for *at, of in marks if of == arm) < 0.02
            said[text_of_value] = arm
    assert said["AdamW, rate 0.001: 0.5075, 4 seeds, selected"] == 1
    assert said["AdamW, rate 0.01: diverged"] == 1
    assert len(panels) > 8


def test_figures_have_their_colors_under_every_policy(text, page):
    """No element has a style; each color is an attribute, and the color of a role in CSS."""
    drawn = [given for _, given in page.elements if {"fill", "stroke"} & given.keys()]
    used = {given[kind] for given in drawn for kind in ("fill", "stroke") if kind in given} - {"none"}
    roles = {light: role for role, (light, _) in COLORS.items()}
    assert page.styles == []
    assert {"arm-orange", "arm-blue", "arm-plum", "ink", "soft", "rule", "phase-step"} <= {roles[x] for x in used}
    assert all(f'[fill="{light}"] {{ fill: var(--{role}); }}' in text for light, role in roles.items())


def test_every_color_is_a_variable_in_light_and_dark(text, page):
    css = text.partition("<style>")[2].partition("</style>")[0]
    assert set(re.findall(r"var\(--([\w-]+)\)", css)) <= {*COLORS, "across", "down"}
    assert [len(theme) for theme in page.variables] == [len(COLORS)] * 2


def test_a_color_has_one_role():
    assert len({light for light, _ in COLORS.values()}) == len(COLORS)


def test_the_style_of_an_optimizer_depends_on_its_name_alone():
    names = [f"O{i}" for i in range(1, 61)]
    found = styles_of(study(optimizers=("PsiLogic", "Lion", *names)).suite)
    assert len({(style.role, str(style.dash), style.marker) for style in found.values()}) == 62 < STYLES
    assert [style.index for style in found.values()] == list(range(62))
    assert (found["PsiLogic"].index, found["PsiLogic"].wide) == (0, True)
    others = styles_of(study(optimizers=("Lion", "O60", "O7", "PsiLogic")).suite)
    assert others["Lion"].color == found["Lion"].color
    assert style_of(KNOWN.index("Lion")) == (others["Lion"].role, others["Lion"].dash, others["Lion"].marker)
    assert set(OPTIMIZERS) <= set(KNOWN)


@pytest.mark.parametrize("names", [KNOWN, ["PsiLogic", "Lion", "SGD", *(f"run_{i}" for i in range(24))]])
def test_arms_differ_in_color_or_in_dash_and_marker(names):
    """Any two colors are told apart by everyone, as another test measures; the place in the suite does not matter."""
    found = styles_of(study(optimizers=tuple(names)).suite)
    for one, other in combinations(found.values(), 2):
        assert one.role != other.role or (one.dash != other.dash and one.marker != other.marker)
    turned = styles_of(study(optimizers=tuple(reversed(names))).suite)
    assert all(
        (x.role, x.dash, x.marker) == (turned[n].role, turned[n].dash, turned[n].marker) for n, x in found.items()
    )


def test_analyses_get_their_tables(page):
    assert page.tables["audit"][2] == ["clipping", "warn", "Clipped in 100% of steps.", "Look at it."]
    assert page.tables["causes"][1:] == [
        ["gpt", "AdamW → +chaos", "loss", "+0.010 [−0.020, +0.040]", "4", ""],
        ["gpt", "AdamW → +chaos (the whole)", "loss", "+0.030", "4", "no spread"],
    ]
    assert page.tables["ranking"][1][:5] == ["gpt", "AdamW", "0.5000", "1", "1"]
    assert page.tables["shocks"][1][2:6] == ["4", "0", "12.0", "30"]
    assert page.tables["schedules"][1] == [
        *("gpt", "AdamW", "cosine", "wsd", "better", "inconclusive", "no", "+0.0100", "+0.0300"),
        *("+0.020 [−0.010, +0.050]", "0.120", ""),
    ]


def test_it_keeps_the_latex_of_its_tables():
    the_study = study(("vit",), ("AdamW", "PsiLogic"))
    records = Records(the_study)
    tables = study_report(analysed(the_study, records)).tables
    assert latex(rendered(the_study, records)) == {name: to_latex(table) for name, table in tables.items()} != {}


def test_a_failed_audit_stands_above_everything(text):
    before = text.partition('<section id="verdicts">')[0]
    assert "LEAK: Seen &lt;b&gt;before&lt;/b&gt;. Split again." in before
    assert "clipping" not in before


def test_verdicts_have_the_longer_side_as_rows():
    scores = {"PsiLogic": [0.9, 0.92, 0.91], "AdamW": [0.5, 0.51, 0.52], "Lion": [0.8, 0.9, 1.0]}
    for arenas, optimizers, head in (
        (("gpt", "vit"), ("AdamW", "PsiLogic"), ["Arena", "AdamW"]),
        (("vit",), ("AdamW", "Lion", "PsiLogic"), ["Baseline", "vit"]),
    ):
        the_study = study(arenas, optimizers)
        table = Page(rendered(the_study, Records(the_study, **scores))).tables["verdicts"]
        assert table[0] == head
        assert [row[0] for row in table[1:]] == (["gpt", "vit"] if head[0] == "Arena" else ["AdamW", "Lion"])
    assert table[1][1].startswith("▲ better +0.40 [")
    assert table[2][1].startswith("? inconclusive")


def test_the_verdicts_are_read_in_one_sentence(page):
    (text,) = (text for text in page.text if text.startswith("Of 6 comparisons, "))
    assert "the verdict is better in 1, worse in 1, incomplete in 4." in text
    assert "The budget was equal: in each arena every search had the same number of settings." in " ".join(page.text)


def test_trials_that_failed_alike_share_a_traceback():
    the_study = study(("vit",), ("AdamW", "PsiLogic"))
    text = rendered(the_study, Records(the_study, AdamW=["failed"] * 3))
    assert text.count("Traceback: no &lt;luck&gt;") == 1
    assert "vit AdamW, final, learning rate 0.001, seed 1 and 2 more with the same traceback" in text


def test_mixed_environments_are_named():
    the_study = study(("vit",), ("AdamW", "PsiLogic"))
    mixed = Records(the_study, recorded({"environment.python": "4.0"}, seed=2))
    page = Page(rendered(the_study, mixed))
    assert ["python", "3.99 / 4.0"] in page.tables["environment"]
    assert "they differ in: python." in "".join(page.text)


def test_a_frozen_plan_is_shown():
    the_study = study(("vit",), ("AdamW", "PsiLogic"))
    text = Page(rendered(the_study, Records(the_study))).text
    assert "Plan declared 2026-11-22T10:00:00+00:00, when 0 final trials had a record." in text
