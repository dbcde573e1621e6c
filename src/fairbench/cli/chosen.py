"""The study that the options of `fairbench run`, `plan`, `noise` and `slurm` choose: its suite, and where it runs.

Libraries that are slow to import are loaded after the options are checked.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbench.arenas.program import PROGRAM_SUITE
from fairbench.cli.arguments import names, seeds, settings
from fairbench.cli.choices import StudyChoice
from fairbench.cli.data_of_study import prepare_data
from fairbench.cli.options import DEFAULT_SUITE, PAPER_SUITE, USUAL_BASELINE
from fairbench.cli.program_options import chosen_variants, options_of_settings, program_settings
from fairbench.cli.slots import check_gpus, chosen_slots
from fairbench.common.errors import UsageError
from fairbench.common.terminal import say
from fairbench.runner.devices import RunOptions
from fairbench.study.target import Target, target_in
from fairbench.suites.schema import Suite
from fairbench.training.device_slot import DeviceSlot

if TYPE_CHECKING:
    from fairbench.suites.overrides import Overrides


@dataclass(frozen=True)
class ReadyStudy:
    """A study that can begin: its optimizers can be loaded, and its data are prepared.

    Attributes:
        target: the suite, and the directory of its study.
        slots: where its trials run, one for each concurrent trial.
        device: a line that says how the device was chosen; empty if it was given.
    """

    target: Target
    slots: list[DeviceSlot]
    device: str


def ready_study(choice: StudyChoice, *, gpus_elsewhere: bool = False) -> ReadyStudy:
    """A study with the user's data prepared. Nothing is written before the options are checked.

    Args:
        choice: the options that choose the study.
        gpus_elsewhere: whether a cluster has the GPUs, so that this machine needs none.

    Raises:
        UsageError: an option is wrong, the directory holds another suite, an optimizer cannot be loaded, or data are
            missing.
    """
    from fairbench.suites.variants import check_different

    suite = chosen_suite(choice)
    check_different(suite)
    target = target_of(choice, suite)
    slots, device = chosen_slots(choice.location, target)
    if not gpus_elsewhere:
        check_gpus(slots)
    if choice.suite.set or choice.suite.add_optimizer:
        # the preflight checks all optimizers, but only after it has made folders and prepared data
        from fairbench.optimizers.resolve import check_optimizers

        check_optimizers(suite.optimizers, suite.sweep.extra)
    prepare_data(choice, suite)
    return ReadyStudy(target, slots, device)


def chosen_suite(choice: StudyChoice) -> Suite:
    """The suite of a study, as the options have changed it.

    Raises:
        UsageError: an option is wrong, or a single optimizer is left.
    """
    from fairbench.suites.loader import load_suite

    name = _suite_name(choice)
    suite = load_suite(name, _overrides(choice))
    options = choice.suite
    if options.optimizers and len(suite.optimizers) == 1:
        (alone,) = suite.optimizers
        remedy = "name two or more, separated by commas"
        raise UsageError(f"--optimizers {alone}: there is no other optimizer to compare it with; {remedy}")
    has_program = bool(choice.program.program)
    if has_program and options.optimizers and not options.reference and suite.reference != USUAL_BASELINE:
        say(f"the baseline is {suite.reference}, the first of --optimizers; --reference names another", is_error=True)
    return suite


def _overrides(choice: StudyChoice) -> Overrides:
    """The changes to the suite that the options make."""
    from fairbench.suites.overrides import Overrides

    options = choice.suite
    typed = settings(options.set)
    arenas = names("--arenas", options.arenas)
    optimizers = names("--optimizers", options.optimizers)
    final_seeds = seeds(options.seeds)
    of_program = program_settings(choice.program, options.steps)
    changed: dict[str, Any] = {}
    if options.compile:
        changed["training.compile"] = True
    changed.update(of_program)
    if options.first_steps is not None:
        changed["first_steps"] = options.first_steps
    changed.update(typed)  # --set comes last: it is the most exact
    return Overrides(
        arenas=arenas,
        optimizers=optimizers,
        added=options.add_optimizer,
        settings=changed,
        seeds=final_seeds,
        steps=options.steps,
        lr_grid=options.lr_grid or "",
        folders=options.folders,
        reference=options.reference or "",
        variants=chosen_variants(choice),
        options=options_of_settings(of_program.keys() - typed.keys()),
    )


def _suite_name(choice: StudyChoice) -> str:
    """The name or file of the suite. Raises `UsageError` if the options mean two suites."""
    given = _given_suites(choice)
    if len(set(given.values())) > 1:
        both = " and ".join(f"{option} means {name}" for option, name in given.items())
        raise UsageError(f"two suites were given: {both}; give one of them")
    for name in given.values():  # all of them are the same
        return name
    if choice.location.data_root:
        return PAPER_SUITE
    return DEFAULT_SUITE


def _given_suites(choice: StudyChoice) -> Mapping[str, str]:
    """The suite that each option means."""
    options = choice.suite
    given = {}
    if options.chosen:
        given["SUITE"] = options.chosen
    if options.suite:
        given["--suite"] = options.suite
    if options.smoke_test:
        given["--smoke-test"] = "smoke"
    if choice.program.program:
        given["--program"] = PROGRAM_SUITE
    return given


def target_of(choice: StudyChoice, suite: Suite, folder: str = "") -> Target:
    """A suite, and the directory that the options choose for its study, or a folder in this directory."""
    directory = choice.location.output_dir or Path("results") / suite.name
    return target_in(Path(directory) / folder, suite)


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
