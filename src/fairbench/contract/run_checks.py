"""The checks of an optimizer, each in a process of its own, so that none sees what an earlier one has left.

The functions for these processes import what they need: the process that calls them loads no heavy library.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from fairbench.common.checks import Flag
from fairbench.common.errors import CallFailed, UsageError, one_line
from fairbench.contract import BROKEN
from fairbench.optimizers.needs import remedy
from fairbench.optimizers.registry import known_modules
from fairbench.optimizers.spec import OptimizerPlan

CallEach = Callable[..., Iterator[tuple[str, Any]]]
"""Calls a function with each of several first arguments, in processes: `fairbench.runner.executors.local.call_each`."""
PRELOAD = ("fairbench.contract.checks", "fairbench.arenas.vit")
"""What is slow to load and every process needs."""
TRAINING_LIMIT = 120.0
"""Seconds that the trainings may take."""
CHECK_LIMIT = 20.0
"""Seconds that a check may take, in addition to three times those of loading the libraries and training."""


def check_all(name: str, plan: OptimizerPlan, call_each: CallEach) -> list[Flag]:
    """The result of every check, even if the optimizer breaks a process; of the first alone, if a training raises."""
    preload = [*PRELOAD, *sorted(known_modules({name: plan}))]
    began = time.monotonic()  # a check that starts an interpreter loads the libraries again
    checks = {kind: returned(names) for kind, names in call_each(check_names, ["all", "timed"], preload=preload)}
    ((_, trained),) = call_each(train, [name], plan, preload=preload, limit=TRAINING_LIMIT)
    seconds, first = time.monotonic() - began, checks["all"][0]
    if isinstance(trained, CallFailed):
        trained, seconds = {"flag": _broken(first, trained), "trainings": []}, 0.0
    elif not returned(trained)["trainings"]:
        return [Flag(**trained["flag"])]
    flags, limit = {first: trained["flag"]}, CHECK_LIMIT + 3 * seconds
    for alone in (False, True):
        names = [check for check in checks["all"][1:] if (check in checks["timed"]) == alone]
        call = partial(call_each, preload=preload, limit=limit, alone=alone)
        for check, result in call(check_optimizer, names, name, plan, trained["trainings"]):
            flags[check] = _broken(check, result) if isinstance(result, UsageError) else result
    return [Flag(**flags[check]) for check in checks["all"]]


def returned(result: Any) -> Any:
    """The result of a call, unless it is an error, which is raised."""
    if isinstance(result, UsageError):
        raise result
    return result


def _broken(check: str, error: UsageError) -> dict[str, str]:
    """The result of a check whose process did not return one."""
    evidence = error.cause if isinstance(error, CallFailed) else str(error)
    if evidence.endswith("running") and (stack := re.search(r'File "(.*)", line (\d+) in (\w+)', str(error))):
        evidence += f" {stack[3]}, line {stack[2]} of {stack[1]}"
    return asdict(Flag(check, "fail", evidence, BROKEN))


def check_names(kind: str) -> list[str]:
    """The names of all checks in the order in which they are shown, or of those that are timed alone."""
    from fairbench.contract.checks import CONTRACT_CHECKS, TIMED

    return [check.name for check in (TIMED if kind == "timed" else CONTRACT_CHECKS)]


def train(name: str, plan: OptimizerPlan) -> dict[str, Any]:
    """Train at every rate: "trainings", empty if one raised an exception, and "flag", the result of the first check."""
    from fairbench.contract.case import case_of, train_at
    from fairbench.contract.global_settings import count_forks
    from fairbench.contract.learning import trains
    from fairbench.training.determinism import one_thread

    count_forks()
    with one_thread():
        case, is_built = case_of(name, plan), False
        try:
            case.training(0)
            is_built = True
            case = replace(case, trainings=[train_at(case, lr) for lr in case.rates])
            flag = trains.flag(case)
        except Exception as error:
            advice = "; ".join(filter(None, ("fix this first", remedy(name, error, is_built))))
            flag = Flag(trains.name, "fail", f"it raises {one_line(error)}", advice)
    return {"trainings": [asdict(x) for x in case.trainings], "flag": asdict(flag)}


def check_optimizer(
    check: str, name: str, plan: OptimizerPlan, trainings: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The result of a check of an optimizer, as plain values; `trainings` are those of `train`."""
    from fairbench.contract.case import ShortTraining, case_of
    from fairbench.contract.checks import CONTRACT_CHECKS, checked
    from fairbench.contract.global_settings import count_forks, settings
    from fairbench.training.determinism import one_thread

    count_forks()
    with one_thread():
        before = settings()
        case = replace(case_of(name, plan), trainings=[ShortTraining(**x) for x in trainings], settings=before)
        return asdict(checked(next(x for x in CONTRACT_CHECKS if x.name == check), case))
