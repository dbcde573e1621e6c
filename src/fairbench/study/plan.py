"""What to run next: a function of the study and of the records that there are, and of nothing else.

So an interrupted study goes on as if it had never stopped.
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
"""The record of a trial, None when there is none yet."""
TURNS = 5
"""How many timing trials an optimizer has in an arena."""
TIMED_STEPS = 60


@dataclass(frozen=True)
class ResolvedArena:
    """An arena as this machine has it.

    Attributes:
        fingerprint: sha256 of its data.
        code: what takes part whatever the optimizer, see `fairbench.runner.code_identity`.
        starts: of each seed the sha256 of the initial weights, as a process makes them that knows no optimizer.
    """

    fingerprint: str
    code: Mapping[str, str]
    starts: Mapping[str, str]


@dataclass(frozen=True)
class Study:
    """A suite together with what it meets on this machine; all that planning and reporting need to know.

    Attributes:
        suite: the suite.
        device: device of all trials.
        arenas: the suite's arenas as they are here.
        optimizers: the suite's optimizers with every hyperparameter.
        environment: versions, device and git revision.
    """

    suite: Suite
    device: str
    arenas: Mapping[str, ResolvedArena]
    optimizers: Mapping[str, ResolvedOptimizer]
    environment: Mapping[str, str]

    def search(self, optimizer: str) -> Search:
        """The search for an optimizer."""
        resolved = self.optimizers[optimizer]
        return search_for(self.suite.sweep, resolved.lr_scale, resolved.lr)

    def tuned(self, optimizer: str) -> bool:
        """Whether a learning rate is searched for an optimizer."""
        return self.optimizers[optimizer].lr is None

    def to_json(self) -> dict[str, Any]:
        """The study as plain JSON values, for `config.json`."""
        return {**asdict(self), "suite": self.suite.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: str) -> "Study":
        """The study that `to_json` wrote; errors call it `where`."""
        arenas = {name: ResolvedArena(**fields) for name, fields in value["arenas"].items()}
        optimizers = {name: ResolvedOptimizer(**fields) for name, fields in value["optimizers"].items()}
        suite = parse_suite(_renewed(value["suite"]), where)
        if optimizers.keys() != suite.optimizers.keys() or arenas.keys() != suite.arenas.keys():
            raise ValueError("its optimizers or arenas are not those of its suite")
        return cls(suite, value["device"], arenas, optimizers, value.get("environment", {}))


def _renewed(suite: Mapping[str, Any]) -> dict[str, Any]:
    """A suite from before `sweep.extra`, when weight decays were all that could be searched with the rate."""
    sweep = dict(suite["sweep"])
    if decays := sweep.pop("weight_decays", []):
        sweep["extra"] = {"weight_decay": decays}
    return {**suite, "sweep": sweep}


@dataclass(frozen=True)
class Arm:
    """One optimizer in one arena, as far as the records take it.

    Attributes:
        arena: name of the arena.
        optimizer: name of the optimizer.
        sweep: trials of stage 1, by rising learning rate; extensions of the grid included. None in an arena that is
            tuned on another one, and of an optimizer that is untuned.
        setting: what was selected; None while the sweep is incomplete, and for good if it diverged.
        final: trials of stage 2, empty without a setting.
        diverged: whether the sweep is complete and at no rate all its trials finished.
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
        """All trials of both stages that are known to be needed."""
        return [*self.sweep, *self.final]


def score(record: Record, metric: str, arena: ArenaFacts) -> tuple[float, ...]:
    """How good the validation split's final metrics are: the primary first, the others break ties; lower is better.

    A trial that diverged ranks behind all others.
    """
    metrics = arena.metrics
    if record["status"] != "finished":
        return (float("inf"),) * len(metrics)
    val = record["result"]["final"]["val"]
    ordered = sorted(metrics, key=lambda name: name != metric)
    return tuple(val[name] if metrics[name] == "min" else -val[name] for name in ordered)


def arms(study: Study, lookup: Lookup) -> list[Arm]:
    """Every arm of the study, as far as the records take it."""
    suite = study.suite
    return [Trials(study, arena, optimizer).arm(lookup) for arena in suite.arenas for optimizer in suite.optimizers]


class Trials:
    """The trials that one arm may need, each made once.

    Args:
        study: the study.
        arena: name of the arena.
        optimizer: name of the optimizer.
    """

    def __init__(self, study: Study, arena: str, optimizer: str) -> None:
        self.study, self.arena, self.optimizer = study, arena, optimizer
        tuned_on = study.suite.tuned_on(arena)
        self._tuning = self if tuned_on == arena else Trials(study, tuned_on, optimizer)
        self._made: dict[tuple[str, tuple[Setting, ...]], Specs] = {}

    def arm(self, lookup: Lookup) -> Arm:
        """The sweep, here or in the arena that this one is tuned on, then the trials with what it selected."""
        tuned = self._tuning.swept(lookup)
        sweep = tuned.sweep if self._tuning is self else Specs()
        final = Specs() if tuned.setting is None else self._of("final", tuned.setting)
        return Arm(self.arena, self.optimizer, sweep, tuned.setting, final, tuned.diverged)

    def swept(self, lookup: Lookup) -> Arm:
        """Try settings for as long as the search has more of them, and select the best."""
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
        """The trials of some settings, each with the seeds of the stage."""
        if (stage, settings) not in self._made:
            of_each = [trial_spec(self.study, self.arena, self.optimizer, stage, x.lr, 0, x.extra) for x in settings]
            self._made[stage, settings] = Specs(of_each, getattr(self.study.suite, stage).seeds)
        return self._made[stage, settings]


def _mean(scores: list[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(sum(column) / len(scores) for column in zip(*scores, strict=True))


def trial_spec(
    study: Study, arena: str, optimizer: str, stage: str, lr: float, seed: int, extra: Extra = ()
) -> TrialSpec:
    """One trial of a study; without an extra the optimizer has its own value."""
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
    """Short trials that measure what a step costs: the optimizers take turns, so that a machine's moods meet all."""
    suite = study.suite
    calm = [arena for arena, plan in suite.arenas.items() if not plan.shock]  # the twin tells what a step costs
    trials: list[TrialSpec] = []
    for arena in calm:
        of_each = [Specs([typical_trial(study, arena, name, "timing", 0)], range(TURNS)) for name in suite.optimizers]
        trials += chain.from_iterable(zip(*of_each, strict=True))
    return trials


def typical_trial(study: Study, arena: str, optimizer: str, stage: str, seed: int) -> TrialSpec:
    """A trial with a setting from the middle of the optimizer's search, where no metric is read."""
    settings = study.search(optimizer).first()
    typical = settings[len(settings) // 2]
    return trial_spec(study, arena, optimizer, stage, typical.lr, seed, typical.extra)
