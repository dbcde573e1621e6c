"""`fairbench check`: the checks of an optimizer, each in a process of its own."""

import argparse
import importlib
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from fairbench.common.checks import SEVERITIES, STYLES, Flag
from fairbench.common.console import Terminal
from fairbench.common.errors import UsageError
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.runner.executors.local import CallFailed, ProcessExecutor
from fairbench.runner.run_options import cores
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import named_optimizers
from fairbench.suites.settings import change, parse_setting
from fairbench.training.check import BROKEN, CONTRACT_CHECKS, TIMED, check_optimizer, train
from fairbench.training.check.case import ShortTraining
from fairbench.training.place import Place

PRELOAD = ("fairbench.arenas.vit", "fairbench.training.check")
"""Modules that every process needs, in addition to the libraries that the optimizer loads."""
TRAINING_LIMIT = 120.0
"""Seconds that the trainings may take."""
CHECK_LIMIT = 20.0
"""Seconds that a check may take, in addition to three times those of the trainings."""


def check(options: argparse.Namespace) -> int:
    """Check an optimizer; 1 if a check failed."""
    known = load_suite(options.suite).optimizers if options.suite else {}
    tables = {"optimizers": {x: asdict(plan) for x, plan in named_optimizers([options.optimizer], known).items()}}
    for key, value in map(parse_setting, options.set):
        change(tables, key, value)
    ((name, table),) = tables["optimizers"].items()
    flags = check_all(name, OptimizerPlan(**table))
    print_checks(flags, Terminal())
    return 1 if any(flag.severity == "fail" for flag in flags) else 0


def check_all(name: str, plan: OptimizerPlan) -> list[Flag]:
    """The result of every check, even if the optimizer breaks a process; of the first alone, if a training raises.

    Raises:
        UsageError: the optimizer does not exist, or has no such hyperparameter.
    """
    first, *others = (check.name for check in CONTRACT_CHECKS)
    trainings, libraries, limit = list[ShortTraining](), list[str](), CHECK_LIMIT
    with _executor(1, TRAINING_LIMIT) as executor:
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
    for library in libraries:
        with suppress(Exception):  # as one that only its package can import
            importlib.import_module(library)
    for names, at_once in (([x for x in others if x not in timed], cores()), (timed, 1)):
        with _executor(at_once, limit) as executor:
            for check, result in executor.call_each(check_optimizer, names, name, plan, trainings):
                flags[check] = _broken(check, result) if isinstance(result, UsageError) else Flag(**result)
    return [flags[check.name] for check in CONTRACT_CHECKS]


def _executor(at_once: int, limit: float) -> ProcessExecutor:
    return ProcessExecutor([Place()] * at_once, preload=PRELOAD, call_limit=limit, server=False)


def _broken(check: str, error: UsageError) -> Flag:
    """The finding of a check whose process did not return a result."""
    evidence = error.cause if isinstance(error, CallFailed) else str(error)
    if evidence.endswith("running") and (stack := re.search(r'File "(.*)", line (\d+) in (\w+)', str(error))):
        evidence += f" {stack[3]}, line {stack[2]} of {stack[1]}"
    return Flag(check, "fail", evidence, BROKEN)


def print_checks(flags: Sequence[Flag], console: Terminal) -> None:
    """Print the result and advice of every check, and the number of each severity."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for flag in flags:
        advice = f"\n-> {flag.advice}" if flag.advice else ""
        table.add_row(Text(flag.severity, STYLES[flag.severity]), flag.name, Text(flag.evidence + advice))
    console.print(table, highlight=False)
    counts = (f"{sum(flag.severity == x for flag in flags)} {x}" for x in SEVERITIES)
    console.print(", ".join(counts), highlight=False)
