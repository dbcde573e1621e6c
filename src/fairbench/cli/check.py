"""`fairbench check`: the checks of an optimizer."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from fairbench.common.checks import SEVERITIES, STYLES, Flag
from fairbench.common.console import Terminal
from fairbench.contract.run_checks import check_all
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.runner.executors.local import call_each
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import named_optimizers
from fairbench.suites.settings import change, parse_setting


def check(options: argparse.Namespace) -> int:
    """Check an optimizer; 1 if a check failed."""
    flags = checked(options)
    print_checks(flags, Terminal())
    return 1 if any(flag.severity == "fail" for flag in flags) else 0


def checked(options: argparse.Namespace) -> list[Flag]:
    """The results of the checks of an optimizer with its settings."""
    known = load_suite(options.suite).optimizers if options.suite else {}
    tables = {"optimizers": {x: asdict(plan) for x, plan in named_optimizers([options.optimizer], known).items()}}
    for key, value in map(parse_setting, options.set):
        change(tables, key, value)
    ((name, table),) = tables["optimizers"].items()
    return check_all(name, OptimizerPlan(**table), call_each)


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
