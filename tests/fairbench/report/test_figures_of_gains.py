"""The figures of gains at the end and over the training, and the figure of learning rates."""

import re

import pytest
from fabricated import Records, analysed, study, sweep
from test_figures import drawn, heads_of, texts_of

from fairbench.report.figures.leaderboard import draw_leaderboard
from fairbench.report.figures.learning_gains import draw_learning_gains
from fairbench.report.figures.lr_sensitivity import draw_lr_sensitivity
from fairbench.suites.compare import Compare

MANY = tuple(f"O{i}" for i in range(9))


def studied_gains(arenas):
    """The analyses of nine optimizers against AdamW. The later one is, the better it scores."""
    the_study = study(arenas, ("AdamW", *MANY), margin=0.01, reference="AdamW", compare=Compare(baselines=["AdamW"]))
    scores = {"AdamW": [0.5, 0.51, 0.52]}
    for i, name in enumerate(MANY):
        scores[name] = [0.40 + 0.02 * i, 0.41 + 0.02 * i, 0.421 + 0.02 * i]
    return analysed(the_study, Records(the_study, **scores))


def test_single_seeds_have_a_point_each():
    analyses = analysed(study(("vit",), ("AdamW", "PsiLogic", "Lion")), PsiLogic=[0.9, 0.92, 0.94])
    (panel,) = drawn(draw_leaderboard, analyses).parts
    drawn_seeds = [line for line in panel.axes.lines if line.get_alpha() and len(line.get_xdata()) == 3]
    assert [list(line.get_xdata()) for line in drawn_seeds] == [pytest.approx([0.4, 0.42, 0.44])] * 2


def test_many_optimizers_in_several_arenas_are_one_map_with_the_largest_gain_first():
    drawing = drawn(draw_leaderboard, studied_gains(("gpt", "vit")))
    (panel,) = drawing.parts
    assert len(panel.points) == 2 * len(MANY)
    assert panel.columns == ("arena", "gain", "low", "high")
    rows = [text.partition(",")[0] for text in texts_of(panel)[::2]]
    assert sorted(rows) == sorted(MANY)
    assert {point.numbers[0] for point in panel.points} == {"gpt", "vit"}
    best_in_vit = [text for text in heads_of(panel) if text.startswith("O8, vit")]
    assert best_in_vit == ["O8, vit: better, +0.0603"]
    assert set(re.findall(r">. (0\.0+)<", drawing.svg)) == {"0.000"}  # O5 has a gain of 0.0003
    assert drawing.svg.count("▲") == drawing.svg.count("▼") > 5  # what is a gain in vit is a loss in gpt


def test_many_optimizers_in_one_arena_keep_their_intervals():
    (panel,) = drawn(draw_leaderboard, studied_gains(("vit",))).parts
    assert texts_of(panel)[0].startswith("O8: +0.0603 [")


def test_gains_over_the_training_are_those_of_the_records_and_lie_where_the_axis_says():
    analyses = analysed(study(("gpt", "vit"), margin=0.1), PsiLogic=[0.9, 0.92, 0.94], AdamW=[0.5, 0.52, 0.55])
    gpt, vit = drawn(draw_learning_gains, analyses).parts
    assert [text.partition(" [")[0] for text in texts_of(vit)][:2] == [
        "AdamW, step 5: +0.3967",
        "AdamW, step 10: +0.3967",
    ]
    assert gpt.points[0].numbers[1] == pytest.approx(-0.39666667)
    assert vit.best == "high"
    assert vit.points[0].numbers[0] == 5  # the CSV has the step, and not the place next to it


def test_what_is_far_from_the_long_trainings_does_not_set_the_range():
    """The short trials have 50 where the long ones have 0.5, at three rates."""
    the_study = study(("gpt",), ("AdamW", "PsiLogic"), settings=3)
    records = Records(the_study, sweep(lr=1e-4, outcome=50.0), PsiLogic=[0.55, 0.56, 0.57])
    drawing = drawn(draw_lr_sensitivity, analysed(the_study, records))
    (panel,) = drawing.parts
    low, high = panel.axes.get_ylim()
    assert high - low < 1
    assert low < 0.5 < 0.56 < high
    selected = [text for text in panel.said if text.endswith("selected.")]
    assert len(selected) == 2


def test_selected_rates_of_all_arms_are_seen_one_above_the_other():
    arms = ("Adam", "AdamW", "Lion", "PsiLogic")
    (panel,) = drawn(draw_lr_sensitivity, analysed(study(("vit",), arms))).parts
    to_pixels = panel.axes.get_xaxis_transform()
    strip = [line for line in panel.axes.lines if line.get_transform() == to_pixels and line.get_marker() != "None"]
    heights = [
        float(line.get_ydata()[0]) for line in strip if re.fullmatch(r"panel0\.arm\d\.\d+", line.get_gid() or "")
    ]
    assert len(heights) == len(arms)
    assert len(set(heights)) == len(arms)
    assert min(heights) > 0.5  # at the top, where accuracy is best
