"""The short runs of a training program in the first check of a study."""

import shlex
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fairbench.arenas.program import ASKED, PROGRAM_SUITE, ProgramOptions, own_folder
from fairbench.common.errors import ProgramError, UsageError
from fairbench.optimizers.spec import BY_PROGRAM
from fairbench.runner.trainings.written_files import file_times, written
from fairbench.study.planned_trial import trial_spec
from fairbench.study.record import WholeRecord
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.program import program_trial
from fairbench.training.program_process import ProgramFailed, StillRunning
from fairbench.training.program_results import Reported
from fairbench.training.program_start import start_of
from fairbench.training.result_files import is_elsewhere, pattern_of
from fairbench.training.result_names import MissingMetric, WrongResults

LONGEST = 120.0
"""The most seconds that a program runs in the first check. Then it is stopped, and counts as started."""


class WrongReport(ProgramError):
    """A program ended without an error, and its reports are wrong.

    Attributes:
        asked: as in `Run`.
        missing: the metric that it has not reported, such as "val/loss"; empty if something else is wrong.
    """

    def __init__(self, message: str, asked: Collection[str] = (), missing: str = "") -> None:
        super().__init__(message)
        self.asked = asked
        self.missing = missing


@dataclass(frozen=True)
class Run:
    """A run of the first check.

    Attributes:
        steps: the steps that it was told to take.
        record: its record; None if it was still running after `LONGEST` seconds.
        seconds: its duration.
        asked: the names of what it has asked `fairbench.trial` for.
        written: the files that it has written in the folder in which it runs.
        tested: whether it has reported a metric of a test split.
    """

    steps: int
    record: WholeRecord | None
    seconds: float
    asked: Collection[str]
    written: frozenset[str]
    tested: bool

    @property
    def reported(self) -> tuple[Any, Any]:
        """The curves and the final metrics that the program reported."""
        assert self.record
        assert self.record.result
        return self.record.details, self.record.result.final


class ProgramRuns:
    """The runs of a program with the one optimizer or variant of a study in an arena."""

    def __init__(self, study: ResolvedSuite, arena: str, slot: DeviceSlot) -> None:
        ((self.name, self._resolved),) = study.optimizers.items()
        self.study = study
        self.arena = arena
        self.slot = slot
        self.options = ProgramOptions(**study.suite.arenas[arena].model)
        self.seeds = study.suite.final.seeds

    @cached_property
    def shortest(self) -> int:
        """The number of steps of the shortest trial."""
        plan = self.study.suite.arenas[self.arena]
        if self.study.searched(self.name):
            return min(plan.sweep_steps, plan.steps)
        return plan.steps

    def spec(self, steps: int, seed: int, position: int = 0) -> TrialSpec:
        """A trial of some steps. `position` is that of its setting in the first grid of the search."""
        setting = self.study.search(self.name).first()[position]
        spec = trial_spec(
            self.study, self.arena, self.name, stage="final", lr=setting.lr, seed=seed, extra=setting.extra
        )
        warmup_steps = min(spec.training.warmup_steps, steps // 2)
        training = replace(spec.training, steps=steps, warmup_steps=warmup_steps, log_every=1)
        if self.study.suite.trains_programs:  # the verdict may be about the validation split
            training = replace(training, decides="val")
        options = dict(spec.optimizer.options)
        if self._resolved.horizon:
            options[self._resolved.horizon] = steps
        return replace(spec, training=training, optimizer=replace(spec.optimizer, options=options))

    def run(self, steps: int, seed: int, position: int = 0) -> Run:
        """Run the program with a setting of the search, see `spec`.

        Raises:
            WrongReport: its reports are wrong.
            UsageError: it fails.
        """
        spec = self.spec(steps, seed, position)
        with tempfile.TemporaryDirectory(prefix="fairbench-") as folder:
            slot = replace(self.slot, checkpoints=folder)
            works_in = start_of(spec, Path(folder), slot, self.options).folder
            before = file_times(works_in)
            record = None
            seconds = LONGEST
            shown: list[Reported] = []
            try:
                record = program_trial(spec, slot, lambda step, loss: None, longest=LONGEST, show=shown.append)
            except StillRunning:
                pass
            except ProgramFailed as error:
                raise self._failure(error, steps) from error
            except WrongResults as error:
                message = f"in the first check {self._with}, {error}"
                pattern = pattern_of(written(before, file_times(works_in)))
                if pattern and not is_elsewhere(self.options):
                    written_here = f"It has written where it runs: --results {shlex.quote(pattern)} reads that"
                    message = f"{message.removesuffix('.')}. {written_here}"
                missing = ""
                if isinstance(error, MissingMetric):
                    missing = error.name
                raise WrongReport(message, _asked(folder, spec), missing) from error
            if record is not None:
                assert record.cost
                seconds = record.cost.seconds.total
            asked = _asked(folder, spec)
        keys = {key for reported in shown for key in (*reported.values, *reported.result)}
        return Run(
            steps=steps,
            record=record,
            seconds=seconds,
            asked=asked,
            written=written(before, file_times(works_in)),
            tested=any(key.startswith("test/") for key in keys),
        )

    def _own_names(self, error: ProgramFailed) -> str:
        """What to do if the program may have failed because it has its own names for optimizers; empty otherwise."""
        is_named = "{optimizer}" in self.options.program and self.name in error.end
        if self._resolved.factory == BY_PROGRAM or not is_named:
            return ""
        return f"\nif the program makes its optimizers itself, --optimizers {BY_PROGRAM}:NAME has its own name of each"

    @property
    def where(self) -> str:
        """The beginning of a message: the arena of a suite file; empty for the program of the command line."""
        if self.arena == PROGRAM_SUITE:
            return ""
        return f"arenas.{self.arena}: "

    @property
    def _with(self) -> str:
        """What the program runs with, in words."""
        of_arena = "" if self.arena == PROGRAM_SUITE else f" in {self.arena}"
        if self._resolved.variant is not None:
            return f"of variant {self.name}{of_arena}"
        return f"with {self.name}{of_arena}"

    def _failure(self, error: ProgramFailed, steps: int) -> UsageError:
        """The error for a program that has failed. One that was killed may be right."""
        length = "" if self.options.own_length else f"{steps} steps, "
        if self._resolved.variant is not None:
            failed = f"variant {self.name} failed in the first check"
        else:
            failed = f"the program failed in the first check with {self.name}"
        message = f"{self.where}{failed} ({length}{error.how}):\n{error.end}{self._own_names(error)}"
        if error.was_killed:
            return UsageError(message)
        return ProgramError(message)


def _asked(folder: str, spec: TrialSpec) -> set[str]:
    """The names of what the program of a trial has asked `fairbench.trial` for. `folder` has that of the trial."""
    marks = own_folder(Path(folder).resolve() / spec.id).glob(f"{ASKED}*")
    return {mark.name.removeprefix(ASKED) for mark in marks}
