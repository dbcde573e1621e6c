"""`fairbench gate`: a session of changes to a training program."""

from __future__ import annotations

import argparse
import csv
import sys
from typing import TYPE_CHECKING, Any

from fairbench.cli.choices import ProgramChoice, choice_of
from fairbench.cli.program_options import metric_and_direction, program_settings
from fairbench.common.errors import UsageError

if TYPE_CHECKING:
    from fairbench.gate.shown import Shown


def init(options: argparse.Namespace) -> Shown:
    """Begin a session, and calibrate it."""
    from fairbench.gate import commands

    if not options.program:
        raise UsageError('a session needs a program, such as --program "python train.py" --metric val_bpb:min')
    return commands.init(_declared(options), options.protect, new=options.new, quiet=options.json)


def _declared(options: argparse.Namespace) -> dict[str, Any]:
    """What a session declares of its program."""
    if "{lr}" in options.program:
        raise UsageError("--program has {lr}, and a session searches no learning rate; write the rate into the program")
    if options.test_metric and options.metric_pattern:
        raise UsageError("--test-metric is a name that the program reports; leave --metric-pattern out")
    settings = program_settings(choice_of(ProgramChoice, options), options.steps)
    metric, direction = metric_and_direction(options.metric)
    return {
        "settings": settings,
        "metric": metric,
        "direction": direction,
        "steps": options.steps,
        "test_metric": options.test_metric or "",
    }


def try_commit(options: argparse.Namespace) -> Shown:
    """Train a commit or the working tree, and keep or drop it."""
    from fairbench.gate import commands

    return commands.try_commit(options.revision, quiet=options.json)


def certify(options: argparse.Namespace) -> Shown:
    """Compare head with base, both trained now."""
    from fairbench.gate import commands

    return commands.certify(quiet=options.json)


def prune(options: argparse.Namespace) -> Shown:
    """Remove each change alone from the certified stack."""
    from fairbench.gate import commands

    if not 0 < options.margin < float("inf"):
        raise UsageError(f"--margin must be a positive number, got {options.margin:g}")
    return commands.prune(options.margin, quiet=options.json)


def status(options: argparse.Namespace) -> Shown:
    """The session after its last step."""
    from fairbench.gate import commands

    return commands.status()


def log(options: argparse.Namespace) -> int:
    """Show every step of the session, and return the exit code."""
    from fairbench.common.console import Terminal
    from fairbench.gate import commands
    from fairbench.gate.page import steps_table
    from fairbench.report.render.terminal import rich_table

    table = steps_table(commands.steps())
    if not options.tsv:
        Terminal().print(rich_table(table.view), highlight=False, crop=False)
        return 0
    writer = csv.writer(sys.stdout, delimiter="\t", lineterminator="\n")
    writer.writerow(table.names)
    for row in table.to_dicts():
        writer.writerow(row.values())
    return 0
