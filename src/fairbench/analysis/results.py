"""The records of a study, sorted by arm. All analyses are functions of them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from fairbench.common.formatting import plural
from fairbench.study.environments import environment_values
from fairbench.study.plan import Arm, Lookup, SeedsNeeded, arms
from fairbench.study.planned_trial import timing_trials
from fairbench.study.record import Details, Error, MechanismReport, Record, Result, Series, TrialCost, WholeRecord
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.search import NO_RATE, Setting


class Run(NamedTuple):
    """A planned trial and its record.

    Attributes:
        stage: "sweep", "final" or "timing".
        setting: its searched hyperparameters; None for a final trial whose setting is not selected yet.
        spec: the specification of the trial; None where no setting is selected yet.
        selected: whether its setting is the reported one.
    """

    arena: str
    optimizer: str
    stage: str
    setting: Setting | None
    seed: int
    spec: TrialSpec | None
    record: Record | None
    selected: bool = False

    @property
    def lr(self) -> float | None:
        """The learning rate; None where no setting is selected yet, and for a program without a rate."""
        if self.setting is None or self.setting.lr == NO_RATE:
            return None
        return self.setting.lr

    @property
    def weight_decay(self) -> float | None:
        """The weight decay; None without a weight decay, or where no setting is selected yet."""
        return self.spec.weight_decay if self.spec else None

    @property
    def options(self) -> Mapping[str, Any]:
        """The optimizer's hyperparameters; empty where no setting is selected yet."""
        return self.spec.optimizer.options if self.spec else {}

    @property
    def status(self) -> str:
        """The status: "finished", "diverged", "failed" or "missing"."""
        return self.record.status if self.record else "missing"

    @property
    def result(self) -> Result | None:
        """The measurements; None when the trial failed or is missing."""
        return self.record.result if self.record else None

    @property
    def error(self) -> Error | None:
        """The error of a trial that failed; None for other trials."""
        return self.record.error if self.record else None

    @property
    def cost(self) -> TrialCost | None:
        """The time and memory of the trial; None when it failed or is missing."""
        return self.record.cost if self.record else None

    def metric(self, split: str, name: str) -> float | None:
        """A final metric on a split; None unless the trial finished and was evaluated on that split."""
        return self.record.final(split).get(name) if self.record else None

    @property
    def details(self) -> Details:
        """The curves and the report of the mechanism.

        They are empty when the trial failed or is missing, and for a record that was read without its long parts.
        """
        if isinstance(self.record, WholeRecord) and self.record.details:
            return self.record.details
        return Details(Series(), Series(), None)

    def curve(self, metric: str) -> dict[int, float]:
        """A metric on the validation split, by step; empty when the trial failed or is missing."""
        return dict(self.details.evaluations.points(metric))

    @property
    def loss_curve(self) -> dict[int, float]:
        """The mean training loss of each window of steps, by the last step of the window; may be empty."""
        return dict(self.details.loss_curve.points("loss"))

    @property
    def mechanism(self) -> MechanismReport | None:
        """The report of the optimizer's mechanism; None without one, and when the trial failed or is missing."""
        return self.details.mechanism

    @property
    def environment(self) -> Mapping[str, str]:
        """The machine and the versions; empty when the trial failed or is missing."""
        if self.record is None:
            return {}
        return self.record.environment or {}

    def hash(self, name: str) -> str | None:
        """A hash of the result by its name; None without a result, or where a training program did not show it."""
        if self.result is None:
            return None
        return getattr(self.result.hashes, name) or None


@dataclass(frozen=True)
class ArmResults(Arm[Run]):
    """One optimizer in one arena, with one final trial for each needed seed.

    If the sweep diverged, there are no final trials.
    """

    timing: Sequence[Run] = ()
    """The timing trials that have a record."""

    @property
    def full_length(self) -> list[Run]:
        """The trials of stage 2 at every setting, without those whose setting is not selected yet."""
        return [run for run in (*self.others, *self.final) if run.setting]

    @property
    def rates(self) -> list[float]:
        """The learning rates that were tried, in rising order."""
        runs = [*self.sweep, *self.full_length]
        return sorted({run.lr for run in runs if run.lr is not None})

    @property
    def awaited(self) -> Sequence[Run]:
        """The trials on which the report depends: the final trials, or all of stage 2 while no setting is selected."""
        return self.final or self.others

    def count(self, *statuses: str) -> int:
        """The number of awaited trials with one of the statuses."""
        return sum(run.status in statuses for run in self.awaited)

    @property
    def complete(self) -> bool:
        """Whether there are final trials and all of them finished."""
        return bool(self.final) and self.count("finished") == len(self.final)

    def scores(self, metric: str, split: str = "test") -> list[float]:
        """A metric of the finished final trials, in the order of the seeds."""
        return list(self.scores_by_seed(metric, split).values())

    def scores_by_seed(self, metric: str, split: str = "test") -> dict[int, float]:
        """A metric of the finished final trials, by seed."""
        scores = {}
        for run in self.final:
            value = run.metric(split, metric)
            if value is not None:
                scores[run.seed] = value
        return scores


@dataclass(frozen=True, eq=False, repr=False)
class Results:
    """A study and its arms, in the order of the suite."""

    study: ResolvedSuite
    arms: list[ArmResults]

    def __repr__(self) -> str:
        return f"<Results of {self.study.suite.name}: {plural(len(self.arms), 'arm')}>"

    def arm(self, arena: str, optimizer: str) -> ArmResults:
        """The arm of an arena and an optimizer."""
        return self.by_name[arena, optimizer]

    @cached_property
    def by_name(self) -> dict[tuple[str, str], ArmResults]:
        """The arms by arena and optimizer."""
        return {(arm.arena, arm.optimizer): arm for arm in self.arms}

    def of(self, arena: str) -> list[ArmResults]:
        """The arms of one arena."""
        return [arm for arm in self.arms if arm.arena == arena]

    def select(self, keep: Callable[[Run], bool]) -> list[Run]:
        """The trials of all arms for which `keep` is true."""
        selected: list[Run] = []
        for arm in self.arms:
            selected += filter(keep, arm.trials)
        return selected

    @property
    def shortage(self) -> str:
        """How many of the trials known to be needed are missing or failed, in words; empty if none is."""
        runs = self.select(lambda run: True)
        counts = Counter(run.status for run in runs)
        shortages = [f"{counts[status]} {status}" for status in ("missing", "failed") if counts[status]]
        if not shortages:
            return ""
        return f"of {len(runs)} trials known to be needed, {' and '.join(shortages)}"

    @cached_property
    def environment(self) -> dict[str, tuple[str, ...]]:
        """The values of each fact about the machine and the versions, in the trials with a result."""
        measured = self.select(lambda run: run.result is not None)
        return environment_values(run.environment for run in measured)

    @cached_property
    def metrics(self) -> dict[str, list[str]]:
        """The metrics of each arena, the primary one first."""
        suite = self.study.suite
        metrics = {}
        for arena, plan in suite.arenas.items():
            others = [metric for metric in suite.facts(arena).metrics if metric != plan.metric]
            metrics[arena] = [plan.metric, *others]
        return metrics


def collect(study: ResolvedSuite, lookup: Lookup, seeds: SeedsNeeded | None = None) -> Results:
    """Collect the results of a study, as far as its records go.

    Args:
        study: the study.
        lookup: the function that returns the record of a trial, or None.
        seeds: the number of final seeds that each arm needs; by default all.
    """
    needed = seeds or study.suite.all_seeds
    timing_of_arm: dict[tuple[str, str], list[TrialSpec]] = {}
    for spec in timing_trials(study):
        timing_of_arm.setdefault((spec.arena.name, spec.optimizer.name), []).append(spec)
    planned = arms(study, lookup, needed)
    collected = []
    for name, arm in zip(study.suite.arms, planned, strict=True):
        timing = timing_of_arm.get(name, [])
        collected.append(_collect_arm(study, arm, needed[name], timing, lookup))
    return Results(study, collected)


def _collect_arm(
    study: ResolvedSuite, arm: Arm[TrialSpec], seeds: int, timing: list[TrialSpec], lookup: Lookup
) -> ArmResults:
    """The results of an arm.

    Args:
        arm: the planned trials.
        seeds: the number of final seeds that the arm needs.
        timing: the planned timing trials.
    """
    searched: Iterable[str] = ()
    if arm.tuned:
        searched = study.suite.sweep.extra

    def runs(specs: Iterable[TrialSpec]) -> Iterator[Run]:
        """Each planned trial with its record."""
        for spec in specs:
            setting = Setting.of(spec.hyperparameters, searched)
            yield Run(
                arena=arm.arena,
                optimizer=arm.optimizer,
                stage=spec.stage,
                setting=setting,
                seed=spec.seed,
                spec=spec,
                record=lookup(spec),
                selected=setting == arm.selected,
            )

    with_records = arm.map(lambda specs: [*runs(specs)])
    can_plan_finals = arm.others or arm.selected or arm.diverged
    if not can_plan_finals:
        # the sweep is not complete
        unknown = [_unknown_final(arm, seed) for seed in study.suite.final.seeds[:seeds]]
        with_records = replace(with_records, final=unknown)
    measured = [run for run in runs(timing) if run.result]
    return ArmResults(**vars(with_records), timing=measured)


def _unknown_final(arm: Arm[TrialSpec], seed: int) -> Run:
    """A final trial whose setting is not known yet."""
    return Run(
        arena=arm.arena,
        optimizer=arm.optimizer,
        stage="final",
        setting=None,
        seed=seed,
        spec=None,
        record=None,
    )
