"""The trials that a study needs: a function of the study and of the existing records alone.

An interrupted study therefore resumes as if it had never stopped.
"""

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Generic, TypeVar

from fairbench.arenas.base import ArenaFacts
from fairbench.common.coercion import build
from fairbench.optimizers.spec import WARMUP, ResolvedOptimizer
from fairbench.study.record import Record
from fairbench.study.trial_spec import ArenaSpec, TrainingSpec, TrialSpec
from fairbench.suites.checks import check_resolved
from fairbench.suites.loader import parse_suite
from fairbench.suites.schema import Suite
from fairbench.suites.search import Extra, Score, Scores, Search, Setting, best_of, search_for

T = TypeVar("T")
U = TypeVar("U")
Lookup = Callable[[TrialSpec], Record | None]
"""The record of a trial; None without one."""
SeedsNeeded = Mapping[tuple[str, str], int]
"""Of each arm, by arena and optimizer, how many of the final seeds it needs, in their order."""
TIMING_TRIALS = 5
"""Timing trials of each optimizer in each arena."""
TIMED_STEPS = 60
"""Training steps of a timing trial."""


@dataclass(frozen=True)
class ResolvedArena:
    """An arena with its data and code on this machine.

    Attributes:
        fingerprint: sha256 of its data.
        code: the code that takes part with every optimizer, see `fairbench.runner.code_identity`.
        starts: of each seed, the sha256 of the initial weights, made in a process that has loaded no optimizer.
    """

    fingerprint: str
    code: Mapping[str, str]
    starts: Mapping[str, str]


@dataclass(frozen=True)
class ResolvedSuite:
    """A suite as it is resolved on this machine; planning and reporting need only this.

    Attributes:
        device: kind of device of all trials.
        environment: versions, device and git revision.
    """

    suite: Suite
    device: str
    arenas: Mapping[str, ResolvedArena]
    optimizers: Mapping[str, ResolvedOptimizer]
    environment: Mapping[str, str]

    def search(self, optimizer: str) -> Search:
        """The hyperparameter search of an optimizer."""
        resolved = self.optimizers[optimizer]
        return search_for(self.suite.sweep, resolved.lr_scale, resolved.lr, resolved.lacks)

    def tuned(self, optimizer: str) -> bool:
        """Whether the learning rate of an optimizer is searched."""
        return self.optimizers[optimizer].lr is None

    def to_json(self) -> dict[str, Any]:
        """The study as plain JSON values, for `config.json`."""
        return {**asdict(self), "suite": self.suite.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: str) -> "ResolvedSuite":
        """The study that `to_json` wrote; error messages name it `where`."""
        plain = build(dict[str, Any], value, ())
        suite = parse_suite(build(dict[str, Any], plain.get("suite"), ("suite",)), where)
        parts = {"device": str, "arenas": dict[str, ResolvedArena], "optimizers": dict[str, ResolvedOptimizer]}
        made = {key: build(shape, plain.get(key), (key,)) for key, shape in parts.items()}
        if made["optimizers"].keys() != suite.optimizers.keys() or made["arenas"].keys() != suite.arenas.keys():
            raise ValueError("its optimizers or arenas are not those of its suite")
        for name, resolved in made["optimizers"].items():
            check_resolved(("optimizers", name), suite.sweep, resolved)
        return cls(suite, environment=build(dict[str, str], plain.get("environment", {}), ("environment",)), **made)


@dataclass(frozen=True)
class Selection:
    """The settings that the searches of an arm selected.

    Attributes:
        by_seed: the setting that was selected with a seed of the sweep, and for a final seed; empty while a search is
            incomplete, and if one diverged.
    """

    by_seed: Mapping[int, Setting] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is a setting for every final seed."""
        return bool(self.by_seed)

    @property
    def settings(self) -> list[Setting]:
        """The selected settings, each once, by rising rate."""
        return sorted(set(self.by_seed.values()), key=lambda setting: setting.lr)

    @property
    def rates(self) -> list[float]:
        """The selected learning rates, each once, rising."""
        return sorted({setting.lr for setting in self.by_seed.values()})


@dataclass(frozen=True)
class Arm(Generic[T]):
    """One optimizer in one arena, as far as its records determine it; T is a trial, or what is known of it.

    Attributes:
        tuned: whether there is a search, here or in the arena that this one is tuned on.
        sweep: trials of stage 1, in each search by rising learning rate; empty in an arena that is tuned on
            another one, and for an optimizer that is not tuned.
        confirm: trials of the selected setting and its neighbors with the reported length, in the same order.
        searched: the settings that the sweep selects; where they are confirmed, `selected` may differ.
        selected: the settings of the final trials.
        final: trials of stage 2, empty without a selection; with looks, as many as the arm may ever need.
        diverged: whether all searches are complete and in one of them no rate has only finished trials.
    """

    arena: str
    optimizer: str
    tuned: bool
    sweep: Sequence[T] = ()
    confirm: Sequence[T] = ()
    searched: Selection = field(default_factory=Selection)
    selected: Selection = field(default_factory=Selection)
    final: Sequence[T] = ()
    diverged: bool = False

    @property
    def trials(self) -> list[T]:
        """All trials that are known to be needed."""
        return [*self.sweep, *self.confirm, *self.final]

    def map(self, of_stage: Callable[[Sequence[T]], Sequence[U]]) -> "Arm[U]":
        """The arm with something else in place of the trials of each stage."""
        stages = {name: of_stage(getattr(self, name)) for name in ("sweep", "confirm", "final")}
        return Arm(**{**vars(self), **stages})


def score(record: Record, metric: str, arena: ArenaFacts) -> Score:
    """The final validation metrics as a sort key: the primary first, the others break ties; lower is better.

    A diverged trial ranks last.
    """
    metrics = arena.metrics
    if record.status != "finished":
        return (float("inf"),) * len(metrics)
    val = record.final("val")
    ordered = sorted(metrics, key=lambda name: name != metric)
    return tuple(val[name] if metrics[name] == "min" else -val[name] for name in ordered)


def arms(study: ResolvedSuite, lookup: Lookup) -> list[Arm[TrialSpec]]:
    """Every arm of the study, as far as its records determine it."""
    suite = study.suite
    return [Trials(study, arena, optimizer).arm(lookup) for arena, optimizer in suite.arms]


class Trials:
    """The trials that one arm may need, each made once."""

    def __init__(self, study: ResolvedSuite, arena: str, optimizer: str) -> None:
        self.study, self.arena, self.optimizer = study, arena, optimizer
        tuned_on = study.suite.tuned_on(arena)
        self._tuning = self if tuned_on == arena else Trials(study, tuned_on, optimizer)
        self._made: dict[tuple[str, Setting], TrialSpec] = {}

    def arm(self, lookup: Lookup) -> Arm[TrialSpec]:
        """The searches, in this arena or the one that it is tuned on, then the final trials with what they selected."""
        tuned, searches = self._tuning.swept(lookup), self.study.suite.searches
        of_each = [(tuned.selected.by_seed[seeds[0]], seeds) for _, seeds in searches if tuned.selected]
        final = [spec for setting, seeds in of_each for spec in self._trial("final", setting).with_seeds(seeds)]
        if self._tuning is self:
            return replace(tuned, final=final)
        return replace(tuned, arena=self.arena, sweep=(), confirm=(), searched=Selection(), final=final)

    def swept(self, lookup: Lookup) -> Arm[TrialSpec]:
        """Every search with all trials that its records call for, and the setting that it selected."""
        suite, search = self.study.suite, self.study.search(self.optimizer)
        arm = Arm[TrialSpec](self.arena, self.optimizer, self.study.tuned(self.optimizer))
        if not arm.tuned:
            (fixed,) = search.first()
            return replace(arm, selected=Selection(dict.fromkeys(suite.final.seeds, fixed)))
        sweeps = [self._tried("sweep", search.next, seeds, lookup) for seeds, _ in suite.searches]
        searched, diverged = self._selection([scores for _, scores in sweeps])
        sweep = [*chain.from_iterable(trials for trials, _ in sweeps)]
        arm = replace(arm, sweep=sweep, searched=searched, diverged=diverged)
        if not searched or not suite.confirms(self.arena):
            return replace(arm, selected=searched)
        short = [(seeds, scores) for (seeds, _), (_, scores) in zip(suite.searches, sweeps, strict=True)]
        full = [self._tried("confirm", partial(search.confirm, scores), seeds, lookup) for seeds, scores in short]
        selected, diverged = self._selection([scores for _, scores in full])
        confirm = [*chain.from_iterable(trials for trials, _ in full)]
        return replace(arm, confirm=confirm, selected=selected, diverged=diverged)

    def _selection(self, searches: Sequence[Scores]) -> tuple[Selection, bool]:
        """What the searches selected, and whether one diverged; nothing while one of them has no scores."""
        if not all(searches):
            return Selection(), False
        best = [best_of(scores) for scores in searches]
        if any(scores[setting][0] == float("inf") for setting, scores in zip(best, searches, strict=True)):
            return Selection(), True
        seeds = self.study.suite.searches
        of_each = (dict.fromkeys([*x, *y], setting) for setting, (x, y) in zip(best, seeds, strict=True))
        return Selection(dict(ChainMap(*of_each))), False

    def _tried(
        self, stage: str, more: Callable[[Scores], list[Setting]], seeds: Sequence[int], lookup: Lookup
    ) -> tuple[list[TrialSpec], Scores]:
        """The trials of a stage by rising rate, and the mean score of each setting; none while a trial has none."""
        metric, facts = self.study.suite.arenas[self.arena].metric, self.study.suite.facts(self.arena)
        parts: dict[Setting, list[TrialSpec]] = {}
        scores: dict[Setting, Score] = {}
        while new := more(scores):
            tried = {setting: self._trial(stage, setting).with_seeds(seeds) for setting in new}
            parts = _by_rate({**parts, **tried})
            found = {setting: [lookup(spec) for spec in specs] for setting, specs in tried.items()}
            records = {setting: [x for x in of if x and x.status != "failed"] for setting, of in found.items()}
            if any(len(records[setting]) < len(of) for setting, of in found.items()):
                return [*chain.from_iterable(parts.values())], {}
            means = {x: _mean([score(record, metric, facts) for record in of]) for x, of in records.items()}
            scores = _by_rate({**scores, **means})
        return [*chain.from_iterable(parts.values())], scores

    def _trial(self, stage: str, setting: Setting) -> TrialSpec:
        """A trial with a setting, whose seed is to be replaced."""
        key = (stage, setting)
        if key not in self._made:
            self._made[key] = trial_spec(self.study, self.arena, self.optimizer, stage, setting.lr, 0, setting.extra)
        return self._made[key]


def _by_rate(of_settings: Mapping[Setting, T]) -> dict[Setting, T]:
    """The entries by rising rate, and those of one rate in the order of the search."""
    return dict(sorted(of_settings.items(), key=lambda item: item[0].lr))


def _mean(scores: list[Score]) -> Score:
    return tuple(sum(column) / len(scores) for column in zip(*scores, strict=True))


def trial_spec(
    study: ResolvedSuite, arena: str, optimizer: str, stage: str, lr: float, seed: int, extra: Extra = ()
) -> TrialSpec:
    """One trial of a study; hyperparameters that are not in `extra` have the optimizer's values."""
    suite, plan, resolved = study.suite, study.suite.arenas[arena], study.arenas[arena]
    steps = {"sweep": plan.sweep_steps, "timing": TIMED_STEPS}.get(stage, plan.steps)
    evaluations = {"timing": 1, "final": suite.final.evaluations}.get(stage, suite.sweep.evaluations)
    searched = {"lr": lr, **dict(extra)}
    schedule, min_lr = suite.schedule(arena, optimizer)
    trained = {
        **vars(suite.training),
        "clip_norm": suite.clip_norm(optimizer),
        WARMUP: searched.pop(WARMUP, suite.training.warmup_steps),
        "schedule": schedule,
        "min_lr": min_lr,
    }
    return TrialSpec(
        arena=ArenaSpec(
            arena, suite.task(arena), plan.data, plan.model, plan.batch_size, resolved.fingerprint, resolved.code
        ),
        optimizer=study.optimizers[optimizer].spec(arena, searched, steps),
        training=TrainingSpec(
            **trained,
            steps=steps,
            evaluations=evaluations,
            selection=suite.selection,
            shock=plan.shock,
            device=study.device,
        ),
        stage=stage,
        seed=seed,
    )


def timing_trials(study: ResolvedSuite) -> list[TrialSpec]:
    """Short trials that measure the cost of a step, interleaved so that drift of the machine affects all alike."""
    suite = study.suite
    trials: list[TrialSpec] = []
    for arena, plan in suite.arenas.items():
        if not (plan.shock or plan.curve_only):  # neither changes the cost of a step
            of_each = [typical_trial(study, arena, name, "timing", 0) for name in suite.optimizers]
            trials += chain.from_iterable(zip(*(x.with_seeds(range(TIMING_TRIALS)) for x in of_each), strict=True))
    return trials


def typical_trial(study: ResolvedSuite, arena: str, optimizer: str, stage: str, seed: int) -> TrialSpec:
    """A trial with a setting from the middle of the optimizer's search, for stages that read no metric."""
    settings = study.search(optimizer).first()
    typical = settings[len(settings) // 2]
    return trial_spec(study, arena, optimizer, stage, typical.lr, seed, typical.extra)
