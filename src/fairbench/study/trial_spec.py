"""What one trial is: everything that determines its numbers, and the identity that follows from it."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any

from fairbench.common.hashing import Part
from fairbench.optimizers.spec import OptimizerSpec

ID_DIGITS = 20
"""Hexadecimal digits of a trial's identity."""


@dataclass(frozen=True)
class ArenaSpec(Part):
    """The task: data, model and batch size.

    Attributes:
        name: name of the arena.
        task: its module.
        data: where its data come from, see `fairbench.data.registry`.
        model: options of the arena's `build_model`.
        batch_size: examples in a training batch.
        fingerprint: sha256 of the data itself.
        code: what takes part whatever the optimizer, see `fairbench.runner.code_identity`.
    """

    name: str
    task: str
    data: Mapping[str, Any]
    model: Mapping[str, Any]
    batch_size: int
    fingerprint: str
    code: Mapping[str, str]


@dataclass(frozen=True)
class TrainingSpec(Part):
    """How the training goes.

    Attributes:
        steps: optimizer steps.
        warmup_steps: steps of linear learning-rate warm-up before the cosine.
        clip_norm: the global gradient norm is clipped to this; 0 is off.
        evaluations: evaluations on the validation split, the last at the end.
        log_every: steps of a training-loss window.
        evaluation_batch_size: examples that a model evaluates at a time; no metric depends on it.
        precision: "float32", or "bfloat16" for autocast.
        deterministic: whether a GPU must add in the same order every time.
        compile: whether model and optimizer step are compiled.
        selection: the split that is evaluated meanwhile, "val"; "test" where the suite breaks that rule.
        shock: how the training is disturbed, see `fairbench.arenas.shocks.registry`; empty if it is not.
        device: kind of device of model and data.
    """

    steps: int
    warmup_steps: int
    clip_norm: float
    evaluations: int
    log_every: int
    evaluation_batch_size: int
    precision: str
    deterministic: bool
    compile: bool
    selection: str
    shock: Mapping[str, Any]
    device: str


def _head(arena: str, optimizer: str) -> str:
    """What of a spec's text all its seeds share."""
    return f'{{"arena":{arena},"optimizer":{optimizer},"seed":'


@lru_cache(maxsize=10_000)
def _begun(arena: str, optimizer: str) -> "hashlib._Hash":
    """The sha256 of a spec's text, as far as all its seeds share it: most of the work, done once for all of them."""
    return hashlib.sha256(_head(arena, optimizer).encode())


@dataclass(frozen=True)
class TrialSpec:
    """One training run.

    Attributes:
        arena: the task.
        optimizer: the optimizer with every hyperparameter.
        training: how the training goes.
        stage: "sweep" (selects the learning rate, never sees the test split), "final", or "timing" (no metric is read).
        seed: seed of the initial weights and of the batch order.
    """

    arena: ArenaSpec
    optimizer: OptimizerSpec
    training: TrainingSpec
    stage: str
    seed: int

    @property
    def lr(self) -> float:
        """The learning rate before warm-up and cosine."""
        return float(self.optimizer.options["lr"])

    @property
    def weight_decay(self) -> float | None:
        """The weight decay; None if the optimizer has no such argument."""
        value = self.optimizer.options.get("weight_decay")
        return None if value is None else float(value)

    def to_json(self) -> dict[str, Any]:
        """The spec as plain JSON values, which belong to it."""
        entries = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: entry.to_json() if isinstance(entry, Part) else entry for name, entry in entries.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "TrialSpec":
        """The spec that `to_json` wrote."""
        parts = {"arena": ArenaSpec, "optimizer": OptimizerSpec, "training": TrainingSpec}
        return cls(**{key: parts[key](**part) if key in parts else part for key, part in value.items()})

    @property
    def text(self) -> str:
        """The spec's canonical JSON text, put together from those of its parts: keys in the order of the alphabet."""
        return f"{_head(self.arena.text, self.optimizer.text)}{self.seed:d}{self._tail}"

    @property
    def _tail(self) -> str:
        return f',"stage":"{self.stage}","training":{self.training.text}}}'

    @property
    def as_stored(self) -> dict[str, Any]:
        """The spec as its record gives it back."""
        return json.loads(self.text)  # type: ignore[no-any-return]

    @cached_property
    def id(self) -> str:
        """The trial's identity: the first 20 hexadecimal digits of the sha256 of the whole spec."""
        return next(self.ids([self.seed]))

    def ids(self, seeds: Iterable[int]) -> Iterator[str]:
        """The identities of this trial with other seeds."""
        begun, tail = _begun(self.arena.text, self.optimizer.text), self._tail.encode()
        for seed in seeds:
            sha = begun.copy()
            sha.update(b"%d%b" % (seed, tail))
            yield sha.hexdigest()[:ID_DIGITS]

    def label(self, searched: Iterable[str] = ()) -> str:
        """The trial in a few words.

        Args:
            searched: hyperparameters that are searched with the rate, as far as the optimizer has them.
        """
        options = self.optimizer.options
        beside = "".join(f" {name}={options[name]}" for name in searched if name in options)
        return f"{self.arena.name} {self.optimizer.name} lr={self.lr:.3g}{beside} {self.stage} seed {self.seed}"


@dataclass(frozen=True)
class Specs(Sequence[TrialSpec]):
    """Trials of some settings, each with the same seeds: a spec is made when it is asked for, an id without one.

    Attributes:
        settings: a trial of each setting; its seed does not matter.
        seeds: the seeds that each of them has.
    """

    settings: Sequence[TrialSpec] = ()
    seeds: Sequence[int] = ()

    @cached_property
    def ids(self) -> list[str]:
        """The trials' ids, in their order."""
        return [trial for setting in self.settings for trial in setting.ids(self.seeds)]

    @cached_property
    def _made(self) -> list[TrialSpec]:
        parts = [(x.arena, x.optimizer, x.training, x.stage) for x in self.settings]
        return [TrialSpec(*shared, seed) for shared in parts for seed in self.seeds]

    def __len__(self) -> int:
        return len(self.settings) * len(self.seeds)

    def __getitem__(self, place: Any) -> Any:
        return self._made[place]

    def __iter__(self) -> Iterator[TrialSpec]:
        return iter(self._made)
