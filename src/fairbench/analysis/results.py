"""The records of a study sorted by arm; all analyses are functions of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from fairbench.common.formatting import plural
from fairbench.study.environments import environment_values
from fairbench.study.plan import Arm, Lookup, ResolvedSuite, SeedsNeeded, arms, timing_trials
from fairbench.study.record import Details, Error, MechanismReport, Record, Result, Series, TrialCost, WholeRecord
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.search import Setting


class Run(NamedTuple):
    """A planned trial and its record.

    Attributes:
        stage: "sweep", "final" or "timing".
        setting: its searched hyperparameters; None where none is selected yet.
        spec: the trial; None where no setting is selected yet.
        selected: whether its setting is the one that is reported.
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
        """The learning rate, None where none is selected yet."""
        return None if self.setting is None else self.setting.lr

    @property
    def weight_decay(self) -> float | None:
        """The weight decay; None where there is none, or none is selected yet."""
        return self.spec.weight_decay if self.spec else None

    @property
    def options(self) -> Mapping[str, Any]:
        """The optimizer's hyperparameters; empty where no setting is selected yet."""
        return self.spec.optimizer.options if self.spec else {}

    @property
    def status(self) -> str:
        """Either "finished", "diverged", "failed" or "missing"."""
        return self.record.status if self.record else "missing"

    @property
    def result(self) -> Result | None:
        """The measurements; None when the trial failed or is missing."""
        return self.record.result if self.record else None

    @property
    def error(self) -> Error | None:
        """Why the trial failed; None if it did not."""
        return self.record.error if self.record else None

    @property
    def cost(self) -> TrialCost | None:
        """What the trial took; None when it failed or is missing."""
        return self.record.cost if self.record else None

    def metric(self, split: str, name: str) -> float | None:
        """A final metric; None unless the trial finished and has seen that split."""
        return self.record.final(split).get(name) if self.record else None

    @property
    def details(self) -> Details:
        """Curves and mechanism; empty when the trial failed or is missing, and of a record without its long parts."""
        if isinstance(self.record, WholeRecord) and self.record.details:
            return self.record.details
        return Details(Series(), Series(), None)

    def curve(self, metric: str) -> dict[int, float]:
        """A metric on the validation split by step; empty when the trial failed or is missing."""
        return dict(self.details.evaluations.points(metric))

    @property
    def loss_curve(self) -> dict[int, float]:
        """The mean training loss of each window of steps by its last step; empty when there is none."""
        return dict(self.details.loss_curve.points("loss"))

    @property
    def mechanism(self) -> MechanismReport | None:
        """What the optimizer's mechanism did; None without one, and when the trial failed or is missing."""
        return self.details.mechanism

    @property
    def environment(self) -> Mapping[str, str]:
        """Machine and versions; empty when the trial failed or is missing."""
        if self.record is None:
            return {}
        return self.record.environment or {}

    def hash(self, of: str) -> str | None:
        """One of the result's hashes; None where a training program did not show it."""
        if self.result is None:
            return None
        return getattr(self.result.hashes, of) or None


@dataclass(frozen=True)
class ArmResults(Arm[Run]):
    """One optimizer in one arena, with one final trial for each seed that is needed; none if the sweep diverged."""

    timing: Sequence[Run] = ()
    """The timing trials that have a record."""

    @property
    def full_length(self) -> list[Run]:
        """The trials of stage 2 at every setting that is known."""
        return [run for run in (*self.others, *self.final) if run.setting]

    @property
    def rates(self) -> list[float]:
        """The learning rates that were tried, rising."""
        runs = [*self.sweep, *self.full_length]
        return sorted({run.lr for run in runs if run.lr is not None})

    @property
    def awaited(self) -> Sequence[Run]:
        """The trials on which the report depends: the final ones, or while no setting is selected all of stage 2."""
        return self.final or self.others

    def count(self, *statuses: str) -> int:
        """The number of these trials with one of the statuses."""
        return sum(run.status in statuses for run in self.awaited)

    @property
    def complete(self) -> bool:
        """Whether there are final trials and all of them finished."""
        return bool(self.final) and self.count("finished") == len(self.final)

    def scores(self, metric: str, split: str = "test") -> list[float]:
        """A metric of the finished final trials, by seed."""
        scores = []
        for run in self.final:
            value = run.metric(split, metric)
            if value is not None:
                scores.append(value)
        return scores


@dataclass(frozen=True, eq=False, repr=False)
class Results:
    """A study and its arms, in the order of the suite."""

    study: ResolvedSuite
    arms: list[ArmResults]

    def __repr__(self) -> str:
        return f"<Results of {self.study.suite.name}: {plural(len(self.arms), 'arm')}>"

    def arm(self, arena: str, optimizer: str) -> ArmResults:
        """One arm by its names."""
        return self.by_name[arena, optimizer]

    @cached_property
    def by_name(self) -> dict[tuple[str, str], ArmResults]:
        """The arms by arena and optimizer."""
        return {(arm.arena, arm.optimizer): arm for arm in self.arms}

    def of(self, arena: str) -> list[ArmResults]:
        """The arms of one arena."""
        return [arm for arm in self.arms if arm.arena == arena]

    def select(self, keep: Callable[[Run], bool]) -> list[Run]:
        """The trials of all arms that fulfil a condition."""
        selected: list[Run] = []
        for arm in self.arms:
            selected += filter(keep, arm.trials)
        return selected

    @cached_property
    def environment(self) -> dict[str, tuple[str, ...]]:
        """Machine and versions: the values that each fact has in the trials with a result."""
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
    """The results of a study, as far as its records go, with the final seeds that each arm needs; by default all."""
    needed = seeds or study.suite.all_seeds
    timing: dict[tuple[str, str], list[TrialSpec]] = {}
    for spec in timing_trials(study):
        timing.setdefault((spec.arena.name, spec.optimizer.name), []).append(spec)
    planned = arms(study, lookup, needed)
    collected = []
    for name, arm in zip(study.suite.arms, planned, strict=True):
        collected.append(_collect_arm(study, arm, needed[name], timing.get(name, []), lookup))
    return Results(study, collected)


def _collect_arm(
    study: ResolvedSuite, arm: Arm[TrialSpec], seeds: int, timing: list[TrialSpec], lookup: Lookup
) -> ArmResults:
    searched = study.suite.sweep.extra if arm.tuned else ()

    def runs(specs: Iterable[TrialSpec]) -> Iterator[Run]:
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

    found = arm.map(lambda specs: [*runs(specs)])
    if not (arm.others or arm.selected or arm.diverged):
        found = replace(found, final=[_unknown_final(arm, seed) for seed in study.suite.final.seeds[:seeds]])
    measured = [run for run in runs(timing) if run.result]
    return ArmResults(**vars(found), timing=measured)


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
