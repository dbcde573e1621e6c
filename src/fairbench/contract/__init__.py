"""`fairbench check`: whether an optimizer does what a training relies on, tested on a small task.

Each function here runs in a process of its own, so that no check sees what an earlier one has left.
"""

import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from fairbench.common.checks import Check, Flag
from fairbench.contract import cost, global_settings, gradients, groups, learning, repeating
from fairbench.contract.case import Case, ShortTraining, case_of, error_text, train_at
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.training.determinism import one_thread

CONTRACT_CHECKS: tuple[Check[Case], ...] = (
    learning.trains,
    learning.every_tensor,
    learning.lr_schedule,
    groups.parameter_groups,
    repeating.resumes,
    repeating.deterministic,
    repeating.global_random_state,
    global_settings.global_settings,
    gradients.gradients_untouched,
    gradients.missing_gradients,
    gradients.zero_gradients,
    gradients.sparse_gradients,
    gradients.bfloat16_weights,
    gradients.closure,
    cost.state,
    cost.long_training,
    cost.step_time,
)
"""Every check, in the order in which they are shown."""
TIMED = (cost.long_training, cost.step_time)
"""The checks that run while no other does."""

NO_STEP = (
    "fix this first; if the optimizer needs a closure, or gradients with a graph, state that as its `needs` in a suite "
    "file (--suite)"
)
BROKEN = "let a step return: it must neither end nor stop its process, and must not wait"
"""The advice if an optimizer breaks the process of a check."""


def train(name: str, plan: OptimizerPlan) -> dict[str, Any]:
    """Train at every rate.

    Returns:
        "trainings", empty if one raised an exception; "flag", the result of the first check; and "libraries", the
        installed modules that the optimizer loads.

    Raises:
        UsageError: the optimizer does not exist, or has no such hyperparameter.
    """
    global_settings.count_forks()
    with one_thread():
        before = {*sys.modules}
        case = case_of(name, plan)
        try:
            case = replace(case, trainings=[train_at(case, lr) for lr in case.rates])
            flag = learning.trains.flag(case)
        except Exception as error:
            flag = Flag(learning.trains.name, "fail", error_text(error), NO_STEP)
    installed = sysconfig.get_path("purelib")
    loaded = {x for x in {*sys.modules} - before if str(getattr(sys.modules[x], "__file__", "")).startswith(installed)}
    return {
        "trainings": [asdict(x) for x in case.trainings],
        "flag": asdict(flag),
        "libraries": sorted(loaded),
    }


def check_optimizer(check: str, name: str, plan: OptimizerPlan, trainings: Sequence[ShortTraining]) -> dict[str, Any]:
    """The result of a check of an optimizer, as plain values.

    Args:
        check: its name.
        trainings: those that `train` returns; empty if its process ended too early.
    """
    global_settings.count_forks()
    with one_thread():
        settings = global_settings.settings()
        case = replace(case_of(name, plan), trainings=trainings, settings=settings)
        return asdict(checked(next(x for x in CONTRACT_CHECKS if x.name == check), case))


def checked(check: Check[Case], case: Case) -> Flag:
    """The result of a check, without advice in a note; an exception of the optimizer is evidence like any other."""
    try:
        flag = check.flag(case)
        return replace(flag, advice="") if flag.severity == "note" else flag
    except Exception as error:
        return Flag(check.name, check.severity, error_text(error), check.advice)
    except BaseException as error:  # as SystemExit
        return Flag(check.name, "fail", error_text(error), BROKEN)
