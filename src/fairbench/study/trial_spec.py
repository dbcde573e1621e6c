"""The specification of a trial: everything that determines its numbers, and the identity that follows from it."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fairbench.common.hashing import SpecPart
from fairbench.optimizers.spec import WARMUP, OptimizerSpec
from fairbench.suites.search import NO_RATE

ID_DIGITS = 20
"""Hexadecimal digits of a trial's identity."""


@dataclass(frozen=True)
class ArenaSpec(SpecPart):
    """The task of a trial.

    Data, model and batch size are those of the arena's plan. Fingerprint and code are those of `ResolvedArena`.
    """

    name: str
    task: str
    data: Mapping[str, Any]
    model: Mapping[str, Any]
    batch_size: int
    fingerprint: str
    code: Mapping[str, str]


@dataclass(frozen=True)
class TrainingSpec(SpecPart):
    """The training of a trial, apart from its task and its optimizer.

    The attributes are those of `fairbench.suites.stages.Training`, and:
        evaluations: number of evaluations on the validation split, the last one at the end.
        selection: the split that is evaluated during training: "val", or "test" where the suite breaks that rule.
        shock: the disturbance, see `fairbench.arenas.shocks.registry`; empty for none.
        device: the kind of device.
        decides: the split that the verdict is about, see `Suite.decides`.
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
    schedule: str = "cosine"
    min_lr: float = 0.0
    decides: str = "test"


@dataclass(frozen=True)
class TrialSpec:
    """One training run.

    Attributes:
        stage: "sweep" (locates the setting, never sees the test split), "final", or "timing" (no metric is
            read).
        seed: seed of the initial weights and of the batch order.
    """

    arena: ArenaSpec
    optimizer: OptimizerSpec
    training: TrainingSpec
    stage: str
    seed: int

    @property
    def lr(self) -> float:
        """The learning rate before warm-up and schedule: the peak. It is `NO_RATE` for a program that has none."""
        return float(self.optimizer.options.get("lr", NO_RATE))

    @property
    def weight_decay(self) -> float | None:
        """The weight decay; None if the optimizer has no such argument."""
        value = self.optimizer.options.get("weight_decay")
        if value is None:
            return None
        return float(value)

    def to_json(self) -> dict[str, Any]:
        """The spec as plain JSON values, which are not copied."""
        return {
            "arena": self.arena.to_json(),
            "optimizer": self.optimizer.to_json(),
            "training": self.training.to_json(),
            "stage": self.stage,
            "seed": self.seed,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "TrialSpec":
        """Read the spec that `to_json` wrote."""
        parts = {"arena": ArenaSpec, "optimizer": OptimizerSpec, "training": TrainingSpec}
        entries = {}
        for key, entry in value.items():
            part = parts.get(key)
            entries[key] = part(**entry) if part else entry
        return cls(**entries)

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The values that a search may set: the options of the optimizer, and the number of warm-up steps."""
        return {**self.optimizer.options, WARMUP: self.training.warmup_steps}

    @property
    def text(self) -> str:
        """The spec's canonical JSON text, with sorted keys, joined from the texts of its parts."""
        shared = f'"arena":{self.arena.text},"optimizer":{self.optimizer.text},"seed":{self.seed:d}'
        return f'{{{shared},"stage":"{self.stage}","training":{self.training.text}}}'

    @property
    def as_stored(self) -> dict[str, Any]:
        """The spec as plain JSON values, as its record has them."""
        return json.loads(self.text)  # type: ignore[no-any-return]

    @cached_property
    def id(self) -> str:
        """The trial's identity: the first 20 hexadecimal digits of the sha256 of the whole spec."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:ID_DIGITS]

    def with_seeds(self, seeds: Iterable[int]) -> list["TrialSpec"]:
        """The same trial with each of these seeds."""
        return [TrialSpec(self.arena, self.optimizer, self.training, self.stage, seed) for seed in seeds]

    def label(self, searched: Iterable[str] = ()) -> str:
        """A short name of the trial, with its learning rate, and with the `searched` hyperparameters that it has."""
        values = self.hyperparameters
        words = [self.arena.name, self.optimizer.name]
        if self.lr != NO_RATE:
            words.append(f"lr={self.lr:.3g}")
        words += [f"{name}={values[name]}" for name in searched if name in values]
        return " ".join([*words, self.stage, f"seed {self.seed}"])
