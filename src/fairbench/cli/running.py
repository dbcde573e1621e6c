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
from fairbench.cli.arguments import gpu_numbers, names
from fairbench.cli.options import chosen_suite, settings
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural
from fairbench.common.terminal import say
from fairbench.data.dataset_config import check_prepared, configs_of
from fairbench.runner.devices import RunOptions, device_kind, device_slots, gpus_here
from fairbench.study.folder import NOISE
from fairbench.study.target import Target, target_in
from fairbench.suites.schema import Suite
from fairbench.training.device_slot import DeviceSlot

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


def chosen_slots(options: argparse.Namespace, target: Target) -> tuple[list[DeviceSlot], str]:
    """Where the trials of a study run.

    Returns:
        A slot for each concurrent trial, and a line that says how the device was chosen, empty if it was given.

    Raises:
        UsageError: an option has no effect on the device, or a wrong value.
    """
    reason = _reason_for_cpu(options.device, target)
    kind = device_kind(options.device, target.history)
    trials = options.workers
    gpus: Sequence[int] = ()
    if kind == "cpu":
        for option, given in (("--gpus", options.gpus), ("--trials-per-gpu", options.trials_per_gpu)):
            if given is not None:
                raise UsageError(f"{option} {given} has no effect, {reason}; leave it out")
    else:
        if trials is not None:
            raise UsageError(f"--workers {trials} has no effect on GPUs; give --trials-per-gpu, or --device cpu")
        trials = options.trials_per_gpu
        if trials is not None and trials < 1:
            raise UsageError(f"--trials-per-gpu must be at least 1, got {trials}")
        if options.gpus == "all":
            count = max(gpus_here(), 1)  # `check_gpus` reports that there is none
            gpus = range(count)
        else:
            gpus = gpu_numbers(options.gpus)
    slots = device_slots(kind, trials, str(options.data_root or "data"), gpus)
    return slots, _device_line(options, target, slots)


def check_gpus(slots: Sequence[DeviceSlot]) -> None:
    """Raise `UsageError` if slots name a GPU that this machine does not have."""
    numbers = [int(slot.device.partition(":")[2]) for slot in slots if slot.kind == "cuda"]
    if not numbers:
        return
    count = gpus_here()
    if count == 0:
        raise UsageError("--device cuda: torch finds no CUDA GPU here; use --device cpu")
    if max(numbers) >= count:
        raise UsageError(f"--gpus {max(numbers)}: torch finds {plural(count, 'GPU')} here, numbered from 0")


def check_typed(options: argparse.Namespace, suite: Suite) -> None:
    """Check what was typed about optimizers, before any process is started. The preflight checks all of them.

    Raises `UsageError` for an optimizer that cannot be loaded, and for an option that it does not have.
    """
    if options.set or options.add_optimizer:
        from fairbench.runner.preflight import check_optimizers  # slow to import

        check_optimizers(suite)


def _reason_for_cpu(device: str, target: Target) -> str:
    """Why the trials run on the CPU, if they do."""
    if device != "auto":
        return f"--device is {device}"
    if target.history.plans:
        return f"{target.directory} has trials of the CPU"
    return "torch finds no GPU here"


def _device_line(options: argparse.Namespace, target: Target, slots: Sequence[DeviceSlot]) -> str:
    """How the device of these slots was chosen; empty if it was given."""
    if options.device != "auto":
        return ""
    count = gpus_here()
    facts = f"{plural(count, 'GPU')} here" if count else "no GPU here"
    if target.history.plans:
        facts = f"the device of this study; {facts}"
    if slots[0].kind == "cuda" and count > 1 and options.gpus is None:
        facts = f"{facts}; --gpus all uses all of them"
    devices = dict.fromkeys(slot.device for slot in slots)
    return f"device: {', '.join(devices)} ({facts})"


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
        from fairbench.data.preparation.locate import PrepareOptions
        from fairbench.data.preparation.prepare import prepare  # slow to import

        given = ", ".join(f"{option} {path}" for option, path in folders.items())
        for config in configs:
            if not config.user_path:
                continue
            try:
                prepare(config, PrepareOptions(data_root))
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
