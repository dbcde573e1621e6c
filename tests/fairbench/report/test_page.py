"""The page as text: its links, its content, and that names cannot inject elements."""

import base64
import hashlib
import json
import math
import re
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from fabricated import EVERY_PAIR, Records, analysed, recorded, study
from pages import HOSTILE, Page, everything, latex, rendered

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.optimizers.registry import OPTIMIZERS
from fairbench.report.figures.colors import COLORS
from fairbench.report.figures.style import KNOWN, STYLES, style_of, styles_of
from fairbench.report.render.latex import to_latex
from fairbench.report.sections.verdicts import verdicts_in_words
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
TEXT = {
    "main",
    "nav",
    "section",
    "h1",
    "h2",
    "h3",
    "p",
    "ul",
    "li",
    "a",
    "dl",
    "dt",
    "dd",
    "div",
    "span",
    "aside",
    "wbr",
}
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


def headings_of(page, level):
    return [text for level_of_text, text in page.headings if level_of_text == level]


def attributes_of(page, tag):
    """The attributes of each element with this tag."""
    return [attributes for tag_of_element, attributes in page.elements if tag_of_element == tag]


def test_sections_stand_in_this_order(page):
    title = f"FairBench: fabricated: PsiLogic against AdamW, Lion, {HOSTILE}"
    assert page.headings[0] == (1, title)
    assert headings_of(page, 1) == [title]
    assert headings_of(page, 2) == SECTIONS
    assert len(headings_of(page, 3)) >= len(page.tables) - 1 > 15


def test_curves_and_rates_are_open_and_arenas_lead_to_their_curves(page):
    opened = [set(attributes) for attributes in attributes_of(page, "details")]
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
    assert headings_of(page, 2) == [
        "Verdicts",
        "Learning rates",
        "Audit",
        "Results",
        "Budget and treatment",
        "Unfinished trials",
        "What was run",
    ]
    assert "vit: 12 without a record (AdamW 6, PsiLogic 6)." in page.text


def test_it_needs_nothing_else(text, page):
    without_namespaces = text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|@import|url\((?!#)", without_namespaces)
    assert len(page.ids) == len(set(page.ids))
    anchors = {f"#{name}" for name in page.ids}
    assert set(page.links) <= {*anchors, "data:,"}


def test_no_script_runs_but_its_own(text):
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    assert len(scripts) == 1
    sha256 = hashlib.sha256(scripts[0].encode())
    digest = base64.b64encode(sha256.digest()).decode()
    assert f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text


def test_names_are_text_everywhere(text, page):
    assert {tag for tag, _ in page.elements} == ELEMENTS
    assert attributes_of(page, "script").count({}) == 1
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")]
    assert HOSTILE in page.tables["metrics"][3]
    assert HOSTILE in page.tables["verdicts"][3]
    assert ["leak", "fail", "Seen <b>before</b>.", "Split again."] in page.tables["audit"]
    *_, reasons = zip(*page.tables["lost"], strict=True)
    assert "failed, RuntimeError: no <luck>" in reasons


def test_the_figures_are_the_ones_in_the_files():
    the_study = study(("vit", "gpt"))
    records = Records(the_study, PsiLogic=[0.9, 0.91, 0.92])
    figures = draw_figures(analysed(the_study, records))
    found = re.findall(r'<svg [^>]*role="img".*?</svg>', rendered(the_study, records, figures), flags=re.DOTALL)
    for figure in figures:
        file = ElementTree.fromstring(figure.svg)
        by_id = {element.get("id"): element for element in file.iter()}
        for i in range(len(figure.parts)):
            inline = ElementTree.fromstring(found.pop(0))
            on_the_page = drawn_in(inline.find("g"), "")
            assert on_the_page == drawn_in(by_id[f"panel{i}"], "{http://www.w3.org/2000/svg}")
    assert found == []


def drawn_in(group, namespace):
    """Every path and text of a group, and where each marker stands; definitions left out."""
    for parent in list(group.iter()):
        for defs in parent.findall(f"{namespace}defs"):
            parent.remove(defs)
    paths = [element.get("d", "").split() for element in group.iter(f"{namespace}path")]
    texts = [(element.text or "").strip() for element in group.iter(f"{namespace}text")]
    marks = [(use.get("x"), use.get("y")) for use in group.iter(f"{namespace}use")]
    return paths, texts, marks


def test_every_value_stands_at_its_mark(text):
    """The script shows values at their positions in the SVG, on linear and logarithmic axes and at the edge."""
    panels = re.findall(r'(<svg [^>]*role="img".*?</svg>)<script[^>]*>(.*?)</script>', text, flags=re.DOTALL)
    said = {}
    for svg, script in panels:
        marks_of = marks_by_arm(ElementTree.fromstring(svg))
        for x, y, arm, text_of_value, *_ in json.loads(script)["points"]:
            if marks_of:  # bars have none
                assert min(math.dist((x, y), mark) for mark in marks_of[arm]) < 0.02
            said[text_of_value] = arm
    assert said["AdamW, rate 0.001: 0.5075, 4 seeds, selected"] == 1
    assert said["AdamW, rate 0.01: diverged"] == 1
    assert len(panels) > 8


def test_text_of_figures_has_ten_pixels_on_a_phone(text):
    """There a panel, which is 360 wide, has 360 pixels."""
    sizes = re.findall(r'font-size="([\d.]+)px"', text)
    assert len(sizes) > 100
    assert min(map(float, sizes)) >= 10
    assert 'viewBox="0 0 360 ' in text


def marks_by_arm(svg):
    """The positions of the marks of each arm that has some."""
    marks = {}
    for group in svg.iter("g"):
        if "data-arm" not in group.attrib:
            continue
        arm = int(group.get("data-arm"))
        for use in group.iter("use"):
            x = float(use.get("x"))
            y = float(use.get("y"))
            marks.setdefault(arm, []).append((x, y))
    return marks


def test_figures_have_their_colors_under_every_policy(text, page):
    """No element has a style; each color is an attribute, and the color of a role in CSS."""
    used = set()
    for _, attributes in page.elements:
        used |= {attributes.get("fill"), attributes.get("stroke")}
    role_of = {color.light: role for role, color in COLORS.items()}
    roles = {role_of[color] for color in used - {None, "none"}}
    assert page.styles == []
    assert {"arm-orange", "arm-blue", "arm-plum", "ink", "soft", "grid", "phase-step"} <= roles
    for role, color in COLORS.items():
        assert f'[fill="{color.light}"] {{ fill: var(--{role}); }}' in text


def test_every_color_is_a_variable_in_light_and_dark(text, page):
    (css,) = re.findall("<style>(.*?)</style>", text, re.DOTALL)
    variables = re.findall(r"var\(--([\w-]+)\)", css)
    assert set(variables) <= {*COLORS, "across", "down"}
    light, dark = page.variables
    assert len(light) == len(dark) == len(COLORS)


def test_a_color_has_one_role():
    assert len({color.light for color in COLORS.values()}) == len(COLORS)


def test_the_style_of_an_optimizer_depends_on_its_name_alone():
    names = [f"O{i}" for i in range(1, 61)]
    found = styles_of(study(optimizers=("PsiLogic", "Lion", *names)).suite)
    looks = set()
    for i, style in enumerate(found.values()):
        assert style.index == i
        looks.add(str(look_of(style)))
    assert len(looks) == 62 < STYLES
    assert found["PsiLogic"].index == 0
    assert found["PsiLogic"].wide is True
    others = styles_of(study(optimizers=("Lion", "O60", "O7", "PsiLogic")).suite)
    assert others["Lion"].color == found["Lion"].color
    assert style_of(KNOWN.index("Lion")) == look_of(others["Lion"])
    assert set(OPTIMIZERS) <= set(KNOWN)


def look_of(style):
    """What distinguishes a style in a figure."""
    return style.role, style.dash, style.marker


RUNS = [f"run_{i}" for i in range(24)]


@pytest.mark.parametrize("names", [KNOWN, ["PsiLogic", "Lion", "SGD", *RUNS]])
def test_arms_differ_in_color_or_in_dash_and_marker(names):
    """Any two colors are told apart by everyone, as another test measures; the place in the suite does not matter."""
    found = styles_of(study(optimizers=tuple(names)).suite)
    for one, other in combinations(found.values(), 2):
        assert one.role != other.role or (one.dash != other.dash and one.marker != other.marker)
    turned = styles_of(study(optimizers=tuple(reversed(names))).suite)
    for name in names:
        assert look_of(found[name]) == look_of(turned[name])


def test_the_arms_of_a_small_study_have_different_colors():
    """The hashes of some of these names, such as base and momentum, lead to one color."""
    for names in (("base", "momentum"), ("AdamW", *RUNS[:6]), ("base", *RUNS[:6])):
        found = styles_of(study(optimizers=names, reference=names[0]).suite)
        assert len({style.role for style in found.values()}) == len(names)


def test_analyses_get_their_tables(page):
    assert page.tables["audit"][2] == ["clipping", "warn", "Clipped in 100% of steps.", "Look at it."]
    assert page.tables["causes"][1:] == [
        ["gpt", "AdamW → +chaos", "loss", "+0.010 [−0.020, +0.040]", "4", ""],
        ["gpt", "AdamW → +chaos (the whole)", "loss", "+0.030", "4", "no spread"],
    ]
    assert page.tables["ranking"][1][:5] == ["gpt", "AdamW", "0.5000", "1", "1"]
    assert page.tables["shocks"][1][2:6] == ["4", "0", "12.0", "30"]
    interaction = page.tables["schedules"][1]
    assert interaction[:7] == ["gpt", "AdamW", "cosine", "wsd", "better", "inconclusive", "no"]
    assert interaction[7:] == ["+0.0100", "+0.0300", "+0.020 [−0.010, +0.050]", "0.120", "paired", ""]


def test_it_keeps_the_latex_of_its_tables():
    the_study = study(("vit",), ("AdamW", "PsiLogic"))
    records = Records(the_study)
    tables = study_report(analysed(the_study, records)).tables
    assert tables
    kept = latex(rendered(the_study, records))
    assert kept == {name: to_latex(table) for name, table in tables.items()}


def test_a_failed_audit_stands_above_everything(text):
    before = text.partition('<section id="verdicts">')[0]
    assert "LEAK: Seen &lt;b&gt;before&lt;/b&gt;. Split again." in before
    assert "clipping" not in before


def verdicts_on_the_page(arenas, optimizers):
    the_study = study(arenas, optimizers, seeds=(1, 2, 3, 4))
    scores = {
        "PsiLogic": [0.9, 0.92, 0.91, 0.92],
        "AdamW": [0.5, 0.51, 0.52, 0.51],
        "Lion": [0.8, 0.9, 1.0, 0.9],
    }
    records = Records(the_study, **scores)
    return Page(rendered(the_study, records)).tables["verdicts"]


def test_verdicts_have_the_longer_side_as_rows():
    head, in_gpt, in_vit = verdicts_on_the_page(("gpt", "vit"), ("AdamW", "PsiLogic"))
    assert head == ["Arena", "PsiLogic against AdamW"]
    assert in_gpt[0].split() == ["gpt", "loss", "↓,", "margin", "0.01"]  # what the gain means
    assert in_vit[0].split() == ["vit", "accuracy", "↑,", "margin", "0.01"]
    head, adamw, lion = verdicts_on_the_page(("vit",), ("AdamW", "Lion", "PsiLogic"))
    assert [title.split()[0] for title in head] == ["Baseline", "vit"]
    assert adamw[0] == "AdamW"
    assert adamw[1].startswith("▲ better (at learning rates that only short trials selected) +0.40")
    assert lion[0] == "Lion"
    assert lion[1].startswith("? inconclusive")


def test_the_verdicts_are_read_once_in_a_sentence_for_each_baseline(page):
    assert not [text for text in page.text if text.startswith("Of 6 comparisons, ")]
    sentences = [text for text in page.text if text.startswith("PsiLogic against ")]
    assert sentences[0] == "PsiLogic against AdamW: better in vit; worse in gpt."
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


def test_each_baseline_has_a_sentence():
    verdicts = {
        "AdamW": {"gpt": "equivalent", "vit": "equivalent", "ddpm": "equivalent"},
        "Lion": {"gpt": "inconclusive", "vit": "better", "ddpm": "inconclusive"},
    }
    comparisons = []
    for baseline, of_arena in verdicts.items():
        for arena, verdict in of_arena.items():
            comparisons.append(Comparison(arena, "loss", "min", "PsiLogic", baseline, verdict))
    assert verdicts_in_words(SimpleNamespace(comparisons=comparisons)) == [
        "PsiLogic against AdamW: equivalent (within the margin) in all 3 arenas.",
        "PsiLogic against Lion: better in vit; not decided in gpt and ddpm.",
    ]
    others = [replace(comparisons[0], baseline=f"b{number}") for number in range(7)]
    assert verdicts_in_words(SimpleNamespace(comparisons=others)) == []  # the grid alone has them
