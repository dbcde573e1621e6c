"""What to run next: a pure function of the study and of the records that there are.

Nothing is remembered between calls, so an interrupted study goes on as if it had never stopped.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from fairbench.arenas import ARENAS, load_arena
from fairbench.errors import UsageError
from fairbench.optimizers import ResolvedOptimizer, build_optimizer, resolve_optimizer
from fairbench.spec import ArenaSpec, TrainingSpec, TrialSpec
from fairbench.suite import ArenaPlan, Suite
from fairbench.suite_file import parse_suite

Record = dict[str, Any]
Lookup = Callable[[TrialSpec], Record | None]
"""The record of a trial, None when there is none yet."""


@dataclass(frozen=True)
class Study:
    """A suite together with what it meets on this machine; all that planning and reporting need to know.

    Attributes:
        suite: the suite.
        device: device of all trials.
        fingerprints: sha256 of each arena's data.
        optimizers: the suite's optimizers with every hyperparameter.
        environment: versions, device and git revision.
    """

    suite: Suite
    device: str
    fingerprints: Mapping[str, str]
    optimizers: Mapping[str, ResolvedOptimizer]
    environment: Mapping[str, str]

    @classmethod
    def resolve(cls, suite: Suite, device: str) -> "Study":
        """Load the suite's data and optimizers; this imports heavy libraries.

        Raises:
            UsageError: an optimizer, a hyperparameter, data or the device is not there.
        """
        from fairbench.environment import check_device, environment

        check_device(device)
        optimizers = {name: resolve_optimizer(name, plan) for name, plan in suite.optimizers.items()}
        fingerprints = {name: _rehearse(name, plan, optimizers) for name, plan in suite.arenas.items()}
        return cls(suite, device, fingerprints, optimizers, environment(device))

    def to_json(self) -> dict[str, Any]:
        """The study as plain JSON values, for `config.json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: str) -> "Study":
        """The study that `to_json` wrote; errors call it `where`."""
        optimizers = {name: ResolvedOptimizer(**fields) for name, fields in value["optimizers"].items()}
        suite = parse_suite(value["suite"], where)
        if optimizers.keys() != suite.optimizers.keys() or value["fingerprints"].keys() != suite.arenas.keys():
            raise ValueError("its optimizers or fingerprints are not those of its suite")
        return cls(suite, value["device"], value["fingerprints"], optimizers, value.get("environment", {}))


def _rehearse(name: str, plan: ArenaPlan, optimizers: Mapping[str, ResolvedOptimizer]) -> str:
    """Build the arena's model and every optimizer once, so that what cannot work is said before anything runs.

    The results of the trials do not depend on it: each seeds its own generators.

    Returns:
        sha256 of the arena's data.

    Raises:
        UsageError: the model, the batch size or an optimizer's hyperparameters are impossible.
    """
    import torch

    arena = load_arena(name)
    data = arena.load_data(**plan.data)
    if plan.batch_size > len(data.train.inputs):
        most = len(data.train.inputs)
        raise UsageError(
            f"arenas.{name}.batch_size must be at most {most}, the training examples; got {plan.batch_size}"
        )
    with _named(f"arenas.{name}.model: {dict(plan.model)} is impossible"):
        model = arena.build_model(data, **plan.model)
        arena.loss(model, data.train.first(plan.batch_size), torch.Generator())
    for optimizer in optimizers.values():
        with _named(f"optimizers.{optimizer.name}: {optimizer.factory} cannot be built"):
            build_optimizer(optimizer.spec(lr=1e-3, steps=plan.steps), model.parameters())
    return data.fingerprint


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Say of any exception what could not be done."""
    try:
        yield
    except Exception as error:
        raise UsageError(f"{what}: {type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class Arm:
    """One optimizer in one arena, as far as the records take it.

    Attributes:
        arena: name of the arena.
        optimizer: name of the optimizer.
        sweep: trials of stage 1, by rising learning rate; extensions of the grid included.
        lr: the selected learning rate, None while the sweep is incomplete.
        final: trials of stage 2, empty while the sweep is incomplete.
    """

    arena: str
    optimizer: str
    sweep: list[TrialSpec]
    lr: float | None
    final: list[TrialSpec]

    @property
    def trials(self) -> list[TrialSpec]:
        """All trials of both stages that are known to be needed."""
        return [*self.sweep, *self.final]


def score(record: Record, metric: str, arena: str) -> tuple[float, ...]:
    """How good the validation split's final metrics are: the primary first, the others break ties; lower is better.

    A trial that diverged ranks behind all others.
    """
    metrics = ARENAS[arena].metrics
    if record["status"] != "finished":
        return (float("inf"),) * len(metrics)
    val = record["result"]["final"]["val"]
    ordered = sorted(metrics, key=lambda name: name != metric)
    return tuple(val[name] if metrics[name] == "min" else -val[name] for name in ordered)


def arms(study: Study, lookup: Lookup) -> list[Arm]:
    """Every arm of the study, as far as the records take it."""
    suite = study.suite
    return [_arm(study, arena, optimizer, lookup) for arena in suite.arenas for optimizer in suite.optimizers]


def _arm(study: Study, arena: str, optimizer: str, lookup: Lookup) -> Arm:
    """Sweep the grid, extend it while the best rate lies on its edge, then evaluate the best rate."""
    sweep, metric = study.suite.sweep, study.suite.arenas[arena].metric
    low, high = 0, sweep.points - 1
    while True:
        trials = {i: _seeds(study, arena, optimizer, "sweep", sweep.rate(i)) for i in range(low, high + 1)}
        flat = [spec for specs in trials.values() for spec in specs]
        records = {spec.id: lookup(spec) for spec in flat}
        if any(record is None or record["status"] == "failed" for record in records.values()):
            return Arm(arena, optimizer, flat, None, [])

        scores = {i: _mean([score(records[spec.id] or {}, metric, arena) for spec in trials[i]]) for i in trials}
        best = min(scores, key=scores.__getitem__)  # the lowest rate of equals
        extensions = high - low + 1 - sweep.points
        if best not in (low, high) or extensions == sweep.max_extensions:
            lr = sweep.rate(best)
            return Arm(arena, optimizer, flat, lr, _seeds(study, arena, optimizer, "final", lr))
        low, high = (low - 1, high) if best == low else (low, high + 1)


def _mean(scores: list[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(sum(column) / len(scores) for column in zip(*scores, strict=True))


def _seeds(study: Study, arena: str, optimizer: str, stage: str, lr: float) -> list[TrialSpec]:
    """The trials of one learning rate, one for each seed of the stage."""
    suite, plan = study.suite, study.suite.arenas[arena]
    is_sweep = stage == "sweep"
    steps = plan.sweep_steps if is_sweep else plan.steps
    training = TrainingSpec(
        steps=steps,
        warmup_steps=suite.training.warmup_steps,
        clip_norm=suite.training.clip_norm,
        evaluations=suite.sweep.evaluations if is_sweep else suite.final.evaluations,
        log_every=suite.training.log_every,
        device=study.device,
    )
    return [
        TrialSpec(
            arena=ArenaSpec(arena, plan.data, plan.model, plan.batch_size, study.fingerprints[arena]),
            optimizer=study.optimizers[optimizer].spec(lr, steps),
            training=training,
            stage=stage,
            seed=seed,
        )
        for seed in (suite.sweep.seeds if is_sweep else suite.final.seeds)
    ]


def missing(arms: list[Arm], lookup: Lookup) -> Iterator[TrialSpec]:
    """The trials that can run now and have no record, stage 1 first."""
    for stage in ("sweep", "final"):
        for arm in arms:
            for spec in arm.trials:
                if spec.stage == stage and lookup(spec) is None:
                    yield spec


@dataclass(frozen=True)
class Outlook:
    """How far a study is.

    Attributes:
        done: trials with a record.
        trials: trials in all, as far as is known: the sweeps may still be extended.
        steps_left: training steps that are left in each arena.
    """

    done: int
    trials: int
    steps_left: Mapping[str, int]


def outlook(study: Study, arms: list[Arm], lookup: Lookup) -> Outlook:
    """How far the study is."""
    done = trials = 0
    steps_left = dict.fromkeys(study.suite.arenas, 0)
    for arm in arms:
        left = [spec.training.steps for spec in arm.trials if lookup(spec) is None]
        done += len(arm.trials) - len(left)
        if arm.lr is None:
            left += [study.suite.arenas[arm.arena].steps] * len(study.suite.final.seeds)
        trials += len(left)
        steps_left[arm.arena] += sum(left)
    return Outlook(done, done + trials, steps_left)
