"""Text of figures stays in them, whatever names are; measured on what matplotlib draws."""

from itertools import combinations

import pytest
from fabricated import Records, analysed, given, study, timing, with_horizons, with_ladder

from fairbench.analysis.comparison.controls import Contribution, contributions
from fairbench.analysis.comparison.shocks import ShockCost, shock_costs
from fairbench.analysis.comparison.size_trends import SizeTrend, size_trends
from fairbench.report.figures.canvas import panels
from fairbench.report.figures.drawing import figure_options
from fairbench.report.sections import SECTIONS
from fairbench.report.study import COLUMN_WIDTH, NORMAL_TEXT, TEXT_WIDTH, draw_figures

LONG = [
    "schedule_free_adamw_beta2_0.9_no_decayWW",
    "schedule_free_adamw_beta2_0.99_no_decayW",
    "schedule_free_adamw_beta2_0.999_no_decay",
    "schedule_free_adamw_beta2_0.9999_no_decay",
]


@pytest.fixture(scope="module")
def analyses():
    """Every figure has data, names have 40 characters, and seeds of some arms diverged."""
    begun = study(("gpt", "vit"), (*LONG, "PsiLogic"), (1, 2, 3, 4, 5, 6))
    ladder = with_ladder(begun, (1000, 2000), (1,))
    the_study = with_horizons(ladder, 0.5, 2)
    lost = {
        LONG[0]: [0.5, 0.51, 0.52, 0.5, 0.49, "diverged"],
        LONG[1]: [0.6, 0.61, 0.6, 0.6, "diverged", "diverged"],
    }
    found = {contributions: [], shock_costs: [], size_trends: []}
    for i, name in enumerate(LONG):
        found[size_trends].append(trend_of(name, i))
    for arena in ("gpt", "vit"):
        for i, name in enumerate(LONG):
            found[contributions].append(contribution_of(arena, name, i))
            found[shock_costs].append(shock_of(arena, name, i))
    return given(analysed(the_study, Records(the_study, timing(), **lost)), found)


def trend_of(name, i):
    return SizeTrend(
        arena="gpt",
        optimizer=name,
        reference="PsiLogic",
        metric="loss",
        verdict="holds",
        speedup=i + 0.5,
        smallest=i + 0.4,
        largest=i + 0.6,
        trend=0.1,
    )


def contribution_of(arena, name, i):
    return Contribution(
        arena=arena,
        metric="loss",
        part="ablation step",
        optimizer=name,
        before=LONG[0],
        n=4,
        contribution=i / 9,
        ci_low=-0.02,
        ci_high=0.04,
        note="",
    )


def shock_of(arena, name, i):
    return ShockCost(
        arena=arena,
        undisturbed="gpt",
        optimizer=name,
        n=6,
        diverged=i,
        excess=12.0,
        recovery=30.0,
        recovered=0.5,
        lost=i / 9,
        lost_low=0.05,
        lost_high=0.15,
    )


def texts(figure):
    """All texts of a figure that it shows."""
    for axes in figure.axes:
        found = [axes._left_title, axes.xaxis.label, *axes.texts]
        found += texts_of_axis(axes.xaxis, axes.get_xlim())
        found += texts_of_axis(axes.yaxis, axes.get_ylim())
        yield from found
        if axes.get_legend():
            yield from axes.get_legend().get_texts()
    for legend in figure.legends:
        yield from legend.get_texts()


def texts_of_axis(axis, limits):
    """The label of an axis and those of its ticks within the limits; none if it is hidden."""
    if not axis.get_visible():
        return []
    low, high = sorted(limits)
    found = [axis.label]
    for value, label in zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=True):
        if low <= value <= high:
            found.append(label)
    return found


def shown(figure):
    """Each text that a figure shows, and its box."""
    figure.canvas.draw()
    return [(text.get_text(), text.get_window_extent()) for text in set(texts(figure)) if text.get_text()]


def cut(figure, boxes):
    """The texts in these boxes that a figure does not show whole."""
    found = []
    for text, box in boxes:
        beyond = box.p1 - figure.bbox.p1
        if min(box.p0) < -0.5 or max(beyond) > 0.5:
            found.append(text)
    return found


@pytest.mark.parametrize("width", [COLUMN_WIDTH, pytest.param(TEXT_WIDTH, marks=pytest.mark.soak)])
def test_text_of_a_paper_is_inside_and_leaves_space(analyses, width):
    drawings = draw_figures(analyses, width, NORMAL_TEXT)
    names = set()
    for section in SECTIONS:
        names |= {output.name for output in section.outputs if output.figure}
    assert {drawing.name for drawing in drawings} == names
    for drawing in drawings:
        figure = drawing.figure
        boxes = shown(figure)
        sizes = [text.get_size() for text in texts(figure) if text.get_text()]
        assert min(sizes) >= 7, drawing.name
        assert cut(figure, boxes) == [], drawing.name
        overlapping = [pair for pair in combinations(boxes, 2) if overlap(*pair)]
        assert overlapping == [], drawing.name
        across = figure.bbox.width / (NORMAL_TEXT / 10 * figure.dpi / 72)
        for part, axes in zip(drawing.parts, figure.axes, strict=True):
            assert axes.get_position().width * across >= 0.4 * part.box.width, (drawing.name, part.arena)


def overlap(one, other):
    """Whether two boxes share more than the edge of a letter."""
    _, box = one
    _, other_box = other
    low, high = box.get_points()
    other_low, other_high = other_box.get_points()
    if not (low + 1 < other_high).all():
        return False
    return bool((other_low + 1 < high).all())


@pytest.mark.parametrize("width", [COLUMN_WIDTH, TEXT_WIDTH])
def test_a_long_title_has_all_its_letters(width):
    title = f"{LONG[0]}_of_arena: Vision Transformer, classification of images"
    with figure_options(width, NORMAL_TEXT):
        figure, by_arena = panels({"a": title, "b": "short"}, height=2.4)
        figure.canvas.draw()
    panel = by_arena["a"]
    box = panel.box
    text = panel.axes._left_title
    assert "".join(text.get_text().split()) == "".join(title.split())
    extent = text.get_window_extent()
    to_points = 72 / figure.dpi / (NORMAL_TEXT / 10)
    assert extent.x1 * to_points <= box.left + box.width
    assert extent.y1 <= figure.bbox.y1
