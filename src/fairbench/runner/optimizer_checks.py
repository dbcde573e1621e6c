"""The checks of an optimizer, each in a process of its own."""

import importlib
import re
import time
from contextlib import suppress

from fairbench.common.checks import Flag
from fairbench.common.errors import UsageError
from fairbench.contract import BROKEN, CONTRACT_CHECKS, TIMED, check_optimizer, train
from fairbench.contract.case import ShortTraining
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.runner.executors.local import CallFailed, ProcessExecutor
from fairbench.runner.run_options import cores
from fairbench.training.place import Place

PRELOAD = ("fairbench.arenas.vit",)
"""What is slow to load and every process needs, in addition to the libraries that the optimizer loads."""
TRAINING_LIMIT = 120.0
"""Seconds that the trainings may take."""
CHECK_LIMIT = 20.0
"""Seconds that a check may take, in addition to three times those of the trainings."""


def check_all(name: str, plan: OptimizerPlan, server: bool = False) -> list[Flag]:
    """The result of every check, even if the optimizer breaks a process; of the first alone, if a training raises.

    Args:
        name: the optimizer's name.
        plan: what it is, and its hyperparameters.
        server: whether processes are forked from a server; otherwise from this process, which must have done nothing
            yet that a fork does not survive.

    Raises:
        UsageError: the optimizer does not exist, or has no such hyperparameter.
    """
    first, *others = (check.name for check in CONTRACT_CHECKS)
    trainings, libraries, limit = list[ShortTraining](), list[str](), CHECK_LIMIT
    with _executor(1, TRAINING_LIMIT, server) as executor:
        began = time.monotonic()
        try:
            trained = executor.call(train, name, plan)
        except CallFailed as error:
            flags = {first: _broken(first, error)}
        else:
            flags, libraries = {first: Flag(**trained["flag"])}, trained["libraries"]
            trainings = [ShortTraining(**each) for each in trained["trainings"]]
            limit += 3 * (time.monotonic() - began)
            if not trainings:
                return [*flags.values()]
    timed = [check.name for check in TIMED]
    for library in () if server else libraries:
        with suppress(Exception):  # as one that only its package can import
            importlib.import_module(library)
    for names, at_once in (([x for x in others if x not in timed], cores()), (timed, 1)):
        with _executor(at_once, limit, server) as executor:
            for check, result in executor.call_each(check_optimizer, names, name, plan, trainings):
                flags[check] = _broken(check, result) if isinstance(result, UsageError) else Flag(**result)
    return [flags[check.name] for check in CONTRACT_CHECKS]


def _executor(at_once: int, limit: float, server: bool) -> ProcessExecutor:
    return ProcessExecutor([Place()] * at_once, preload=PRELOAD, call_limit=limit, server=server)


def _broken(check: str, error: UsageError) -> Flag:
    """The finding of a check whose process did not return a result."""
    evidence = error.cause if isinstance(error, CallFailed) else str(error)
    if evidence.endswith("running") and (stack := re.search(r'File "(.*)", line (\d+) in (\w+)', str(error))):
        evidence += f" {stack[3]}, line {stack[2]} of {stack[1]}"
    return Flag(check, "fail", evidence, BROKEN)
