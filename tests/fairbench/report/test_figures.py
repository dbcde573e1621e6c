"""Figures draw the values of the tables, and are absent without values; sizes and labels."""

import io
import re
import zlib
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from color_vision import MATRICES, ciede2000, contrast, seen
from fabricated import QUANTITIES, Records, analysed, finals, mechanism, recorded, study, sweep, with_suite
from fontTools.ttLib import TTFont as FontFile
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from test_figures_fit import cut, shown
from test_tables import NEEDS_TEX, complaints

from fairbench.analysis.comparison.controls import contributions
from fairbench.analysis.cost import costs
from fairbench.common.files import write_atomically
from fairbench.report import study as report
from fairbench.report.document import Output, Section
from fairbench.report.figures.canvas import MOST_PIXELS, Drawing, figure_options, finished
from fairbench.report.figures.causes import draw_causes, draw_shocks
from fairbench.report.figures.colors import COLORS
from fairbench.report.figures.leaderboard import draw_leaderboard
from fairbench.report.figures.learning_curves import draw_learning_curves
from fairbench.report.figures.lr_sensitivity import draw_lr_sensitivity
from fairbench.report.figures.mechanism import acted, draw_mechanism
from fairbench.report.figures.panel import log_axis, separate
from fairbench.report.figures.style import NAME_WIDTH, short_names, styles_of
from fairbench.report.figures.text import POINTS_PER_INCH, fit_ticks, inner_width, panel_width, text_width, thin_ticks
from fairbench.report.study import NORMAL_TEXT, paper_figures
from fairbench.suites.schema import Compare


def analyses_of(the_study, *cases):
    scores = {"PsiLogic": [0.9, 0.92, 0.91], "AdamW": [0.5, 0.51, 0.55], "Lion": [0.6, 0.5, 0.55]}
    return analysed(the_study, Records(the_study, *cases, **scores))


def drawn(draw, analyses):
    with figure_options():
        return draw(analyses, styles_of(analyses.suite))


def test_a_study_without_causes_has_no_figure_of_them():
    analyses = analyses_of(study(("vit",)), recorded({"details.mechanism": None}))
    assert [drawn(draw, analyses) for draw in (draw_causes, draw_shocks, draw_mechanism)] == [None, None, None]


def test_every_rung_is_in_its_panel():
    analyses = analyses_of(study(controls=["AdamW", "Lion", "PsiLogic"]))
    drawing = drawn(draw_causes, analyses)
    rows = [x for x in analyses.of(contributions) if x.arena == "vit"]
    (part,) = (part for part in drawing.parts if part.arena == "vit")
    assert len(part.points) == len(rows) == 3
    assert part.points[2].text.startswith("the whole: +0.390 [")
    at = [point.x for point in part.points]
    assert sorted(range(3), key=at.__getitem__) == sorted(range(3), key=lambda i: rows[i].contribution)


def test_shocks_are_drawn_against_their_calm_twin():
    the_study = study(("vit",))
    calm = the_study.suite.arenas["vit"]
    twin = replace(calm, task="vit", tuning_arena="vit", shock={"kind": "loss", "at": [0.2]})
    both = with_suite(the_study, arenas={"vit": calm, "vit-x": twin})
    cases = [finals(arena="vit", outcome=0.9)]
    for i, name in enumerate(both.suite.optimizers):
        shocked = [0.9 - 0.1 * i * seed for seed in (1, 2, 3)]
        cases.append(finals(arena="vit-x", optimizer=name, scores=shocked))
    (part,) = drawn(draw_shocks, analysed(both, Records(both, *cases))).parts
    assert [said.partition(" [")[0] for *_, said in part.points] == ["AdamW: 0", "Lion: +0.20", "PsiLogic: +0.40"]


def test_when_a_mechanism_acted():
    analyses = analyses_of(study(("vit",)))
    arm = analyses.results.arm("vit", "PsiLogic")
    assert acted(arm) == [(5, pytest.approx(0.25)), (10, pytest.approx(0.25))]
    never = {**QUANTITIES, "acted": ("tensor steps", {"a": 0.0})}
    idle = recorded({"details.mechanism": mechanism(never)}, optimizer="PsiLogic")
    assert drawn(draw_mechanism, analyses_of(study(("vit",)), idle)) is None
    (part,) = drawn(draw_mechanism, analyses).parts
    assert [said for *_, said in part.points] == [f"PsiLogic, until step {s}: acted in 25%" for s in (5, 10)]


def test_the_leaderboard_sorts_each_panel_and_fills_the_decided():
    optimizers = ("Adam", "AdamW", "Lion", "PsiLogic")
    the_study = study(("gpt", "vit"), optimizers, (1, 2, 3, 4), margin=0.1, compare=Compare())
    scores = {"PsiLogic": [0.5, 0.51, 0.52, 0.5], "AdamW": [0.9, 0.91, 0.92, 0.9], "Adam": [0.7, 0.71, 0.7, 0.7]}
    scores["Lion"] = [0.5, 0.512, 0.518, 0.5]
    drawing = drawn(draw_leaderboard, analysed(the_study, **scores))
    gpt, vit = drawing.parts
    assert [text.partition(":")[0] for *_, text in gpt.points] == ["Lion", "Adam", "AdamW"]
    assert [text.partition(" [")[0] for *_, text in vit.points][:2] == ["AdamW: +0.400", "Adam: +0.1950"]
    assert drawing.svg.count("fill: #ffffff; stroke") >= 2  # the hollow marks of Lion


def test_the_gains_of_one_optimizer_have_a_panel_for_each_of_few_baselines_in_margins():
    the_study = study(("gpt", "vit"), ("AdamW", "PsiLogic"), margin=0.1)
    (panel,) = drawn(draw_leaderboard, analysed(the_study, PsiLogic=[0.5] * 3, AdamW=[0.7] * 3)).parts
    assert panel.arena == "AdamW"
    assert [text for *_, text in panel.points] == ["AdamW, gpt, in margins: +2.00", "AdamW, vit, in margins: −2.00"]
    assert [point.numbers[0] for point in panel.points] == pytest.approx([2.0, -2.0])


@NEEDS_TEX
def test_figures_for_a_paper_have_its_widths_and_text_of_at_least_seven_points(monkeypatch, tmp_path, usual_figures):
    monkeypatch.setattr(report, "SECTIONS", [Section("", "", [Output("learning_curves", figure=draw_learning_curves)])])
    files = dict(paper_figures(analysed(study(("gpt", "vit")))))
    assert set(files) == {
        f"figures/paper/learning_curves_{part}in.{form}"
        for part in ("3.3", "5.5", "gpt_3.3", "vit_3.3")
        for form in ("svg", "pdf")
    }
    for name, svg in files.items():
        if name.endswith(".svg"):
            text = svg if isinstance(svg, str) else svg.decode()
            width = float(re.search(r'width="([\d.]+)pt"', text)[1])
            assert width == pytest.approx(72 * float(name.rpartition("_")[2].removesuffix("in.svg")), abs=0.01)
            assert min(map(float, re.findall(r"font-size: ([\d.]+)px", text))) >= 7
            assert "sans-serif" in text
            assert ("ViT" in text) == ("_gpt_" not in name)  # a panel's file has nothing of the others
    for name, content in files.items():
        write_atomically(tmp_path / name, content)
    includes = "\n\n".join(rf"\noindent\includegraphics{{{tmp_path / name}}}" for name in files if "3.3in.pdf" in name)
    assert complaints(tmp_path, rf"\hsize=3.3in {includes}") == []


def test_fonts_are_embedded_and_pdfs_are_reproducible():
    figure = drawn(draw_leaderboard, analyses_of(study(("vit",))))
    pdf = figure.save("pdf")
    assert pdf == figure.save("pdf")
    assert b"/Type3" not in pdf, "publishers refuse them"
    fonts = [FontFile(io.BytesIO(font)) for font in embedded(pdf)]
    assert len(fonts) >= 2
    assert all("glyf" in font and "GPOS" not in font for font in fonts)


def embedded(pdf):
    """The font files in a PDF."""
    objects = re.findall(rb"/Length1 \d+.*?stream\r?\n(.*?)\nendstream", pdf, re.DOTALL)
    return map(zlib.decompress, objects)


def test_panels_of_any_name_stay_in_their_folder(monkeypatch):
    """Two baselines in four arenas have a panel each, and an optimizer may have any name."""
    monkeypatch.setattr(report, "SECTIONS", [Section("", "", [Output("leaderboard", figure=draw_leaderboard)])])
    monkeypatch.setattr(Drawing, "save", lambda *_: b"")
    analyses = analyses_of(study(("gpt",), ("AdamW", "../../$\\x$", "PsiLogic")))
    names = [f"gpt{i}" for i in range(4)]
    suite = replace(analyses.suite, arenas=dict.fromkeys(names, analyses.suite.arenas["gpt"]))
    analyses.comparisons = [replace(c, arena=name) for name in names for c in analyses.comparisons]
    analyses.results = replace(analyses.results, study=replace(analyses.results.study, suite=suite))
    files = dict(paper_figures(analyses))
    assert {name for name in files if name.endswith("3.3in.pdf")} == {
        f"figures/paper/leaderboard_{panel}3.3in.pdf" for panel in ("", "AdamW_", "2_")
    }


@pytest.mark.parametrize(("inches", "pixels"), [((10.0, 5.0), (1600, 800)), ((10.0, 500.0), (346, 17320))])
def test_a_png_has_a_limited_number_of_pixels(inches, pixels):
    """At the usual dpi one of 500 inches would be higher than matplotlib can draw."""
    picture = Image.open(io.BytesIO(finished(Figure(figsize=inches), {}, "name", "Title", "A caption.").save("png")))
    assert picture.size == pytest.approx(pixels, abs=2)
    assert picture.width * picture.height <= 1.001 * MOST_PIXELS


def test_labels_are_spread():
    assert separate([0.5], 0.1) == [0.5]
    assert separate([0.2, 0.8], 0.1) == [0.2, 0.8]
    assert separate([0.5, 0.5, 0.5], 0.1) == pytest.approx([0.4, 0.5, 0.6])
    assert separate([0.0, 0.0], 0.1) == pytest.approx([0.05, 0.15])
    assert separate([1.0, 1.0], 0.1) == pytest.approx([0.85, 0.95])


def test_names_that_differ_in_the_middle_stay_different():
    """A figure names each of them, and every text about a value has the whole name."""
    alike = [f"schedule_free_adamw_beta2_0.{'9' * n}_no_decay" for n in (2, 3, 4)]
    with figure_options():
        labels = short_names([*alike, "AdamW", "$x$"])
    assert (labels["AdamW"], labels["$x$"], len({*labels.values()})) == ("AdamW", "$x$", 5)
    assert max(text_width(label, weight="bold") for label in labels.values()) <= NAME_WIDTH
    analyses = analyses_of(study(("vit",), (*alike, "PsiLogic")))
    for draw in (draw_leaderboard, draw_lr_sensitivity):
        figure = drawn(draw, analyses)
        assert all(labels[each] in figure.svg for each in alike)
        assert all(any(each in text for *_, text in figure.parts[0].points) for each in alike)


def test_one_seed_has_no_deviation_and_steps_are_whole():
    the_study = study(("vit",), ("AdamW", "PsiLogic"), seeds=(1,), breaks=["split"])
    figure = drawn(draw_learning_curves, analysed(the_study))
    assert {text for *_, text in figure.parts[0].points} == {
        f"{name}, step {step}: 0.5000" for name in ("AdamW", "PsiLogic") for step in (5, 10)
    }
    assert "±" not in "".join(figure.parts[0].said)
    assert "7.5" not in figure.svg
    assert "test accuracy (higher is better)" in figure.svg
    assert "validation" not in figure.svg


def test_a_bar_of_step_time_is_as_long_as_its_label_says():
    """Three trials with another slow phase each: the bar is made of the medians of the phases, and so is its label."""

    def edits(spec):
        phases = enumerate(("data", "forward", "backward"), 1)
        return {f"cost.seconds.{phase}": 1.0 if i == spec.seed else 0.1 for i, phase in phases}

    the_study = study(("vit",), ("AdamW", "PsiLogic"))
    cost = analysed(the_study, Records(the_study, recorded(edits))).of(costs)[0]
    assert (cost.data_ms, cost.forward_ms, cost.backward_ms, cost.step_ms) == (10.0, 10.0, 10.0, 4.0)
    assert cost.train_ms == 34.0


@pytest.mark.parametrize(
    "limits", [(-0.0125, 0.0102), (-3e6, 2e6), (0, 40), (0.001, 0.0012), (1e-5, 10), (0.02, 0.7), (2e-4, 1.1e-3)]
)
def test_labels_of_ticks_do_not_overlap(limits):
    """Measured on what matplotlib really draws."""
    with figure_options():
        figure = Figure(figsize=(1.6, 1))
        canvas = FigureCanvasAgg(figure)
        axes = figure.add_axes((0.1, 0.3, 0.8, 0.6))
        if limits in ((1e-5, 10), (0.02, 0.7), (2e-4, 1.1e-3)):
            log_axis(axes, limits)
        axes.set_xlim(*limits)
        fit_ticks(axes)
        canvas.draw()
        inside = [x for x in axes.get_xticklabels() if limits[0] <= x.get_position()[0] <= limits[1]]
        boxes = [label.get_window_extent() for label in inside]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    assert boxes


def test_ticks_of_a_wide_scale_are_thinned_alike_on_both_sides():
    with figure_options():
        figure = Figure(figsize=(2.5, 1))
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.1, 0.3, 0.8, 0.6))
        axes.set_xlim(-1000, 1000)
        axes.set_xscale("symlog", linthresh=0.002)
        axes.xaxis.set_major_formatter("{x:g}")
        ticks = [0.002, *(10.0**k for k in range(-2, 4))]
        kept = thin_ticks(axes, ticks)
    assert sorted(kept) == sorted(-x for x in kept)
    assert 3 <= len(kept) < 2 * len(ticks) + 1


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, -1.3802, -84.2814), (50, 0, -82.7485), 1.0),
        ((50, 2.49, -0.001), (50, -2.49, 0.0011), 7.2195),
        ((50, 2.5, 0), (50, 0, -2.5), 4.3065),
        ((50, 2.5, 0), (73, 25, -18), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_differences_of_colors_are_those_of_the_literature(one, other, difference):
    """Pairs of Sharma, Wu & Dalal 2005, table 1."""
    assert ciede2000(one, other) == pytest.approx(difference, abs=6e-5)


def test_contrasts_are_those_of_the_w3c():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#ff0000", "#0000ff") == pytest.approx(2.149, abs=1e-3)  # by its worked formula


@pytest.mark.parametrize("is_dark", [False, True])
@pytest.mark.parametrize(("kind", "least_contrast"), [("arm-", 4.5), ("phase-", 3)])
def test_arms_and_phases_are_told_apart_by_everyone(kind, least_contrast, is_dark):
    shown = {}
    for role, color in COLORS.items():
        shown[role] = color.dark if is_dark else color.light
    colors = [color for role, color in shown.items() if role.startswith(kind)]
    for color in colors:
        assert contrast(color, shown["paper"]) >= least_contrast
    for vision in MATRICES:
        for one, other in combinations(colors, 2):
            assert ciede2000(seen(one, vision), seen(other, vision)) >= 12


@pytest.mark.parametrize(
    ("scale", "base", "unit"), [(1e11, 0, "in 1e11"), (1e-7, 0, "in 1e−7"), (1e-7, 3, "in 1e−8 from 3.0000002")]
)
def test_the_factor_of_ticks_is_in_the_label_and_nothing_is_cut(scale, base, unit):
    names = ("AdamW", "PsiLogic", "a_name_that_is_far_too_long_for_any_panel_of_a_figure")
    the_study = study(("gpt",), names)
    scores = {name: [base + scale * (2 + 0.1 * i + 0.01 * k) for k in range(3)] for i, name in enumerate(names)}
    drawing = drawn(draw_learning_curves, analysed(the_study, **scores))
    words = "validation loss (lower is better)", unit.replace(" ", "\N{NO-BREAK SPACE}")
    assert all(part in drawing.svg for part in words)
    assert cut(drawing.figure, shown(drawing.figure)) == []


@pytest.mark.parametrize(("inches", "labels"), [(10.0, True), (5.5, False), (3.3, True)])
def test_long_names_leave_most_of_a_panel_to_the_lines(inches, labels):
    """In the panels of a text's width, two in a row, all names are in the legend."""
    names = [f"schedule_free_adamw_beta2_0.{'9' * n}_no_decay" for n in (2, 3)]
    the_study = study(("gpt", "vit"), (*names, "PsiLogic"))
    analyses = analysed(the_study, **{names[0]: ["failed", 0.5, 0.5]})
    with figure_options(inches, 10.0 if inches == 10.0 else NORMAL_TEXT):
        styles = styles_of(analyses.suite)
        figure = draw_learning_curves(analyses, styles).figure
        axes = figure.axes[-1]
        shown = [text.get_text() for text in axes.texts]
        assert inner_width(axes) >= 0.4 * POINTS_PER_INCH * panel_width()
        titles = [" ".join(x.get_title(loc="left").split()) for x in figure.axes]
    if labels:
        first, second, _ = shown
        assert first.endswith("siLogic")
        assert second.endswith("…1 †2/3")
    else:
        assert shown == []
    assert titles == ["gpt: GPT-2, next token", "vit: ViT, image classification"]
    assert bool(figure.legends) is not labels


def test_of_many_lines_few_have_a_label_and_all_are_named_below():
    names = [f"O{i}" for i in range(11)]
    the_study = study(("gpt",), (*names, "PsiLogic"))
    scores = {name: [0.1 * i] * 3 for i, name in enumerate(names)} | {"PsiLogic": [0.52] * 3}
    figure = drawn(draw_learning_curves, analysed(the_study, **scores))
    panel, _, below = figure.svg.partition('<g id="legend_1">')
    labels = re.findall(r">(O\d+|PsiLogic)<", panel)
    assert sorted(labels) == sorted(["O0", "O1", "O2", "O3", "PsiLogic", "O7", "O8", "O9", "O10"])
    assert sorted(re.findall(r">(O\d+|PsiLogic)<", below)) == sorted([*names, "PsiLogic"])


def test_every_cross_is_seen_where_all_arms_diverge():
    the_study = study(("gpt",), ("Adam", "AdamW", "Lion", "PsiLogic"))
    lost = [sweep(lr=lr, outcome="diverged") for lr in (1e-4, 1e-3, 1e-2)]
    figure = drawn(draw_lr_sensitivity, analysed(the_study, Records(the_study, *lost)))
    crosses = re.findall(r'<use xlink:href="#(\w+)" x="([^"]+)" y="([^"]+)" style="fill', figure.svg)
    ticks = max((y for *_, y in crosses), key=float)
    assert len({(x, y) for _, x, y in crosses if y != ticks}) == 4 * 3
    assert "−0.0" not in figure.svg
