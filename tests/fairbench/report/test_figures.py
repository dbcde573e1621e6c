"""Figures draw the values of the tables, and are absent without values; sizes and labels."""

import io
import re
import zlib
from dataclasses import replace
from itertools import pairwise

import pytest
from fabricated import QUANTITIES, Records, analysed, finals, mechanism, recorded, study, sweep, timing, with_suite
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
from fairbench.report.figures import leaderboard as gains
from fairbench.report.figures.canvas import finished
from fairbench.report.figures.causes import draw_causes, draw_shocks
from fairbench.report.figures.drawing import MOST_PIXELS, Drawing, figure_options
from fairbench.report.figures.leaderboard import draw_leaderboard
from fairbench.report.figures.learning_curves import draw_learning_curves
from fairbench.report.figures.lr_sensitivity import draw_lr_sensitivity
from fairbench.report.figures.mechanism import acted, draw_mechanism
from fairbench.report.figures.panel import log_axis, separate
from fairbench.report.figures.step_time import draw_step_time
from fairbench.report.figures.style import NAME_WIDTH, short_names, styles_of
from fairbench.report.figures.text import POINTS_PER_INCH, fit_ticks, inner_width, panel_width, text_width, thin_ticks
from fairbench.report.study import NORMAL_TEXT, paper_figures
from fairbench.suites.compare import Compare

LONG_99 = "schedule_free_adamw_beta2_0.99_no_decay"
LONG_999 = "schedule_free_adamw_beta2_0.999_no_decay"


def analyses_of(the_study, *cases):
    scores = {"PsiLogic": [0.9, 0.92, 0.91], "AdamW": [0.5, 0.51, 0.55], "Lion": [0.6, 0.5, 0.55]}
    return analysed(the_study, Records(the_study, *cases, **scores))


def drawn(draw, analyses):
    with figure_options():
        return draw(analyses, styles_of(analyses.suite))


def texts_of(panel):
    return [point.text for point in panel.points]


def heads_of(panel):
    """The texts of the values of a panel, without their intervals."""
    return [text.partition(" [")[0] for text in texts_of(panel)]


def label_of(panel):
    """The label of the y axis of a panel, in one line."""
    return " ".join(panel.axes.get_ylabel().split())


def panel_of(drawing, arena):
    (panel,) = [panel for panel in drawing.parts if panel.arena == arena]
    return panel


def test_a_study_without_causes_has_no_figure_of_them():
    analyses = analyses_of(study(("vit",)), recorded({"details.mechanism": None}))
    assert drawn(draw_causes, analyses) is None
    assert drawn(draw_shocks, analyses) is None
    assert drawn(draw_mechanism, analyses) is None


def test_every_rung_is_in_its_panel():
    analyses = analyses_of(study(controls=["AdamW", "Lion", "PsiLogic"]))
    drawing = drawn(draw_causes, analyses)
    rows = [row for row in analyses.of(contributions) if row.arena == "vit"]
    panel = panel_of(drawing, "vit")
    assert len(panel.points) == len(rows) == 3
    assert panel.points[2].text.startswith("the whole: +0.390 [")
    order_of_points = sorted(range(3), key=lambda i: panel.points[i].x)
    order_of_rows = sorted(range(3), key=lambda i: rows[i].contribution)
    assert order_of_points == order_of_rows


def test_shocks_are_drawn_against_their_calm_twin():
    the_study = study(("vit",))
    calm = the_study.suite.arenas["vit"]
    twin = replace(calm, task="vit", tuning_arena="vit", shock={"kind": "loss", "at": [0.2]})
    both = with_suite(the_study, arenas={"vit": calm, "vit-x": twin})
    cases = [finals(arena="vit", outcome=0.9)]
    for i, name in enumerate(both.suite.optimizers):
        shocked = [0.9 - 0.1 * i * seed for seed in (1, 2, 3)]
        cases.append(finals(arena="vit-x", optimizer=name, scores=shocked))
    (panel,) = drawn(draw_shocks, analysed(both, Records(both, *cases))).parts
    assert heads_of(panel) == ["AdamW: 0", "Lion: +0.20", "PsiLogic: +0.40"]


def test_when_a_mechanism_acted():
    analyses = analyses_of(study(("vit",)))
    arm = analyses.results.arm("vit", "PsiLogic")
    assert acted(arm) == [(5, pytest.approx(0.25)), (10, pytest.approx(0.25))]
    never = {**QUANTITIES, "acted": ("tensor steps", {"a": 0.0})}
    idle = recorded({"details.mechanism": mechanism(never)}, optimizer="PsiLogic")
    assert drawn(draw_mechanism, analyses_of(study(("vit",)), idle)) is None
    (panel,) = drawn(draw_mechanism, analyses).parts
    assert texts_of(panel) == ["PsiLogic, until step 5: acted in 25%", "PsiLogic, until step 10: acted in 25%"]


def test_the_leaderboard_keeps_the_order_of_few_rows_and_fills_the_decided():
    optimizers = ("Adam", "AdamW", "Lion", "PsiLogic")
    the_study = study(("gpt", "vit"), optimizers, (1, 2, 3, 4), margin=0.1, compare=Compare())
    analyses = analysed(
        the_study,
        PsiLogic=[0.5, 0.51, 0.52, 0.5],
        AdamW=[0.9, 0.91, 0.92, 0.9],
        Adam=[0.7, 0.71, 0.7, 0.7],
        Lion=[0.5, 0.512, 0.518, 0.5],
    )
    drawing = drawn(draw_leaderboard, analyses)
    gpt, vit = drawing.parts
    assert [text.partition(":")[0] for text in texts_of(gpt)] == ["Adam", "AdamW", "Lion"]
    assert heads_of(vit)[:2] == ["Adam: +0.195", "AdamW: +0.400"]
    assert drawing.svg.count("fill: #ffffff; stroke") >= 2  # the hollow marks of Lion


def test_the_gains_over_one_baseline_have_a_panel_for_each_of_few_optimizers_in_margins():
    the_study = study(("gpt", "vit"), ("AdamW", "PsiLogic"), margin=0.1)
    analyses = analysed(the_study, PsiLogic=[0.5] * 3, AdamW=[0.7] * 3)
    (panel,) = drawn(draw_leaderboard, analyses).parts
    assert panel.arena == "PsiLogic"
    assert texts_of(panel) == ["PsiLogic, gpt, in margins: +2.00", "PsiLogic, vit, in margins: −2.00"]
    gpt, vit = panel.points
    assert gpt.numbers[0] == pytest.approx(2.0)
    assert vit.numbers[0] == pytest.approx(-2.0)


@NEEDS_TEX
def test_figures_for_a_paper_have_its_widths_and_text_of_at_least_seven_points(monkeypatch, tmp_path, usual_figures):
    learning_curves = Output("learning_curves", figure=draw_learning_curves)
    monkeypatch.setattr(report, "SECTIONS", [Section("", "", [learning_curves])])
    files = dict(paper_figures(analysed(study(("gpt", "vit")))))
    names = set()
    for part in ("3.3", "5.5", "gpt_3.3", "vit_3.3"):
        names |= {f"figures/paper/learning_curves_{part}in.svg", f"figures/paper/learning_curves_{part}in.pdf"}
    assert set(files) == names
    body = r"\hsize=3.3in "
    for name, content in files.items():
        write_atomically(tmp_path / name, content)
        if name.endswith(".svg"):
            check_svg_of_paper(name, (tmp_path / name).read_text())
        elif name.endswith("3.3in.pdf"):
            body += rf"\noindent\includegraphics{{{tmp_path / name}}}" + "\n\n"
    assert complaints(tmp_path, body) == []


def check_svg_of_paper(name, text):
    inches = float(name.rpartition("_")[2].removesuffix("in.svg"))
    width = re.search(r'width="([\d.]+)pt"', text)[1]
    assert float(width) == pytest.approx(72 * inches, abs=0.01)
    sizes = re.findall(r"font-size: ([\d.]+)px", text)
    assert min(map(float, sizes)) >= 7
    assert "sans-serif" in text
    assert ("ViT" in text) == ("_gpt_" not in name)  # a panel's file has nothing of the others


def test_fonts_are_embedded_and_pdfs_are_reproducible():
    figure = drawn(draw_leaderboard, analyses_of(study(("vit",))))
    pdf = figure.save("pdf")
    assert pdf == figure.save("pdf")
    assert b"/Type3" not in pdf, "publishers refuse them"
    fonts = embedded(pdf)
    assert len(fonts) >= 2
    for font in fonts:
        assert "glyf" in font
        assert "GPOS" not in font


def embedded(pdf):
    """The fonts in a PDF."""
    objects = re.findall(rb"/Length1 \d+.*?stream\r?\n(.*?)\nendstream", pdf, re.DOTALL)
    return [FontFile(io.BytesIO(zlib.decompress(packed))) for packed in objects]


def test_panels_of_any_name_stay_in_their_folder(monkeypatch):
    """Two baselines in four arenas have a panel each, and an optimizer may have any name."""
    leaderboard = Output("leaderboard", figure=draw_leaderboard)
    monkeypatch.setattr(report, "SECTIONS", [Section("", "", [leaderboard])])
    monkeypatch.setattr(Drawing, "save", lambda *_: b"")
    monkeypatch.setattr(gains, "final_gains", lambda *_: [])  # the arenas have no trials
    analyses = analyses_of(study(("gpt",), ("AdamW", "../../$\\x$", "PsiLogic")))
    in_gpt = analyses.comparisons
    names = ("gpt0", "gpt1", "gpt2", "gpt3")
    suite = replace(analyses.suite, arenas=dict.fromkeys(names, analyses.suite.arenas["gpt"]))
    analyses.comparisons = []
    for name in names:
        analyses.comparisons += [replace(comparison, arena=name) for comparison in in_gpt]
    analyses.results = replace(analyses.results, study=replace(analyses.results.study, suite=suite))
    files = dict(paper_figures(analyses))
    assert {name for name in files if name.endswith("3.3in.pdf")} == {
        "figures/paper/leaderboard_3.3in.pdf",
        "figures/paper/leaderboard_AdamW_3.3in.pdf",
        "figures/paper/leaderboard_2_3.3in.pdf",
    }


@pytest.mark.parametrize(("inches", "pixels"), [((10.0, 5.0), (1600, 800)), ((10.0, 500.0), (346, 17320))])
def test_a_png_has_a_limited_number_of_pixels(inches, pixels):
    """At the usual dpi one of 500 inches would be higher than matplotlib can draw."""
    drawing = finished(Figure(figsize=inches), {}, "name", "Title", "A caption.")
    picture = Image.open(io.BytesIO(drawing.save("png")))
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
    alike = (LONG_99, LONG_999, "schedule_free_adamw_beta2_0.9999_no_decay")
    with figure_options():
        labels = short_names([*alike, "AdamW", "$x$"])
    assert labels["AdamW"] == "AdamW"
    assert labels["$x$"] == "$x$"
    assert len(set(labels.values())) == 5
    for label in labels.values():
        assert text_width(label, weight="bold") <= NAME_WIDTH
    analyses = analyses_of(study(("vit",), (*alike, "PsiLogic")))
    for draw in (draw_leaderboard, draw_lr_sensitivity):
        drawing = drawn(draw, analyses)
        texts = " ".join(texts_of(drawing.parts[0]))
        for name in alike:
            assert labels[name] in drawing.svg
            assert name in texts


def test_one_seed_has_no_deviation_and_steps_are_whole():
    the_study = study(("vit",), ("AdamW", "PsiLogic"), seeds=(1,), breaks=["split"])
    figure = drawn(draw_learning_curves, analysed(the_study))
    assert set(texts_of(figure.parts[0])) == {
        "AdamW, step 5: 0.5000",
        "AdamW, step 10: 0.5000",
        "PsiLogic, step 5: 0.5000",
        "PsiLogic, step 10: 0.5000",
    }
    assert "±" not in "".join(figure.parts[0].said)
    assert ">7.5<" not in figure.svg
    assert label_of(figure.parts[0]) == "test accuracy (higher is better)"
    assert "validation" not in figure.svg


def test_a_bar_of_step_time_is_as_long_as_its_label_says():
    """Of five trials, three have another slow phase each: the bar is made of the medians of the phases."""

    def edits(spec):
        values = {"cost.seconds.data": 0.1, "cost.seconds.forward": 0.1, "cost.seconds.backward": 0.1}
        slow_phases = {1: "data", 2: "forward", 3: "backward"}
        if spec.seed in slow_phases:
            values[f"cost.seconds.{slow_phases[spec.seed]}"] = 1.0
        return values

    the_study = study(("vit",), ("AdamW", "PsiLogic"))
    analyses = analysed(the_study, Records(the_study, timing(), recorded(edits)))
    cost = analyses.of(costs)[0]
    assert (cost.data_ms, cost.forward_ms, cost.backward_ms, cost.step_ms) == (10.0, 10.0, 10.0, 4.0)
    assert cost.train_ms == 34.0


@pytest.mark.parametrize(("data_on", "speaks_of_noise"), [("cpu", True), ("program", False)])
def test_the_factor_over_adamw_mentions_noise_only_after_it_was_told(data_on, speaks_of_noise):
    the_study = study(("vit",), ("AdamW", "PsiLogic"))
    analyses = analysed(the_study, Records(the_study, timing(), recorded({"cost.data_on": data_on})))
    caption = drawn(draw_step_time, analyses).caption
    assert "over AdamW" in caption
    assert ("noise" in caption) == speaks_of_noise


LINEAR = ((-0.0125, 0.0102), (-3e6, 2e6), (0, 40), (0.001, 0.0012))
LOGARITHMIC = ((1e-5, 10), (0.02, 0.7), (2e-4, 1.1e-3))


@pytest.mark.parametrize("limits", [*LINEAR, *LOGARITHMIC])
def test_labels_of_ticks_do_not_overlap(limits):
    """Measured on what matplotlib really draws."""
    with figure_options():
        figure = Figure(figsize=(1.6, 1))
        canvas = FigureCanvasAgg(figure)
        axes = figure.add_axes((0.1, 0.3, 0.8, 0.6))
        if limits in LOGARITHMIC:
            log_axis(axes, limits)
        axes.set_xlim(*limits)
        fit_ticks(axes)
        canvas.draw()
        boxes = []
        for label in axes.get_xticklabels():
            value, _ = label.get_position()
            if limits[0] <= value <= limits[1]:
                boxes.append(label.get_window_extent())
    assert boxes
    for left, right in pairwise(boxes):
        assert left.x1 < right.x0


def test_ticks_of_a_wide_scale_are_thinned_alike_on_both_sides():
    with figure_options():
        figure = Figure(figsize=(2.5, 1))
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.1, 0.3, 0.8, 0.6))
        axes.set_xlim(-1000, 1000)
        axes.set_xscale("symlog", linthresh=0.002)
        axes.xaxis.set_major_formatter("{x:g}")
        ticks = [0.002, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]
        kept = thin_ticks(axes, ticks)
    assert sorted(kept) == sorted(-x for x in kept)
    assert 3 <= len(kept) < 2 * len(ticks) + 1


@pytest.mark.parametrize(
    ("scale", "base", "unit"), [(1e11, 0, "in 1e11"), (1e-7, 0, "in 1e−7"), (1e-7, 3, "in 1e−8 from 3.0000002")]
)
def test_the_factor_of_ticks_is_in_the_label_and_nothing_is_cut(scale, base, unit):
    names = ("AdamW", "PsiLogic", "a_name_that_is_far_too_long_for_any_panel_of_a_figure")
    the_study = study(("gpt",), names)
    scores = {}
    for i, name in enumerate(names):
        in_scale = (2 + 0.1 * i, 2 + 0.1 * i + 0.01, 2 + 0.1 * i + 0.02)
        scores[name] = [base + scale * score for score in in_scale]
    drawing = drawn(draw_learning_curves, analysed(the_study, **scores))
    assert label_of(drawing.parts[0]) == f"validation loss (lower is better), {unit}"
    assert cut(drawing.figure, shown(drawing.figure)) == []


@pytest.mark.parametrize(("inches", "labels"), [(10.0, True), (5.5, False), (3.3, True)])
def test_long_names_leave_most_of_a_panel_to_the_lines(inches, labels):
    """In the panels of a text's width, two in a row, all names are in the legend."""
    the_study = study(("gpt", "vit"), (LONG_99, LONG_999, "PsiLogic"))
    analyses = analysed(the_study, **{LONG_99: ["failed", 0.5, 0.5]})
    size_of_text = 10.0 if inches == 10.0 else NORMAL_TEXT
    with figure_options(inches, size_of_text):
        styles = styles_of(analyses.suite)
        figure = draw_learning_curves(analyses, styles).figure
        axes = figure.axes[-1]
        shown = [text.get_text() for text in axes.texts]
        assert inner_width(axes) >= 0.4 * POINTS_PER_INCH * panel_width()
        titles = [axes.get_title(loc="left").replace("\n", " ") for axes in figure.axes]
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
    scores = {"PsiLogic": [0.52] * 3}
    for i, name in enumerate(names):
        scores[name] = [0.1 * i] * 3
    figure = drawn(draw_learning_curves, analysed(the_study, **scores))
    panel, _, below = figure.svg.partition('<g id="legend_1">')
    name = re.compile(r">(O\d+|PsiLogic)<")
    assert sorted(name.findall(panel)) == sorted(["O0", "O1", "O2", "O3", "PsiLogic", "O7", "O8", "O9", "O10"])
    assert sorted(name.findall(below)) == sorted([*names, "PsiLogic"])


def test_every_cross_is_seen_where_all_arms_diverge():
    the_study = study(("gpt",), ("Adam", "AdamW", "Lion", "PsiLogic"))
    lost = [sweep(lr=lr, outcome="diverged") for lr in (1e-4, 1e-3, 1e-2)]
    figure = drawn(draw_lr_sensitivity, analysed(the_study, Records(the_study, *lost)))
    marks = set(re.findall(r'<use xlink:href="#\w+" x="([^"]+)" y="([^"]+)" style="fill', figure.svg))
    lowest = max((y for _, y in marks), key=float)
    crosses = [(x, y) for x, y in marks if y != lowest]  # the ticks of the axis are the lowest marks
    assert len(crosses) == 4 * 3
    assert "−0.0" not in figure.svg
