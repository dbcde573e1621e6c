"""The trials that a study needs: a function of the study and of the existing records alone.

An interrupted study therefore resumes as if it had never stopped.
"""

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

from fairbench.arenas.base import ArenaFacts
from fairbench.optimizers.spec import ResolvedOptimizer
from fairbench.study.records import Record
from fairbench.study.trial_spec import ArenaSpec, Specs, TrainingSpec, TrialSpec, joined
from fairbench.suites.loader import parse_suite
from fairbench.suites.schema import Suite
from fairbench.suites.search import Extra, Search, Setting, search_for

Lookup = Callable[[TrialSpec], Record | None]
"""The record of a trial; None without one."""
SeedsNeeded = Mapping[tuple[str, str], int]
"""Of each arm, by arena and optimizer, how many of the final seeds it needs, in their order."""
Score = tuple[float, ...]
"""The validation metrics of a trial as a sort key, see `score`; lower is better."""
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
class Study:
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
        return search_for(self.suite.sweep, resolved.lr_scale, resolved.lr)

    def tuned(self, optimizer: str) -> bool:
        """Whether the learning rate of an optimizer is searched."""
        return self.optimizers[optimizer].lr is None

    def to_json(self) -> dict[str, Any]:
        """The study as plain JSON values, for `config.json`."""
        return {**asdict(self), "suite": self.suite.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: str) -> "Study":
        """The study that `to_json` wrote; error messages name it `where`."""
        arenas = {name: ResolvedArena(**fields) for name, fields in value["arenas"].items()}
        optimizers = {name: ResolvedOptimizer(**fields) for name, fields in value["optimizers"].items()}
        suite = parse_suite(value["suite"], where)
        if optimizers.keys() != suite.optimizers.keys() or arenas.keys() != suite.arenas.keys():
            raise ValueError("its optimizers or arenas are not those of its suite")
        return cls(suite, value["device"], arenas, optimizers, value.get("environment", {}))


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
class Arm:
    """One optimizer in one arena, as far as its records determine it.

    Attributes:
        sweep: trials of stage 1, in each search by rising learning rate, with extensions of the grid; empty in an arena
            that is tuned on another one, and for an optimizer that is not tuned.
        selected: the settings of the final trials.
        final: trials of stage 2, empty without a selection; with looks, as many as the arm may ever need.
        diverged: whether all searches are complete and in one of them no rate has only finished trials.
    """

    arena: str
    optimizer: str
    sweep: Specs
    selected: Selection
    final: Specs
    diverged: bool = False

    @property
    def trials(self) -> list[TrialSpec]:
        """The trials of both stages that are known to be needed."""
        return [*self.sweep, *self.final]


def score(record: Record, metric: str, arena: ArenaFacts) -> Score:
    """The final validation metrics as a sort key: the primary first, the others break ties; lower is better.

    A diverged trial ranks last.
    """
    metrics = arena.metrics
    if record["status"] != "finished":
        return (float("inf"),) * len(metrics)
    val = record["result"]["final"]["val"]
    ordered = sorted(metrics, key=lambda name: name != metric)
    return tuple(val[name] if metrics[name] == "min" else -val[name] for name in ordered)


def arms(study: Study, lookup: Lookup) -> list[Arm]:
    """Every arm of the study, as far as its records determine it."""
    suite = study.suite
    return [Trials(study, arena, optimizer).arm(lookup) for arena in suite.arenas for optimizer in suite.optimizers]


class Trials:
    """The trials that one arm may need, each made once."""

    def __init__(self, study: Study, arena: str, optimizer: str) -> None:
        self.study, self.arena, self.optimizer = study, arena, optimizer
        tuned_on = study.suite.tuned_on(arena)
        self._tuning = self if tuned_on == arena else Trials(study, tuned_on, optimizer)
        self._made: dict[tuple[str, tuple[Setting, ...], tuple[int, ...]], Specs] = {}

    def arm(self, lookup: Lookup) -> Arm:
        """The searches, in this arena or the one that it is tuned on, then the final trials with what they selected."""
        tuned = self._tuning.swept(lookup)
        sweep = tuned.sweep if self._tuning is self else Specs()
        finals = [seeds for _, seeds in self.study.suite.searches] if tuned.selected else []
        final = joined([self._of("final", [tuned.selected.by_seed[seeds[0]]], seeds) for seeds in finals])
        return Arm(self.arena, self.optimizer, sweep, tuned.selected, final, tuned.diverged)

    def swept(self, lookup: Lookup) -> Arm:
        """Every search with all extensions that its records call for, and the setting that it selected."""
        suite, (first, *others) = self.study.suite, self.study.search(self.optimizer).first()
        if not others:
            return Arm(self.arena, self.optimizer, Specs(), Selection(dict.fromkeys(suite.final.seeds, first)), Specs())
        searched = [self._searched(seeds, lookup) for seeds, _ in suite.searches]
        trials = joined([of_search for of_search, _ in searched])
        if not all(means for _, means in searched):
            return Arm(self.arena, self.optimizer, trials, Selection(), Specs())
        best = [_best(means) for _, means in searched]
        if any(means[setting][0] == float("inf") for setting, (_, means) in zip(best, searched, strict=True)):
            return Arm(self.arena, self.optimizer, trials, Selection(), Specs(), diverged=True)
        of_each = (dict.fromkeys([*x, *y], setting) for setting, (x, y) in zip(best, suite.searches, strict=True))
        return Arm(self.arena, self.optimizer, trials, Selection(dict(ChainMap(*of_each))), Specs())

    def _searched(self, seeds: Sequence[int], lookup: Lookup) -> tuple[Specs, Mapping[Setting, Score]]:
        """The trials of a search, and the mean score of each setting; no scores while one of the trials has none."""
        metric, facts = self.study.suite.arenas[self.arena].metric, self.study.suite.facts(self.arena)
        search = self.study.search(self.optimizer)
        settings = search.first()
        while True:
            settings.sort(key=lambda setting: setting.lr)
            trials = self._of("sweep", settings, seeds)
            records = [lookup(spec) for spec in trials]
            if any(record is None or record["status"] == "failed" for record in records):
                return trials, {}
            scores = [score(record or {}, metric, facts) for record in records]
            of_each = (scores[i : i + len(seeds)] for i in range(0, len(scores), len(seeds)))
            means = dict(zip(settings, map(_mean, of_each), strict=True))
            more = search.more(settings, _best(means))
            if not more:
                return trials, means
            settings += more

    def _of(self, stage: str, settings: Sequence[Setting], seeds: Sequence[int]) -> Specs:
        """The trials of these settings with these seeds."""
        key = (stage, tuple(settings), tuple(seeds))
        if key not in self._made:
            of_each = [trial_spec(self.study, self.arena, self.optimizer, stage, x.lr, 0, x.extra) for x in settings]
            self._made[key] = Specs([(spec, seeds) for spec in of_each])
        return self._made[key]


def _best(means: Mapping[Setting, Score]) -> Setting:
    """The setting with the best mean; of equals the lowest rate, then the first value of the extra."""
    return min(means, key=lambda setting: means[setting])


def _mean(scores: list[Score]) -> Score:
    return tuple(sum(column) / len(scores) for column in zip(*scores, strict=True))


def trial_spec(
    study: Study, arena: str, optimizer: str, stage: str, lr: float, seed: int, extra: Extra = ()
) -> TrialSpec:
    """One trial of a study; hyperparameters that are not in `extra` have the optimizer's values."""
    suite, plan, resolved = study.suite, study.suite.arenas[arena], study.arenas[arena]
    steps = {"sweep": plan.sweep_steps, "final": plan.steps, "timing": TIMED_STEPS}[stage]
    evaluations = 1 if stage == "timing" else getattr(suite, stage).evaluations
    return TrialSpec(
        arena=ArenaSpec(
            arena, suite.task(arena), plan.data, plan.model, plan.batch_size, resolved.fingerprint, resolved.code
        ),
        optimizer=study.optimizers[optimizer].spec(arena, {"lr": lr, **dict(extra)}, steps),
        training=TrainingSpec(
            **{**vars(suite.training), "clip_norm": suite.clip_norm(optimizer)},
            steps=steps,
            evaluations=evaluations,
            selection=suite.selection,
            shock=plan.shock,
            device=study.device,
        ),
        stage=stage,
        seed=seed,
    )


def timing_trials(study: Study) -> list[TrialSpec]:
    """Short trials that measure the cost of a step, interleaved so that drift of the machine affects all alike."""
    suite = study.suite
    trials: list[TrialSpec] = []
    for arena, plan in suite.arenas.items():
        if not plan.shock:  # a shock does not change the cost of a step
            of_each = [typical_trial(study, arena, name, "timing", 0) for name in suite.optimizers]
            trials += chain.from_iterable(
                zip(*(Specs([(spec, range(TIMING_TRIALS))]) for spec in of_each), strict=True)
            )
    return trials


def typical_trial(study: Study, arena: str, optimizer: str, stage: str, seed: int) -> TrialSpec:
    """A trial with a setting from the middle of the optimizer's search, for stages that read no metric."""
    settings = study.search(optimizer).first()
    typical = settings[len(settings) // 2]
    return trial_spec(study, arena, optimizer, stage, typical.lr, seed, typical.extra)
