"""`fairbench run`, `plan` and `try`; libraries that are slow to import are loaded after the options are checked."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fairbench as fb
from fairbench.cli.arguments import names
from fairbench.cli.options import chosen_suite, settings
from fairbench.cli.slots import check_gpus, chosen_slots
from fairbench.common.errors import UsageError
from fairbench.common.terminal import say
from fairbench.data.dataset_config import check_prepared, configs_of
from fairbench.runner.devices import RunOptions
from fairbench.study.folder import NOISE
from fairbench.study.target import Target, target_in
from fairbench.suites.schema import Suite

if TYPE_CHECKING:
    from fairbench.api.noise import MeasuredNoise

REPEATED = 2
"""The seeds that `fairbench noise` repeats."""
LEAST_RUNS = 4
"""The fewest runs of `fairbench noise`."""
USUAL_BASELINE = "AdamW"
"""The optimizer with which a preview compares, unless it is the previewed one."""


def chosen_target(options: argparse.Namespace) -> Target:
    """The suite that the options of run, plan and slurm choose, and the directory of its study."""
    suite = chosen_suite(options)
    directory = options.output_dir or Path("results") / suite.name
    return target_in(Path(directory), suite)


def check_typed(options: argparse.Namespace, suite: Suite) -> None:
    """Check what was typed about optimizers, before any process is started. The preflight checks all of them.

    Raises `UsageError` for an optimizer that cannot be loaded, and for an option that it does not have.
    """
    if options.set or options.add_optimizer:
        from fairbench.runner.preflight import check_optimizers  # slow to import

        check_optimizers(suite)


def run(options: argparse.Namespace) -> fb.Page:
    """Run or resume a suite, and write its report."""
    run_options = chosen_run_options(options)
    target = chosen_target(options)
    slots, device = chosen_slots(options, target)
    if options.ray is None:  # otherwise the cluster has the GPUs
        check_gpus(slots)
    check_typed(options, target.suite)
    prepare_data(options, target.suite)
    if options.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # the libraries read it when they are imported
    suite = target.suite
    heading = ""
    if suite.description:
        heading = f"suite {suite.name}: {suite.description}"
    _run_study(
        target,
        replace(run_options, slots=slots),
        heading=heading,
        device=device,
        quiet=options.quiet,
        verbose=options.verbose,
    )
    page = fb.open(target.directory).report()
    page.document.brief = options.quiet
    return page


def noise(options: argparse.Namespace) -> MeasuredNoise:
    """Run the base of a program with a few seeds, two of them twice, and say what a study could show."""
    from fairbench.api.noise import measured_noise

    if not options.program:
        raise UsageError('noise needs a program, such as --program "python train.py --seed {seed}"')
    if len(options.variant) > 1:
        raise UsageError("noise is that of one variant, the base; give --variant once, or leave it out")
    if options.runs < LEAST_RUNS:
        raise UsageError(f"--runs must be at least {LEAST_RUNS}, got {options.runs}")
    given = options.variant[0] if options.variant else "base"
    name, colon, words = given.partition(":")
    base = name.strip()
    repeated = f"{base}, repeated"
    options.variant = [given, f"{repeated}{colon}{words}"]
    options.seeds = options.seeds or str(options.runs - REPEATED)
    if options.margin is None:
        options.margin = 1.0  # no trial depends on it
    suite = chosen_suite(options)
    study = Path(options.output_dir or Path("results") / suite.name)
    target = target_in(study / NOISE, suite)
    slots, device = chosen_slots(options, target)
    check_gpus(slots)
    seeds = {base: len(suite.final.seeds), repeated: REPEATED}
    _run_study(
        target,
        RunOptions(slots, seeds_of=seeds),
        heading="",
        device=device,
        quiet=options.json,  # only the object is printed then
        verbose=False,
    )
    return measured_noise(target.directory, seeds)


def _run_study(
    target: Target, run_options: RunOptions, *, heading: str, device: str, quiet: bool, verbose: bool
) -> None:
    """Run the trials of a study that have no record yet, and show the progress.

    Args:
        target: the study.
        run_options: how it is run.
        heading: the first line that is shown; empty for none.
        device: the line on the device; empty for none.
        quiet: whether nothing is shown.
        verbose: whether a line is shown for each trial that ends.
    """
    from fairbench.common.console import Terminal
    from fairbench.runner.progress.live import LiveProgress
    from fairbench.runner.run_study import run_study

    console = Terminal(quiet=quiet)
    if heading:
        console.print(heading, highlight=False)
    if device:
        console.print(device, style="dim", highlight=False)
    run_study(target, run_options, [LiveProgress(console, verbose=verbose)])


def chosen_run_options(options: argparse.Namespace) -> RunOptions:
    """The options of `fairbench run` on which no result depends, still without slots."""
    limit = options.trial_timeout
    if limit is not None and not 0 < limit < float("inf"):
        raise UsageError(f"--trial-timeout must be a positive number of seconds, got {limit}")
    every = options.checkpoint_every
    if every is not None and not 0 <= every < float("inf"):
        raise UsageError(f"--checkpoint-every must be a number of seconds, or 0 for none until a signal, got {every}")
    if options.quiet and options.verbose:
        raise UsageError("--quiet prints no lines of trials, --verbose does; leave one out")
    for option, value in (("--workers", options.workers), ("--gpus", options.gpus)):
        if options.ray is not None and value is not None:
            raise UsageError(f"--ray runs as many trials as the cluster has resources for; leave out {option} {value}")
    return RunOptions(
        slots=(),
        trial_timeout=limit or 0.0,
        checkpoint_every=every,
        timing=options.timing,
        allow_mixed=options.allow_mixed,
        fail_fast=options.fail_fast,
        ray=options.ray,
    )


def prepare_data(options: argparse.Namespace, suite: Suite) -> None:
    """Prepare the folders of --images and --text, and check all other data, which `fairbench data` prepares."""
    data_root = Path(options.data_root or "data")
    folders = own_folders(options)
    configs = configs_of(suite.data_tables)
    if folders:
        from fairbench.data.preparation.own_files import prepare_own  # slow to import

        given = ", ".join(f"{option} {path}" for option, path in folders.items())
        for config in configs:
            if config.user_path is None:
                continue
            folder = config.folder(data_root)
            try:
                prepare_own(config, config.user_path, folder)
            except UsageError as error:
                raise UsageError(f"{given}: {error}") from error
        configs = [config for config in configs if not config.user_path]
    check_prepared(configs, data_root)


def own_folders(options: argparse.Namespace) -> dict[str, Path]:
    """The folders of --images and --text, by their options."""
    folders = {}
    for option, given in (("--images", options.images), ("--text", options.text)):
        if not given:
            continue
        folder = Path(given)
        if not folder.exists():
            raise UsageError(f"{option} {folder}: there is no such folder or file in {Path.cwd()}")
        if folder.is_dir() and not any(folder.iterdir()):
            raise UsageError(f"{option} {folder}: the folder is empty; give one with files")
        folders[option] = folder
    return folders


def plan(options: argparse.Namespace) -> fb.Estimate:
    """The trials of a run, and what they can detect."""
    target = chosen_target(options)
    slots, device = chosen_slots(options, target)
    check_gpus(slots)
    check_typed(options, target.suite)
    prepare_data(options, target.suite)

    from fairbench.api.plan import planned

    estimate = planned(target, slots, options.freeze, partial(say, is_error=True))
    return replace(estimate, device=device)


def preview(options: argparse.Namespace) -> fb.Table[Any]:
    """Preview an optimizer, with the command for a study of it."""
    others = names("--baselines", options.baselines)
    if others is None:
        others = [] if options.optimizer == USUAL_BASELINE else [USUAL_BASELINE]
    previewed = fb.preview(
        options.optimizer,
        baselines=others,
        suite=options.suite,
        arena=options.arena,
        lr=options.lr,
        settings=settings(options),
        progress=True,
    )
    return replace(previewed, command=_command_of_study(options, others))


def _command_of_study(options: argparse.Namespace, others: Sequence[str]) -> str:
    """The command for a study of what was previewed with some other optimizers."""
    words = ["fairbench run --suite", options.suite]
    if options.arena:
        words += ["--arenas", options.arena]
    if others:
        words += ["--optimizers", ",".join(others), "--add-optimizer", options.optimizer]
        if fb.Suite.load(options.suite).content.reference not in others:
            words += ["--reference", others[0]]
    for text in options.set:
        words += ["--set", f"'{text}'"]
    return " ".join(words)
