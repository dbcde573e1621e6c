"""The runs of a session, each batch as a small study of variants of the program."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairbench.analysis.results import Results, collect
from fairbench.analysis.results import Run as TrialRun
from fairbench.arenas.program import PROGRAM_SUITE
from fairbench.common.console import Terminal
from fairbench.common.processes import cores
from fairbench.common.terminal import say
from fairbench.gate.session import Batch, Entry, Run
from fairbench.optimizers.spec import BY_PROGRAM, OptimizerPlan
from fairbench.optimizers.variant import VariantPlan
from fairbench.runner.devices import RunOptions, device_kind, device_slots, gpus_here
from fairbench.runner.progress.live import LiveProgress
from fairbench.runner.run_study import run_study
from fairbench.study.history import History
from fairbench.study.snapshot import open_study
from fairbench.study.target import target_in
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import Overrides
from fairbench.suites.schema import Suite
from fairbench.training.device_slot import DeviceSlot

ARENA = f"arenas.{PROGRAM_SUITE}"
"""The beginning of the keys of the program's arena."""
SLOWEST = 3.0
"""The longest duration of a run beyond LEAST_SECONDS, as a multiple of the mean duration of a run of base.

Base is the last certified commit of the session.
"""
LEAST_SECONDS = 60.0
"""The seconds that are added to this duration, for short runs."""


@dataclass(frozen=True)
class Trainer:
    """Trains the batches of a session.

    Attributes:
        facts: the first entry of the session, which has the settings of the program.
        folder: the folder of the session's studies.
        seconds: the mean duration of a run of base, the last certified commit; 0 before it is known.
        quiet: whether no progress is shown.
        certifies: whether the runs are those of a certificate, which reads the test split if there is one.
        margin: the margin of the study's verdicts, which only a prune reads.
    """

    facts: Entry
    folder: Path
    seconds: float = 0.0
    quiet: bool = False
    certifies: bool = False
    margin: float = 1.0

    def __call__(self, batch: Batch, seeds: Sequence[int]) -> list[Run]:
        """Train each arm of a batch with each seed, one run after the other.

        The study reverses the order of the arms for every second seed. The runs are returned seed by seed, always in
        the order of the batch. The folder of the study has the name of its first seed, so that an interrupted batch
        continues there.
        """
        directory = self.folder / str(seeds[0])
        results = self.study(directory, batch, seeds)
        runs = []
        for position in range(len(seeds)):
            for arm in batch.arms:
                trial = results.arm(PROGRAM_SUITE, arm).final[position]
                runs.append(_run_of(trial, self.facts["metric"]))
        return runs

    def study(self, directory: Path, batch: Batch, seeds: Sequence[int]) -> Results:
        """Run the study of a batch, and collect its results."""
        kind = device_kind("auto", History())
        suite = self._suite(batch, seeds, kind)
        target = target_in(directory, suite)
        limit = 0.0
        if self.seconds:
            limit = LEAST_SECONDS + SLOWEST * self.seconds
        options = RunOptions(_slots(kind), trial_timeout=limit)
        run_study(target, options, [LiveProgress(Terminal(quiet=self.quiet))])
        history, lookup = open_study(directory)
        return collect(history.study, lookup)

    def _suite(self, batch: Batch, seeds: Sequence[int], kind: str) -> Suite:
        """The suite of a batch: its arms are the variants. Every run has all GPUs, or all cores of the CPU."""
        settings: dict[str, Any] = {
            **self.facts["settings"],
            "first_steps": 0,  # the runs themselves show whether the program works
            f"{ARENA}.margin": self.margin,
            f"{ARENA}.model.cores": cores(),
        }
        if kind == "cuda":
            settings[f"{ARENA}.model.gpus"] = gpus_here()
        if self.certifies and self.facts["test_metric"]:
            settings[f"{ARENA}.model.keys"] = self._keys_of_test()
        variants = {}
        for arm, commit in batch.arms.items():
            variants[arm] = OptimizerPlan(BY_PROGRAM, variant=VariantPlan(revision=commit))
        steps = self.facts["steps"]
        return load_suite(
            PROGRAM_SUITE, Overrides(settings=settings, variants=variants, seeds=list(seeds), steps=steps)
        )

    def _keys_of_test(self) -> dict[str, str]:
        """The names by which the program reports values, by fairbench's names of these values.

        What the program reports of the test split takes the place of the validation metric.
        """
        metric = self.facts["metric"]
        return {f"val/{metric}": self.facts["test_metric"]}


def _slots(kind: str) -> list[DeviceSlot]:
    """One slot with the whole machine."""
    if kind == "cuda":
        return device_slots(kind, workers=1, data_root="data", gpus=range(gpus_here()))
    return device_slots(kind, workers=None, data_root="data")


def _run_of(trial: TrialRun, metric: str) -> Run:
    """The run of a trial. The output of a program that failed is printed."""
    error = ""
    if trial.error is not None:
        say(f"{trial.optimizer}, seed {trial.seed}: {trial.error.message}", is_error=True)
        error = trial.error.message.rstrip().rpartition("\n")[2]
    seconds = 0.0
    steps = 1
    if trial.cost is not None:
        seconds = trial.cost.seconds.total
        steps = trial.cost.steps
    return Run(
        arm=trial.optimizer,
        seed=trial.seed,
        status=trial.status,
        value=trial.metric("test", metric),
        seconds=seconds,
        steps=steps,
        error=error,
    )
