"""The contract of an optimizer: what a bench and a training rely on, tried out on a small task."""

from dataclasses import asdict
from typing import Any

from fairbench.common.checks import Flag
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.training.check.case import case_of, told, trained
from fairbench.training.check.cost import state, step_time
from fairbench.training.check.gradients import (
    bfloat16_weights,
    closure,
    gradients_untouched,
    missing_gradients,
    sparse_gradients,
    zero_gradients,
)
from fairbench.training.check.learning import lr_schedule, parameter_groups, trains
from fairbench.training.check.repeating import deterministic, global_random_state, resumes
from fairbench.training.determinism import one_thread

CHECKS = (
    trains,
    lr_schedule,
    parameter_groups,
    resumes,
    deterministic,
    global_random_state,
    gradients_untouched,
    missing_gradients,
    zero_gradients,
    sparse_gradients,
    bfloat16_weights,
    closure,
    state,
    step_time,
)
"""Every check, in the order in which they are shown."""

NO_STEP = (
    "fix this first; for a closure, or a graph of the gradients, a suite file must have `needs` of this optimizer "
    "(--suite)"
)


def check_optimizer(name: str, plan: OptimizerPlan) -> list[dict[str, Any]]:
    """The result of every check of an optimizer, as plain values that a process can send.

    Raises:
        UsageError: it is not there, or has no such hyperparameter.
    """
    with one_thread():
        untrained = case_of(name, plan)
        try:
            case = trained(untrained)
        except Exception as error:
            return [asdict(Flag(trains.name, "fail", told(error), NO_STEP))]
        return [asdict(check.flag(case)) for check in CHECKS]
