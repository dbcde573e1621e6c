"""`fairbench check`: whether an optimizer does what a training relies on, tested on a small task."""

from dataclasses import asdict, replace
from typing import Any

from fairbench.common.checks import Check, Flag
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.training.check import cost, gradients, learning, repeating
from fairbench.training.check.case import Case, case_of, error_text, trained
from fairbench.training.determinism import one_thread

CONTRACT_CHECKS: tuple[Check[Case], ...] = (
    learning.trains,
    learning.lr_schedule,
    learning.parameter_groups,
    repeating.resumes,
    repeating.deterministic,
    repeating.global_random_state,
    gradients.gradients_untouched,
    gradients.missing_gradients,
    gradients.zero_gradients,
    gradients.sparse_gradients,
    gradients.bfloat16_weights,
    gradients.closure,
    cost.state,
    cost.step_time,
)
"""Every check, in the order in which they are shown."""

NO_STEP = (
    "fix this first; if the optimizer needs a closure, or gradients with a graph, state that as its `needs` in a suite "
    "file (--suite)"
)


def check_optimizer(name: str, plan: OptimizerPlan) -> list[dict[str, Any]]:
    """The result of every check of an optimizer, as plain values that a process can send.

    Raises:
        UsageError: the optimizer does not exist, or has no such hyperparameter.
    """
    with one_thread():
        untrained = case_of(name, plan)
        try:
            case = trained(untrained)
        except Exception as error:
            return [asdict(Flag(learning.trains.name, "fail", error_text(error), NO_STEP))]
        return [asdict(checked(check, case)) for check in CONTRACT_CHECKS]


def checked(check: Check[Case], case: Case) -> Flag:
    """The result of a check, without advice in a note; an exception of the optimizer is evidence like any other."""
    try:
        flag = check.flag(case)
        return replace(flag, advice="") if flag.severity == "note" else flag
    except Exception as error:
        return Flag(check.name, check.severity, error_text(error), check.advice)
