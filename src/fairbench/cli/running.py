"""`fairbench run`, `plan` and `try`; libraries that are slow to import are loaded after the options are checked."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import fairbench as fb
from fairbench.cli.arguments import names, settings
from fairbench.cli.choices import StudyChoice
from fairbench.cli.chosen import chosen_run_options, chosen_suite, ready_study, target_of
from fairbench.cli.options import USUAL_BASELINE
from fairbench.cli.slots import check_gpus, chosen_slots
from fairbench.common.errors import UsageError
from fairbench.common.terminal import say
from fairbench.runner.devices import RunOptions
from fairbench.study.folder import NOISE

if TYPE_CHECKING:
    from fairbench.api.noise import MeasuredNoise

REPEATED = 2
"""The seeds that `fairbench noise` repeats."""
LEAST_RUNS = 4
"""The fewest runs of `fairbench noise`."""


def run(options: argparse.Namespace) -> fb.Page:
    """Run or resume a suite, and write its report."""
    run_options = chosen_run_options(options)
    choice = StudyChoice(options)
    study = ready_study(choice, gpus_elsewhere=options.ray is not None)
    if options.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # the libraries read it when they are imported

    from fairbench.common.console import Terminal
    from fairbench.runner.progress.live import LiveProgress
    from fairbench.runner.run_study import run_study

    suite = study.target.suite
    console = Terminal(quiet=options.quiet)
    if suite.description:
        console.print(f"suite {suite.name}: {suite.description}", highlight=False)
    if study.device:
        console.print(study.device, style="dim", highlight=False)
    progress = LiveProgress(console, verbose=options.verbose)
    run_study(study.target, replace(run_options, slots=study.slots), [progress])
    page = fb.open(study.target.directory).report()
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
    changed = {
        "variant": [given, f"{repeated}{colon}{words}"],
        "seeds": options.seeds or str(options.runs - REPEATED),
    }
    choice = StudyChoice(argparse.Namespace(**{**vars(options), **changed}))
    suite = chosen_suite(choice)
    target = target_of(choice, suite, NOISE)
    slots, device = chosen_slots(choice.location, target)
    check_gpus(slots)

    from fairbench.common.console import Terminal
    from fairbench.runner.progress.live import LiveProgress
    from fairbench.runner.run_study import run_study

    console = Terminal(quiet=options.json)  # only the object is printed then
    if device:
        console.print(device, style="dim", highlight=False)
    seeds = {base: len(suite.final.seeds), repeated: REPEATED}
    run_study(target, RunOptions(slots, seeds_of=seeds), [LiveProgress(console, verbose=False)])
    return measured_noise(target.directory, seeds)


def plan(options: argparse.Namespace) -> fb.Estimate:
    """The trials of a run, and what they can detect."""
    choice = StudyChoice(options)
    study = ready_study(choice)

    from fairbench.api.plan import planned

    estimate = planned(study.target, study.slots, options.freeze, partial(say, is_error=True))
    return replace(estimate, device=study.device)


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
        settings=settings(options.set),
        progress=True,
    )
    return replace(previewed, command=_command_of_study(options, others))


def _command_of_study(options: argparse.Namespace, others: Sequence[str]) -> str:
    """The command for a study of what was previewed with some other optimizers."""
    words = ["fairbench run", options.suite]
    if options.arena:
        words += ["--arenas", options.arena]
    if others:
        words += ["--optimizers", ",".join(others), "--add-optimizer", options.optimizer]
        if fb.Suite.load(options.suite).content.reference not in others:
            words += ["--reference", others[0]]
    for text in options.set:
        words += ["--set", f"'{text}'"]
    name = options.optimizer.rpartition(":")[2]
    words += ["-o", f"results/{name}"]  # that of the suite may hold another study
    return " ".join(words)
