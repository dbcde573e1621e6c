"""Learning curves, the search of each arm, and the setting that it selected."""

from collections.abc import Sequence
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit.search import edge
from fairbench.analysis.budget import search_in_words
from fairbench.analysis.results import ArmResults
from fairbench.common.formatting import NONE, rate
from fairbench.report.document import Output, Section
from fairbench.report.figures.learning_curves import draw_learning_curves, draw_training_loss
from fairbench.report.figures.lr_sensitivity import draw_lr_sensitivity
from fairbench.report.view import ARM, Column
from fairbench.suites.schema import RULES
from fairbench.suites.search import Setting, are_numbers

CURVES = Section[Analyses](
    "curves",
    "Learning curves",
    (
        Output("learning_curves", figure=draw_learning_curves, open_up_to=1),
        Output("training_loss", figure=draw_training_loss),
    ),
)


def _columns(analyses: Analyses) -> tuple[Column, ...]:
    return (
        *ARM,
        Column("Located", lambda arm: _rate(arm.located), lambda arm: arm.located and arm.located.lr),
        Column("Selected", lambda arm: _rate(arm.selected), lambda arm: arm.selected and arm.selected.lr),
        *(_extra(name, values) for name, values in analyses.suite.sweep.extra.items()),
        Column("DeviceSlot among the rates tried", _where),
        Column("Tried", lambda arm: str(len(arm.rates)), lambda arm: len(arm.rates)),
        Column("From", lambda arm: rate(min(arm.rates, default=None)), lambda arm: min(arm.rates, default=None)),
        Column("To", lambda arm: rate(max(arm.rates, default=None)), lambda arm: max(arm.rates, default=None)),
    )


def _rate(setting: Setting | None) -> str:
    return rate(setting.lr) if setting else NONE


def _caption(analyses: Analyses) -> str:
    suite = analyses.suite
    unread = " ".join(f"By choice of the suite, {RULES[rule]}." for rule in suite.breaks)
    return (
        f"Selected on the {suite.selection_name} split by the same rule for every optimizer: "
        f"{search_in_words(analyses.results.study)}. Located: the best of the short trials. "
        f"{unread or 'The test split was not used for it.'}"
    )


def _extra(name: str, values: Sequence[Any]) -> Column:
    """The selected value of a hyperparameter that is searched with the rate."""

    def value(arm: ArmResults) -> Any:
        return dict(arm.selected.extra).get(name) if arm.selected else None

    def text(arm: ArmResults) -> str:
        known = value(arm)
        return NONE if known is None else rate(known) if are_numbers(values) else str(known)

    return Column(name.capitalize().replace("_", " "), text, value if are_numbers(values) else None)


def _where(arm: ArmResults) -> str:
    if not arm.tuned:
        return "untuned: none was searched"
    if arm.diverged:
        return "diverged at every rate"
    end = edge(arm)
    return {"": "sweep incomplete", "inside": "inside"}.get(end, f"{end}: at the edge")


RATES = Section[Analyses](
    "rates",
    "Learning rates",
    (
        Output("lr_sensitivity", figure=draw_lr_sensitivity, open_up_to=1),
        Output(
            "learning_rates",
            "Selected rates",
            lambda a: [arm for arm in a.results.arms if arm.sweep or not arm.tuned],
            _columns,
            _caption,
        ),
    ),
)
