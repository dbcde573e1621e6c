"""The options of commands that describe a training program, and what they make of its suite."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from fairbench.analysis.tables.metric_names import BETTER, direction_of
from fairbench.arenas.program import PROGRAM_SUITE
from fairbench.cli.choices import ProgramChoice, StudyChoice
from fairbench.common.errors import UsageError
from fairbench.common.terminal import say

if TYPE_CHECKING:
    from fairbench.optimizers.spec import OptimizerPlan

OPTIONS = {
    "model.program": "--program",
    "model.metrics": "--metric",
    "metric": "--metric",
    "margin": "--margin",
    "model.results": "--results",
    "model.patterns": "--metric-pattern",
    "model.at": "--at",
    "model.seed_env": "--seed-env",
}
"""The option that sets each key of the arena of a program."""


MARGIN = (
    "the margin is the largest difference of the metric that does not matter to you: take the smallest gain for which "
    "you would change the program, and see with fairbench noise how much seeds alone change it"
)
"""What a margin is, and how to choose one."""


def add_program_options(command: argparse._ActionsContainer) -> None:
    """Add the options that describe a training program: how it starts, and where its metric is."""
    add = command.add_argument
    program = "your own training program, with placeholders such as {lr}, {seed}, {steps}, {out} (docs/programs.md)"
    add("--program", metavar="COMMAND", help=program)
    metric = "the program's primary metric and its better direction, such as val/loss:min"
    add("--metric", metavar="NAME:min|max", help=metric)
    results = (
        "files with the program's results below {out}, such as '**/metrics.csv' (default: metrics.jsonl, or its output)"
    )
    add("--results", metavar="GLOB", help=results)
    pattern = "regular expression with one group that reads the metric from each line of the program's output"
    add("--metric-pattern", metavar="REGEX", help=pattern)
    at = "take the metric of the program's last report, or of the one with the best validation value (default: last)"
    add("--at", choices=("last", "best"), help=at)
    seed_env = "environment variable that tells the program its seed, where {seed} cannot stand in the command"
    add("--seed-env", metavar="NAME", help=seed_env)


def program_settings(options: ProgramChoice, steps: int | None) -> dict[str, Any]:
    """The settings that the options of a training program make in the suite `program`; empty without a program.

    Args:
        options: the options that describe the program.
        steps: the steps of each run; None if the option was not given.

    Raises:
        UsageError: an option needs another one.
    """
    if not options.program:
        _refuse_program_options(options)
        return {}
    if options.metric is None or options.margin is None:
        raise UsageError(_needs_of_program(options))
    name, direction = metric_and_direction(options.metric)
    _warn_of_direction(name, direction)
    arena = f"arenas.{PROGRAM_SUITE}"
    changed = {
        f"{arena}.model.program": options.program,
        f"{arena}.model.metrics": {name: direction},
        f"{arena}.metric": name,
        f"{arena}.margin": options.margin,
    }
    if options.results is not None:
        changed[f"{arena}.model.results"] = options.results
    if options.metric_pattern is not None:
        changed[f"{arena}.model.patterns"] = {f"val/{name}": options.metric_pattern}
    if options.at is not None:
        changed[f"{arena}.model.at"] = options.at
    if options.seed_env is not None:
        changed[f"{arena}.model.seed_env"] = options.seed_env
    if options.unseeded:
        changed[f"{arena}.model.seeded"] = False
        changed["final.test"] = "welch"
    if steps is None and "{steps}" not in "".join([options.program, *options.variant]):
        changed[f"{arena}.model.own_length"] = True
    return changed


def _needs_of_program(options: ProgramChoice) -> str:
    """The message on a program without a metric or a margin."""
    needed = {"--metric": options.metric, "--margin": options.margin}
    missing = [option for option, value in needed.items() if value is None]
    needs = f"--program needs {' and '.join(missing)}, such as --metric val/loss:min --margin 0.01"
    if options.margin is None:
        needs += f"; {MARGIN}"
    return needs


def options_of_settings(settings: Collection[str]) -> dict[str, str]:
    """The option that made each of the settings of a training program, for messages. `settings` are their keys."""
    made = {}
    for key, option in OPTIONS.items():
        setting = f"arenas.{PROGRAM_SUITE}.{key}"
        if setting in settings:
            made[setting] = option
    return made


def metric_and_direction(text: str) -> tuple[str, str]:
    """The name of the metric and "min" or "max", from a value of --metric such as val/loss:min."""
    name, _, direction = text.removeprefix("val/").rpartition(":")
    if not name or direction not in ("min", "max"):
        raise UsageError(f"--metric must be a name and its better direction, such as val/loss:min; got {text!r}")
    return name, direction


def _refuse_program_options(options: ProgramChoice) -> None:
    """Raise `UsageError` for the first option that only a training program can have."""
    values = {
        "--metric": options.metric,
        "--margin": options.margin,
        "--results": options.results,
        "--metric-pattern": options.metric_pattern,
        "--at": options.at,
        "--seed-env": options.seed_env,
        "--unseeded": options.unseeded or None,
    }
    for option, value in values.items():
        if value is not None:
            raise UsageError(f"{option} needs --program; in a suite file it is a key of the arena")


def _warn_of_direction(metric: str, direction: str) -> None:
    """Print a message if the name of a metric says that the other values are better."""
    by_name = direction_of(metric)
    typed = BETTER[direction]
    if by_name and by_name != typed:
        say(
            f"--metric {metric}:{direction}: {typed} values count as better, although the name says {by_name}",
            is_error=True,
        )


def chosen_variants(choice: StudyChoice) -> Mapping[str, OptimizerPlan]:
    """The variants of the program that the options give; empty without any.

    Raises:
        UsageError: there is only one variant, or an option does not go with variants.
    """
    from fairbench.suites.variants import parsed_variants

    texts = choice.program.variant
    program = choice.program.program
    if not texts:
        return {}
    if not program:
        raise UsageError("--variant needs --program; in a suite file it is a table, such as [variants.base]")
    options = choice.suite
    if options.optimizers or options.add_optimizer:
        given = "--optimizers" if options.optimizers else "--add-optimizer"
        raise UsageError(f"{given}: with --variant the variants are compared, not optimizers; leave one out")
    variants = parsed_variants(texts, program)
    if len(variants) < 2:
        (name,) = variants
        raise UsageError(f"--variant {name}: there is no other to compare it with; give --variant twice or more")
    if options.lr_grid and "{lr}" not in "".join([program, *texts]):
        raise UsageError(f"--lr-grid {options.lr_grid} has no effect: the command has no {{lr}}; leave it out")
    return variants
