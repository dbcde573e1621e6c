"""The search of each arm, and the setting that it selected."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit.search import edge
from fairbench.analysis.budget import search_in_words
from fairbench.analysis.results import ArmResults
from fairbench.common.formatting import NONE, rate
from fairbench.report.figures.lr_sensitivity import draw_lr_sensitivity
from fairbench.report.output import Output, Section
from fairbench.report.view import ARM, Column
from fairbench.study.plan import Selection
from fairbench.suites.schema import RULES
from fairbench.suites.search import Setting, are_numbers


def _columns(analyses: Analyses) -> tuple[Column, ...]:
    sweep = analyses.suite.sweep
    return (
        *ARM,
        *([_selected("By the sweep", lambda x: x.lr, is_number=True, by="searched")] if sweep.confirm else []),
        _selected("Selected", lambda setting: setting.lr, is_number=True),
        *(_extra(name, values) for name, values in sweep.extra.items()),
        Column("Place among the rates tried", _where),
        Column("Tried", lambda arm: str(len(arm.rates)), lambda arm: len(arm.rates)),
        Column("From", lambda arm: rate(min(arm.rates, default=None)), lambda arm: min(arm.rates, default=None)),
        Column("To", lambda arm: rate(max(arm.rates, default=None)), lambda arm: max(arm.rates, default=None)),
    )


def _caption(analyses: Analyses) -> str:
    suite = analyses.suite
    unread = " ".join(f"By choice of the suite, {RULES[rule]}." for rule in suite.breaks)
    return (
        f"Selected on the {suite.selection_name} split by the same rule for every optimizer: "
        f"{search_in_words(analyses.results.study)}. "
        f"{unread or 'Neither the test split nor the final seeds were used for it.'}"
    )


def _extra(name: str, values: Sequence[Any]) -> Column:
    """The selected value of a hyperparameter that is searched with the rate."""
    title = name.capitalize().replace("_", " ")
    return _selected(title, lambda setting: dict(setting.extra).get(name), are_numbers(values))


def _selected(title: str, of: Callable[[Setting], Any], is_number: bool, by: str = "selected") -> Column:
    """A part of the selected settings; where repeated searches selected several, the number of final seeds of each."""

    def most_common(arm: ArmResults) -> list[tuple[Any, int]]:
        selection: Selection = getattr(arm, by)
        return Counter(
            of(selection.by_seed[run.seed]) for run in arm.final if run.seed in selection.by_seed
        ).most_common()

    def text(arm: ArmResults) -> str:
        values = [(rate(value) if is_number else str(value), n) for value, n in most_common(arm) if value is not None]
        return ", ".join(f"{value} ({n})" if len(values) > 1 else value for value, n in values) or NONE

    return Column(title, text, (lambda arm: next(iter(most_common(arm)), (None,))[0]) if is_number else None)


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
        Output("lr_sensitivity", figure=draw_lr_sensitivity),
        Output(
            "learning_rates",
            "Selected rates",
            lambda a: [arm for arm in a.results.arms if arm.sweep or not arm.tuned],
            _columns,
            _caption,
        ),
    ),
)
