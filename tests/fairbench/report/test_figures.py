"""Figures draw the values of the tables, and are absent without values; sizes and labels."""

import io
from dataclasses import replace
from itertools import pairwise

import pytest
from fabricated import QUANTITIES, Records, finals, history, study
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from fairbench.analysis.analyse import analyse
from fairbench.report.figures.canvas import MOST_PIXELS, finished, style
from fairbench.report.figures.causes import acted, draw_causes, draw_mechanism, draw_shocks
from fairbench.report.figures.curves_and_times import draw_learning_curves
from fairbench.report.figures.labels import fit_ticks, separate, thin_ticks
from fairbench.report.figures.leaderboard import draw_leaderboard
from fairbench.report.figures.looks import LONGEST_NAME, looks_of, short_names
from fairbench.report.figures.lr_sensitivity import draw_lr_sensitivity


def analyses_of(the_study, **options):
    scores = {"PsiLogic": [0.9, 0.92, 0.91], "AdamW": [0.5, 0.51, 0.55], "Lion": [0.6, 0.5, 0.55]}
    return analyse(history(the_study), Records(finals(the_study, **scores), **options))


def drawn(draw, analyses):
    with style():
        return draw(analyses, looks_of(analyses.suite))


def test_a_study_without_causes_has_no_figure_of_them():
    analyses = analyses_of(study(("vit",)), quantities=None)
    assert [drawn(draw, analyses) for draw in (draw_causes, draw_shocks, draw_mechanism)] == [None, None, None]


def test_every_rung_is_in_its_panel():
    analyses = analyses_of(study(ladder=["AdamW", "Lion", "PsiLogic"]))
    drawing = drawn(draw_causes, analyses)
    rows = [x for x in analyses.contributions if x.arena == "vit"]
    (part,) = (part for part in drawing.parts if part.arena == "vit")
    assert len(part.points) == len(rows) == 3
    assert part.points[2][3].startswith("the whole: +0.390 [")
    at = [x for x, *_ in part.points]
    assert sorted(range(3), key=at.__getitem__) == sorted(range(3), key=lambda i: rows[i].contribution)


def test_shocks_are_drawn_against_their_calm_twin():
    the_study = study(("vit",))
    calm = the_study.suite.arenas["vit"]
    twin = replace(calm, task="vit", tuned_on="vit", shock={"kind": "loss", "at": [0.2]})
    suite = replace(the_study.suite, arenas={"vit": calm, "vit-x": twin})
    both = replace(the_study, suite=suite, arenas={**the_study.arenas, "vit-x": the_study.arenas["vit"]})
    records = {("vit", name): dict.fromkeys((1, 2, 3), 0.9) for name in suite.optimizers}
    harmed = {name: {seed: 0.9 - 0.1 * i * seed for seed in (1, 2, 3)} for i, name in enumerate(suite.optimizers)}

    class Shocked(Records):
        def __call__(self, spec):
            named = replace(spec, arena=replace(spec.arena, name="vit"))
            if spec.arena.name == "vit-x":
                return self.record(named, harmed[spec.optimizer.name][spec.seed])
            return super().__call__(spec)

    analyses = analyse(history(both), Shocked(records))
    (part,) = drawn(draw_shocks, analyses).parts
    assert [said.partition(" [")[0] for *_, said in part.points] == ["AdamW: 0", "Lion: +0.20", "PsiLogic: +0.40"]


def test_when_a_mechanism_acted():
    analyses = analyses_of(study(("vit",)))
    arm = analyses.results.arm("vit", "PsiLogic")
    assert acted(arm) == [(5, pytest.approx(0.25)), (10, pytest.approx(0.25))]
    never = {**QUANTITIES, "acted": ("tensor steps", {"a": 0.0})}
    assert drawn(draw_mechanism, analyses_of(study(("vit",)), quantities=never)) is None
    (part,) = drawn(draw_mechanism, analyses).parts
    assert [said for *_, said in part.points] == [f"PsiLogic, until step {s}: acted in 25%" for s in (5, 10)]


def test_the_leaderboard_sorts_each_panel_and_fills_the_decided():
    the_study = study(("gpt", "vit"), ("Adam", "AdamW", "Lion", "PsiLogic"), (1, 2, 3, 4), margin=0.1)
    scores = {"PsiLogic": [0.5, 0.51, 0.52, 0.5], "AdamW": [0.9, 0.91, 0.92, 0.9], "Adam": [0.7, 0.71, 0.7, 0.7]}
    scores["Lion"] = [0.5, 0.512, 0.518, 0.5]
    drawing = drawn(draw_leaderboard, analyse(history(the_study), Records(finals(the_study, **scores))))
    gpt, vit = drawing.parts
    assert [text.partition(":")[0] for *_, text in gpt.points] == ["Lion", "Adam", "AdamW"]
    assert [text.partition(" [")[0] for *_, text in vit.points][:2] == ["AdamW: +0.4000", "Adam: +0.1950"]
    assert drawing.svg.count("fill: #ffffff; stroke") >= 2  # the hollow marks of Lion
    scores["Adam"] = ["diverged", 0.7, 0.7, 0.7]  # two baselines are too few
    assert drawn(draw_leaderboard, analyse(history(the_study), Records(finals(the_study, **scores)))) is None


@pytest.mark.parametrize(("inches", "pixels"), [((10.0, 5.0), (1600, 800)), ((10.0, 500.0), (346, 17320))])
def test_a_png_has_a_limited_number_of_pixels(inches, pixels):
    """At the usual dpi one of 500 inches would be higher than matplotlib can draw."""
    picture = Image.open(io.BytesIO(finished(Figure(figsize=inches), {}, "name", "Title", "A caption.").png))
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
    labels = short_names([*alike, "AdamW", "$x$"])
    assert (labels["AdamW"], labels["$x$"], len({*labels.values()})) == ("AdamW", r"\$x\$", 5)
    assert max(map(len, labels.values())) <= LONGEST_NAME
    analyses = analyses_of(study(("vit",), (*alike, "PsiLogic")))
    for draw in (draw_leaderboard, draw_lr_sensitivity):
        figure = drawn(draw, analyses)
        assert all(labels[each] in figure.svg for each in alike)
        assert all(any(each in text for *_, text in figure.parts[0].points) for each in alike)


def test_one_seed_has_no_deviation_and_steps_are_whole():
    the_study = study(("vit",), ("AdamW", "PsiLogic"), seeds=(1,), breaks=["split"])
    figure = drawn(draw_learning_curves, analyse(history(the_study), Records(finals(the_study))))
    assert {text for *_, text in figure.parts[0].points} == {
        f"{name}, step {step}: 0.5000" for name in ("AdamW", "PsiLogic") for step in (5, 10)
    }
    assert "±" not in figure.parts[0].summary
    assert "7.5" not in figure.svg
    assert "test accuracy (higher is better)" in figure.svg
    assert "validation" not in figure.svg


def test_a_bar_of_step_time_is_as_long_as_its_label_says():
    """Three trials with another slow phase each: the bar is made of the medians of the phases, and so is its label."""

    class Busy(Records):
        def record(self, spec, outcome):
            record = super().record(spec, outcome)
            phases = ["data", "forward", "backward"]
            record["cost"]["seconds"] |= {x: 1.0 if phases.index(x) == spec.seed - 1 else 0.1 for x in phases}
            return record

    the_study = study(("vit",), ("AdamW", "PsiLogic"))
    cost = analyse(history(the_study), Busy(finals(the_study))).costs[0]
    assert (cost.data_ms, cost.forward_ms, cost.backward_ms, cost.step_ms) == (10.0, 10.0, 10.0, 4.0)
    assert cost.train_ms == 34.0


@pytest.mark.parametrize("limits", [(-0.0125, 0.0102), (-3e6, 2e6), (0, 40), (0.001, 0.0012)])
def test_labels_of_ticks_do_not_overlap(limits):
    """Measured on what matplotlib really draws."""
    with style():
        figure = Figure(figsize=(1.6, 1))
        canvas, axes = FigureCanvasAgg(figure), figure.add_axes((0.1, 0.3, 0.8, 0.6))
        axes.set_xlim(*limits)
        fit_ticks(axes)
        canvas.draw()
        inside = [x for x in axes.get_xticklabels() if limits[0] <= x.get_position()[0] <= limits[1]]
        boxes = [label.get_window_extent() for label in inside]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    assert boxes


def test_ticks_of_a_wide_scale_are_thinned_alike_on_both_sides():
    with style():
        figure = Figure(figsize=(2.5, 1))
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.1, 0.3, 0.8, 0.6))
        axes.set_xlim(-1000, 1000)
        axes.set_xscale("symlog", linthresh=0.002)
        axes.xaxis.set_major_formatter("{x:g}")
        ticks = [0.002, *(10.0**k for k in range(-2, 4))]
        kept = thin_ticks(axes, [*(-x for x in ticks), 0, *ticks])
    assert sorted(kept) == sorted(-x for x in kept)
    assert 3 <= len(kept) < 2 * len(ticks) + 1
