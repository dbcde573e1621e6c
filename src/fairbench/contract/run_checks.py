"""The checks of an optimizer. Each runs in a process of its own, so that no check is disturbed by an earlier one.

The functions for these processes import what they need. The process that calls them loads no large library.
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
"""A function that calls another one with each of several first arguments, each time in a process of its own.

It is `fairbench.runner.executors.local.call_each`.
"""
PRELOAD = ("fairbench.contract.checks", "fairbench.arenas.vit")
"""The modules that every process needs, and that are slow to load."""
TRAINING_LIMIT = 120.0
"""The seconds that the trainings may take."""
CHECK_LIMIT = 20.0
"""The seconds that a check may take, in addition to three times the seconds of loading libraries and training."""

FRAME = re.compile(r'File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>\w+)')
"""A frame of a stack, as `faulthandler` writes it."""


def check_all(name: str, plan: OptimizerPlan, call_each: CallEach) -> list[Flag]:
    """Run every check of an optimizer. An optimizer may break the process of a check without an effect on the others.

    The trainings, with the first check, run before the other checks, which get their results.

    Args:
        name: the name of the optimizer.
        plan: the plan of the optimizer.
        call_each: see `CallEach`.

    Returns:
        The results in the order of the checks. If a training raises an exception, only the result of the first check.
        If the process of the trainings breaks, the first check fails, and the others run without trainings.
    """
    preload = [*PRELOAD, *sorted(known_modules({name: plan}))]
    began = time.monotonic()
    names = {kind: returned(result) for kind, result in call_each(check_names, ["all", "timed"], preload=preload)}
    first, *others = names["all"]
    ((_, trained),) = call_each(train, [name], plan, preload=preload, limit=TRAINING_LIMIT)
    seconds = time.monotonic() - began
    if isinstance(trained, CallFailed):  # the process broke, or took too long
        flags: dict[str, Any] = {first: _broken(first, trained)}
        trainings: list[dict[str, Any]] = []
        seconds = 0.0  # it does not tell how long a training takes
    else:
        result = returned(trained)
        flags = {first: result["flag"]}
        trainings = result["trainings"]
        if not trainings:  # one raised an exception
            return [Flag(**result["flag"])]

    # a check may train, and one that starts an interpreter loads the libraries again
    limit = CHECK_LIMIT + 3 * seconds
    # checks that measure time run last, while no other check runs
    for alone in (False, True):
        chosen = [check for check in others if (check in names["timed"]) == alone]
        call = partial(call_each, preload=preload, limit=limit, alone=alone)
        for check, result in call(check_optimizer, chosen, name, plan, trainings):
            flags[check] = _broken(check, result) if isinstance(result, UsageError) else result
    return [Flag(**flags[check]) for check in names["all"]]


def returned(result: Any) -> Any:
    """The result of a call in a process. Raises the error if the result is one."""
    if isinstance(result, UsageError):
        raise result
    return result


def _broken(check: str, error: UsageError) -> dict[str, str]:
    """The result of a check whose process did not return one: a fail, with what the process ran if it took too long."""
    evidence = error.cause if isinstance(error, CallFailed) else str(error)
    if evidence.endswith("running"):  # the cause ends so if the check took too long; the stack follows in the message
        frame = FRAME.search(str(error))
        if frame:
            evidence += f" {frame['function']}, line {frame['line']} of {frame['file']}"
    return asdict(Flag(check, "fail", evidence, BROKEN))


def check_names(kind: str) -> list[str]:
    """The names of checks in the order in which they are shown: all of them, or only the "timed" ones."""
    from fairbench.contract.checks import CONTRACT_CHECKS, TIMED

    checks = TIMED if kind == "timed" else CONTRACT_CHECKS
    return [check.name for check in checks]


def train(name: str, plan: OptimizerPlan) -> dict[str, Any]:
    """Train at every rate, and run the first check, which judges whether the optimizer trains.

    Returns:
        "trainings", which is empty if one raised an exception, and "flag", the result of the check.
    """
    from fairbench.contract.case import case_of, train_at
    from fairbench.contract.global_settings import count_forks
    from fairbench.contract.learning import trains
    from fairbench.training.determinism import one_thread

    count_forks()
    with one_thread():
        case = case_of(name, plan)
        is_built = False
        try:
            case.training(0)  # only builds the optimizer: the advice differs if that raises the exception
            is_built = True
            case = replace(case, trainings=[train_at(case, lr) for lr in case.rates])
            flag = trains.flag(case)
        except Exception as error:
            advice = "fix this first"
            settings_to_try = remedy(name, error, is_built)
            if settings_to_try:
                advice += f"; {settings_to_try}"
            flag = Flag(trains.name, "fail", f"it raises {one_line(error)}", advice)
    return {"trainings": [asdict(training) for training in case.trainings], "flag": asdict(flag)}


def check_optimizer(
    check: str, name: str, plan: OptimizerPlan, trainings: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Run a check of an optimizer.

    Args:
        check: the name of the check.
        name: the name of the optimizer.
        plan: the plan of the optimizer.
        trainings: the trainings that `train` returned.

    Returns:
        The result as plain values.
    """
    from fairbench.contract.case import ShortTraining, case_of
    from fairbench.contract.checks import CONTRACT_CHECKS, checked
    from fairbench.contract.global_settings import count_forks, settings
    from fairbench.training.determinism import one_thread

    count_forks()
    with one_thread():
        before = settings()
        case = replace(
            case_of(name, plan),
            trainings=[ShortTraining(**training) for training in trainings],
            settings=before,
        )
        chosen = next(each for each in CONTRACT_CHECKS if each.name == check)
        return asdict(checked(chosen, case))
