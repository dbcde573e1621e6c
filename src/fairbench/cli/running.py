"""`fairbench run` and `fairbench plan`; libraries that are slow to import are loaded after the options are checked."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fairbench.cli.places import choice, places
from fairbench.cli.suite_options import chosen_suite
from fairbench.common.errors import UsageError
from fairbench.common.terminal import say
from fairbench.runner.run_options import RunOptions
from fairbench.study.folder import TENSORBOARD
from fairbench.suites.schema import Suite

if TYPE_CHECKING:
    from fairbench.common.console import Terminal
    from fairbench.runner.observers import Observer


def run(options: argparse.Namespace) -> int:
    """Run or resume a suite, and show its report; 1 if a trial failed."""
    suite = chosen_suite(options)
    directory = output_directory(options, suite)
    run_options = chosen_run_options(options, directory)
    prepare_own_data(options, suite)
    if options.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # the libraries read it when they are imported

    from fairbench.cli.studies import show_report
    from fairbench.common.console import Terminal
    from fairbench.runner.run_study import run_study

    console = Terminal(quiet=options.quiet)
    if chosen := choice(options, directory, run_options.places):
        console.print(chosen, style="dim", highlight=False)
    run_study(suite, directory, run_options, _observers(options, suite, directory, console))
    return show_report(directory, directory, quiet=options.quiet)


def _observers(options: argparse.Namespace, suite: Suite, directory: Path, console: Terminal) -> list[Observer]:
    from fairbench.runner.progress.live import LiveProgress

    observers: list[Observer] = [LiveProgress(console, verbose=options.verbose)]
    if options.tensorboard:
        from fairbench.runner.progress.tensorboard import TensorBoard

        observers.append(TensorBoard(directory / TENSORBOARD, suite.sweep.extra))
    return observers


def output_directory(options: argparse.Namespace, suite: Suite) -> Path:
    """The directory of the study."""
    return Path(options.output_dir or Path("results") / suite.name)


def chosen_run_options(options: argparse.Namespace, directory: Path) -> RunOptions:
    """The options of `fairbench run` on which no result depends.

    Raises:
        UsageError: an option is out of range, has no effect, or conflicts with another one.
    """
    every, limit = options.checkpoint_every, options.trial_timeout
    if limit is not None and not 0 < limit < float("inf"):
        raise UsageError(f"--trial-timeout must be a positive number of seconds, got {limit}")
    if every is not None and not 0 <= every < float("inf"):
        raise UsageError(f"--checkpoint-every must be a number of seconds, or 0 for none until a signal, got {every}")
    if options.quiet and options.verbose:
        raise UsageError("--quiet prints no lines of trials, --verbose does; leave one out")
    for option, value in (("--workers", options.workers), ("--gpus", options.gpus)):
        if options.ray is not None and value is not None:
            raise UsageError(f"--ray runs as many trials as the cluster has resources for; leave out {option} {value}")
    return RunOptions(
        places(options, directory),
        trial_timeout=limit or 0.0,
        checkpoint_every=every,
        timing=options.timing,
        allow_mixed=options.allow_mixed,
        ray=options.ray,
    )


def prepare_own_data(options: argparse.Namespace, suite: Suite) -> None:
    """Prepare the folders of --images and --text; data of a suite file are prepared by `fairbench data`.

    Raises:
        UsageError: a folder does not exist, or holds nothing of its kind.
    """
    folders: Mapping[str, str | None] = {"--images": options.images, "--text": options.text}
    given = {option: Path(folder) for option, folder in folders.items() if folder}
    for option, folder in given.items():
        if not folder.exists():
            raise UsageError(f"{option} {folder}: there is no such folder or file in {Path.cwd()}")
        if folder.is_dir() and not any(folder.iterdir()):
            raise UsageError(f"{option} {folder}: the folder is empty; give one with files")
    if given:
        from fairbench.cli.data import prepare_user_data

        try:
            prepare_user_data(suite, options.data_root or Path("data"))
        except UsageError as error:
            said = ", ".join(f"{option} {folder}" for option, folder in given.items())
            raise UsageError(f"{said}: {error}") from error


def plan(options: argparse.Namespace) -> int:
    """Show the trials of a run and what they can detect."""
    suite = chosen_suite(options)
    directory = output_directory(options, suite)
    where = places(options, directory)
    prepare_own_data(options, suite)

    from fairbench.api.plan import planned
    from fairbench.common.console import Terminal
    from fairbench.report.console import print_plan

    console = Terminal()
    found = planned(suite, directory, where, options.freeze, partial(say, is_error=True))
    print_plan(found.study, found.arenas.rows, found.workers, found.history, directory, console)
    if chosen := choice(options, directory, where):
        console.print(chosen, style="dim", highlight=False)
    for message in found.damaged:
        console.print(message, style="yellow", highlight=False, soft_wrap=True)
    return 0
