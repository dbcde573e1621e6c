"""The first check of a training program, before any trial of a study: does it start, and what reaches it?"""

import math
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairbench.common.errors import ProgramError
from fairbench.runner.trainings.before_start import PASS_SEED, SEED_LOST
from fairbench.runner.trainings.effect_of_rate import check_effect_of_rate
from fairbench.runner.trainings.order_of_checks import QUICK
from fairbench.runner.trainings.program_runs import LONGEST, ProgramRuns, Run, WrongReport
from fairbench.study.first_steps import FirstSteps
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.program_start import start_of

GROWTH = 10
"""The length of a run as a multiple of the one before it, until the time of a step shows in the time of the run."""
VISIBLE = 1.5
"""A run whose time is such a multiple of the first one's shows the time of a step."""
BUDGET = 60.0
"""The most seconds of all longer runs together, approximately."""
IGNORES_SEED = (
    "it gets the seed, and does not use it, or it continues from a checkpoint of an earlier run: let that be written "
    "into {out}, which is empty for each trial; if it cannot be seeded, --unseeded compares its runs as they are"
)
"""What may be wrong if a program gets its seed and reports the same for all."""
MAKES = ("optimizer", "about")
"""What a program asks `fairbench.trial` for if it gets all options of its optimizer there."""


def first_steps(study: ResolvedSuite, arena: str, slot: DeviceSlot, examples: int) -> FirstSteps:
    """The seconds of the start and of a step of a program with the one optimizer or variant of a study.

    With the first one of a suite, the program also runs again with the same seed and with another one. A program makes
    its own batches, so that it is measured with all examples of one.
    """
    check = FirstCheck(study, arena, slot)
    if study.suite.first_steps == 0:
        return check.result(start=0.0, step=0.0, measured=False)
    first = check.first()
    check.check_rate(first)
    check.check_effect_of_rate(first)
    if first.record is None:
        check.notices.append(f"{check.name}: it still ran after {LONGEST:.0f} s: how long a trial takes is not known")
        check.say_of_test(first)
        return check.result(start=first.seconds, step=0.0, measured=False, asked=first.asked)
    start = first.seconds
    step = 0.0
    if check.is_first_of_suite:
        check.check_seeds(first)
        start, step = check.start_and_step(first)
    return check.result(start, step, measured=True, asked=first.asked, tested=first.tested)


class FirstCheck:
    """The first check of a program with one optimizer or variant in an arena."""

    def __init__(self, study: ResolvedSuite, arena: str, slot: DeviceSlot) -> None:
        self._runs = ProgramRuns(study, arena, slot)
        self.name = self._runs.name
        variant = study.optimizers[self.name].variant
        self._study = study
        self._options = self._runs.options
        self._placeholders = self._options.command(variant.words if variant else None).placeholders
        self._seeds = self._runs.seeds
        self.is_first_of_suite = self.name == next(iter(study.suite.optimizers))
        self.notices: list[str] = []
        self._rewritten = ""
        self._steps = 0

    def first(self) -> Run:
        """The first run. Raises `UsageError` with all that is missing."""
        try:
            first = self._first()
        except WrongReport as error:
            missing = self._missing(error.asked)
            raise ProgramError(". Also, ".join([str(error).removesuffix("."), *missing])) from error
        self._steps = first.steps
        return first

    def _first(self) -> Run:
        """The first run. If its reports are wrong after so few steps, it takes those of the shortest trial.

        A program that fails would fail again: its error is raised.
        """
        seed = self._seeds[0]
        shortest = self._runs.shortest
        steps = min(self._study.suite.first_steps, shortest)
        if self._options.own_length or steps == shortest:
            return self._runs.run(shortest, seed)
        try:
            return self._runs.run(steps, seed)
        except WrongReport as error:
            again = self._runs.run(shortest, seed)
            reason = f"the program reports no {error.missing} within {steps} steps"
            if not error.missing:
                reason = f"the reports of {steps} steps are wrong ({error})"
            self.notices.append(f"{reason}, so the check takes {shortest}")
            return again

    def start_and_step(self, first: Run) -> tuple[float, float]:
        """The seconds of the start and of a step: longer runs show how much of the first one's time was its start."""
        if self._options.own_length:
            return first.seconds, 0.0
        steps = first.steps
        left = BUDGET
        step = first.seconds / first.steps
        while steps < self._runs.shortest and (steps == first.steps or first.seconds < left):
            steps = min(GROWTH * steps, self._runs.shortest)
            longer = self._runs.run(steps, self._seeds[0])
            if longer.record is None:
                break
            left -= longer.seconds
            step = max(longer.seconds - first.seconds, 0.0) / (steps - first.steps)
            if longer.seconds > VISIBLE * first.seconds:
                break
        return max(first.seconds - first.steps * step, 0.0), step

    def check_rate(self, run: Run) -> None:
        """Raise `UsageError` if the learning rate is searched and does not reach the program."""
        if run.record is not None and not self._gets_rate(run.asked):
            raise ProgramError(f"{self._runs.where}{'. Also, '.join(self._missing(run.asked))}")

    def _missing(self, asked: Collection[str]) -> list[str]:
        """What does not reach the program, and what to do, in words."""
        missing = []
        if not self._gets_rate(asked):
            remedy = f"put {{lr}} into it, use trial.lr, or search none: --set optimizers.{self.name}.lr=0.001"
            missing.append(
                "the learning rate is searched, and does not reach the program: its command has no {lr}, and it did "
                f"not ask fairbench.trial for an optimizer or a rate; {remedy}"
            )
        if self._options.seeded and not self._gets_seed(asked):
            missing.append(f"{SEED_LOST}: {PASS_SEED}")
        return missing

    def _gets_rate(self, asked: Collection[str]) -> bool:
        """Whether the program gets the learning rate, or none is searched."""
        if not self._study.searched(self.name):
            return True
        return "lr" in self._placeholders or bool({"lr", *MAKES} & {*asked})

    def say_of_test(self, run: Run) -> None:
        """Add a notice if a program that was stopped has not reported a test split so far."""
        if self._study.suite.decides == "test" and not run.tested:
            self.notices.append(
                "it has reported no test split so far; if it never does, its final trials fail: "
                "--set 'breaks=[\"split\"]' takes the validation split"
            )

    def check_effect_of_rate(self, first: Run) -> None:
        """Raise `UsageError` if the learning rate is searched, and does not change what the program reports."""
        if not self._study.searched(self.name):
            return
        seed = self._seeds[0]
        longest = first.steps if self._options.own_length else self._runs.shortest
        check_effect_of_rate(
            first,
            longest,
            run=lambda steps, position: self._runs.run(steps, seed, position),
            spec=lambda steps, position: self._runs.spec(steps, seed, position),
        )

    def check_seeds(self, first: Run) -> None:
        """Run the program again with the same seed and with another one, and say what follows.

        Raises `UsageError` if it reports the same for all seeds.
        """
        if len(self._seeds) < 2:
            return
        if first.seconds > QUICK:
            if self._options.seeded and not self._gets_seed(first.asked):
                self.notices.append(f"{SEED_LOST}: {PASS_SEED}")
            return
        one, other = self._seeds[:2]
        with_other = self._runs.run(first.steps, other)
        self._rewritten = min(first.written & with_other.written, default="")
        if with_other.record is None:
            return
        if first.reported == with_other.reported and not self._options.seeded:
            self.notices.append(
                "the program reports the same in each run: its seed is fixed, so that its runs are no more than one; "
                "times can be compared, a difference of the metric has no test"
            )
            return
        if first.reported == with_other.reported:
            remedy = PASS_SEED
            if self._gets_seed(first.asked):
                remedy = IGNORES_SEED
            raise ProgramError(f"{self._runs.where}the program reports the same for seeds {one} and {other}; {remedy}")
        if self._options.seeded and not self._gets_seed(first.asked):
            self.notices.append(f"{SEED_LOST}, whose runs differ: {PASS_SEED}")
            return
        if self._options.seeded:
            again = self._runs.run(first.steps, one)
            if again.record is not None and again.reported != first.reported:
                length = "" if self._options.own_length else f" after {first.steps} steps"
                self.notices.append(_nondeterminism(first, again, one, length) + self._continuation())

    def _continuation(self) -> str:
        """The end of a notice, if a run may continue from what the one before it has left; otherwise empty."""
        if not self._rewritten:
            return ""
        return (
            f". If it continues from {self._rewritten}, which each run writes, its trials depend on each other, and no "
            "verdict is right: let it write into {out}, which is empty for each trial"
        )

    def _gets_seed(self, asked: Collection[str]) -> bool:
        """Whether the program gets the seed, by its command, by a variable, or from `fairbench.trial`."""
        if "seed" in self._placeholders or self._options.seed_env:
            return True
        return bool({"seed", "about"} & {*asked})

    def _is_told_by_name(self, asked: Collection[str]) -> bool:
        """Whether the program gets the name of its optimizer, and makes that itself."""
        if "optimizer" in asked:
            return False
        return "optimizer" in self._placeholders or bool({"about", "options"} & {*asked})

    def _identity(self) -> list[Any]:
        """What the program gets from its command, its variables and its code, at one rate and seed."""
        spec = self._runs.spec(2, self._seeds[0])
        options = dict(spec.optimizer.options)
        if self._study.searched(self.name):
            options["lr"] = 1.0
        same_rate = replace(spec, optimizer=replace(spec.optimizer, options=options))
        started = start_of(same_rate, Path("out"), self._runs.slot, self._options)
        return [started.words, str(started.folder), dict(spec.optimizer.variant or {}), dict(spec.optimizer.code)]

    def result(
        self, start: float, step: float, *, measured: bool, asked: Collection[str] = (), tested: bool = True
    ) -> FirstSteps:
        """What the first check has found."""
        all_options = bool({"options", *MAKES} & {*asked})
        identity = None if all_options or not measured else self._identity()
        return FirstSteps(
            seconds=step,
            start_seconds=start,
            steps=self._steps,
            unmeasured=not measured,
            lacks_test=self._study.suite.decides == "test" and not tested,
            told_by_name=self._is_told_by_name(asked),
            notices=self.notices,
            identity=identity,
            rewritten=self._rewritten,
        )


def _nondeterminism(first: Run, again: Run, seed: int, length: str) -> str:
    """The notice on a program that reports other numbers for the same seed. `length` is that of the runs, in words."""
    _, one = first.reported
    _, other = again.reported
    values = (one or {}).get("val", {})
    other_values = (other or {}).get("val", {})
    parts = []
    for name, value in values.items():
        other_value = other_values.get(name, math.nan)
        parts.append(f"val/{name} {value:g} and {other_value:g}")
    numbers = f" ({', '.join(parts)}{length})" if parts else ""
    return (
        f"the program reports other numbers for seed {seed} when it runs again{numbers}: "
        "its trials cannot be repeated exactly, and the differences of pairs contain this"
    )
