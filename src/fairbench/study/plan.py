"""The trials that a study needs: a function of the study and of the existing records alone.

An interrupted study therefore resumes as if it had never stopped.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from fairbench.arenas.base import ArenaFacts
from fairbench.optimizers.spec import ResolvedOptimizer
from fairbench.study.records import Record
from fairbench.study.trial_spec import ArenaSpec, Specs, TrainingSpec, TrialSpec
from fairbench.suites.loader import parse_suite
from fairbench.suites.schema import Suite
from fairbench.suites.search import Extra, Search, Setting, search_for

Lookup = Callable[[TrialSpec], Record | None]
"""The record of a trial; None without one."""
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
class Arm:
    """One optimizer in one arena, as far as its records determine it.

    Attributes:
        sweep: trials of stage 1, by rising learning rate, with extensions of the grid; empty in an arena that is tuned
            on another one, and for an optimizer that is not tuned.
        setting: the selected setting; None while the sweep is incomplete, and if it diverged.
        final: trials of stage 2, empty without a setting.
        diverged: whether the sweep is complete and no rate has only finished trials.
    """

    arena: str
    optimizer: str
    sweep: Specs
    setting: Setting | None
    final: Specs
    diverged: bool = False

    @property
    def lr(self) -> float | None:
        """The selected learning rate."""
        return None if self.setting is None else self.setting.lr

    @property
    def trials(self) -> list[TrialSpec]:
        """The trials of both stages that are known to be needed."""
        return [*self.sweep, *self.final]


def score(record: Record, metric: str, arena: ArenaFacts) -> tuple[float, ...]:
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
        self._made: dict[tuple[str, tuple[Setting, ...]], Specs] = {}

    def arm(self, lookup: Lookup) -> Arm:
        """The sweep, in this arena or the one that it is tuned on, then the final trials with the selected setting."""
        tuned = self._tuning.swept(lookup)
        sweep = tuned.sweep if self._tuning is self else Specs()
        final = Specs() if tuned.setting is None else self._of("final", tuned.setting)
        return Arm(self.arena, self.optimizer, sweep, tuned.setting, final, tuned.diverged)

    def swept(self, lookup: Lookup) -> Arm:
        """The sweep with all extensions that its records call for, and its best setting."""
        suite, search = self.study.suite, self.study.search(self.optimizer)
        metric, facts = suite.arenas[self.arena].metric, suite.facts(self.arena)
        settings = search.first()
        if len(settings) == 1:
            return Arm(self.arena, self.optimizer, Specs(), settings[0], Specs())
        while True:
            settings.sort(key=lambda setting: setting.lr)
            trials = self._of("sweep", *settings)
            records = [lookup(spec) for spec in trials]
            if any(record is None or record["status"] == "failed" for record in records):
                return Arm(self.arena, self.optimizer, trials, None, Specs())

            scores = [score(record or {}, metric, facts) for record in records]
            each = len(trials) // len(settings)
            means = [_mean(scores[i : i + each]) for i in range(0, len(trials), each)]
            best = settings[means.index(min(means))]  # the lowest rate of equals, then the first value of the extra
            more = search.more(settings, best)
            if not more:
                diverged = min(means)[0] == float("inf")
                return Arm(self.arena, self.optimizer, trials, None if diverged else best, Specs(), diverged)
            settings += more

    def _of(self, stage: str, *settings: Setting) -> Specs:
        """The trials of these settings with the seeds of the stage."""
        if (stage, settings) not in self._made:
            of_each = [trial_spec(self.study, self.arena, self.optimizer, stage, x.lr, 0, x.extra) for x in settings]
            self._made[stage, settings] = Specs(of_each, getattr(self.study.suite, stage).seeds)
        return self._made[stage, settings]


def _mean(scores: list[tuple[float, ...]]) -> tuple[float, ...]:
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
            selection="test" if "split" in suite.breaks else "val",
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
            trials += chain.from_iterable(zip(*(Specs([spec], range(TIMING_TRIALS)) for spec in of_each), strict=True))
    return trials


def typical_trial(study: Study, arena: str, optimizer: str, stage: str, seed: int) -> TrialSpec:
    """A trial with a setting from the middle of the optimizer's search, for stages that read no metric."""
    settings = study.search(optimizer).first()
    typical = settings[len(settings) // 2]
    return trial_spec(study, arena, optimizer, stage, typical.lr, seed, typical.extra)
