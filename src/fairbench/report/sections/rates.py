"""Learning curves, the search of each arm, and the setting that it selected."""

from collections.abc import Sequence
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit.search import edge
from fairbench.analysis.budget import search_in_words
from fairbench.analysis.results import ArmResults
from fairbench.common.formatting import NONE, rate
from fairbench.report.columns import ARM
from fairbench.report.document import Output, Section
from fairbench.report.figures.learning_curves import draw_learning_curves, draw_training_loss
from fairbench.report.figures.learning_gains import draw_learning_gains
from fairbench.report.figures.lr_sensitivity import draw_lr_sensitivity
from fairbench.report.view import TextColumn
from fairbench.suites.schema import RULES
from fairbench.suites.search import Setting, are_numbers

CURVES = Section[Analyses](
    name="curves",
    title="Learning curves",
    outputs=(
        Output(name="learning_curves", figure=draw_learning_curves, open_up_to=1),
        Output(name="learning_gains", figure=draw_learning_gains, open_up_to=1),
        Output(name="training_loss", figure=draw_training_loss),
    ),
)


def _rate_of(setting: Setting | None) -> float | None:
    """The learning rate of a setting; None without a setting."""
    return setting.lr if setting else None


def _rate_text(setting: Setting | None) -> str:
    """The learning rate of a setting as text; a dash without a setting."""
    return rate(setting.lr) if setting else NONE


def _least_rate(arm: ArmResults) -> float | None:
    """The least learning rate that an arm tried; None without any."""
    return min(arm.rates, default=None)


def _largest_rate(arm: ArmResults) -> float | None:
    """The largest learning rate that an arm tried; None without any."""
    return max(arm.rates, default=None)


def _place(arm: ArmResults) -> str:
    """The place of the selected rate among the rates that were tried, in words."""
    if not arm.tuned:
        return "untuned: none was searched"
    if arm.diverged:
        return "diverged at every rate"
    place = edge(arm)
    if not place:
        return "sweep incomplete"
    if place == "inside":
        return "inside"
    return f"{place}: at the edge"


LOCATED = TextColumn(
    title="Located",
    show=lambda arm: _rate_text(arm.located),
    value=lambda arm: _rate_of(arm.located),
)
SELECTED = TextColumn(
    title="Selected",
    show=lambda arm: _rate_text(arm.selected),
    value=lambda arm: _rate_of(arm.selected),
)
PLACE = TextColumn("Place among the rates tried", _place)
TRIED = TextColumn(
    title="Tried",
    show=lambda arm: str(len(arm.rates)),
    value=lambda arm: len(arm.rates),
)
FROM = TextColumn("From", lambda arm: rate(_least_rate(arm)), value=_least_rate)
TO = TextColumn("To", lambda arm: rate(_largest_rate(arm)), value=_largest_rate)


def _columns(analyses: Analyses) -> list[TextColumn]:
    """The columns of the table of selected rates, with one for each further searched hyperparameter."""
    columns = [*ARM, LOCATED, SELECTED]
    for name, values in analyses.suite.sweep.extra.items():
        columns.append(_searched_column(name, values))
    columns += [PLACE, TRIED, FROM, TO]
    return columns


def _searched_column(name: str, values: Sequence[Any]) -> TextColumn:
    """A column with the selected value of a hyperparameter that is searched with the rate."""

    def value(arm: ArmResults) -> Any:
        if arm.selected is None:
            return None
        return dict(arm.selected.extra).get(name)

    def number_text(arm: ArmResults) -> str:
        selected = value(arm)
        return NONE if selected is None else rate(selected)

    def text(arm: ArmResults) -> str:
        selected = value(arm)
        return NONE if selected is None else str(selected)

    title = name.capitalize().replace("_", " ")
    if are_numbers(values):
        return TextColumn(title, number_text, value=value)
    return TextColumn(title, text)


def _caption(analyses: Analyses) -> str:
    """The caption of the table of selected rates."""
    suite = analyses.suite
    choices = [f"By choice of the suite, {RULES[rule]}." for rule in suite.breaks]
    if not choices:
        choices = ["The test split was not used for it."]
    return (
        f"Selected on the {suite.selection_name} split by the same rule for every optimizer: "
        f"{search_in_words(analyses.results.study)}. Located: the best of the short trials. "
        f"{' '.join(choices)}"
    )


def _searched_arms(analyses: Analyses) -> list[ArmResults]:
    """The arms that have begun their search, and the arms that are not tuned."""
    return [arm for arm in analyses.results.arms if arm.sweep or not arm.tuned]


RATES_TABLE = Output[Analyses](
    name="learning_rates",
    title="Selected rates",
    rows=_searched_arms,
    columns=_columns,
    caption=_caption,
)

RATES = Section[Analyses](
    name="rates",
    title="Learning rates",
    outputs=(
        Output(name="lr_sensitivity", figure=draw_lr_sensitivity, open_up_to=1),
        RATES_TABLE,
    ),
)
