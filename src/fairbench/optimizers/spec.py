"""An optimizer as a suite names it, as it is resolved here, and as it enters a trial's identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairbench.common.hashing import Part


@dataclass(frozen=True)
class OptimizerSpec(Part):
    """The optimizer, with every hyperparameter.

    Attributes:
        name: what tables and figures call it.
        factory: `module:Class`.
        options: every argument of the factory but the parameters, defaults included.
        groups: `module:function` that makes parameter groups of the model; empty gives all parameters alike.
        code: what takes part because of it, see `fairbench.runner.code_identity`.
        needs: what the training loop must do for it, see `fairbench.optimizers.resolve.NEEDS`.
    """

    name: str
    factory: str
    options: Mapping[str, Any]
    groups: str
    code: Mapping[str, str]
    needs: Sequence[str] = ()


@dataclass(frozen=True)
class OptimizerPlan:
    """One optimizer of a suite.

    Attributes:
        factory: `module:Class`; empty for an optimizer that fairbench knows by its name.
        options: hyperparameters other than the learning rate; the rest keep their defaults.
        arenas: by arena, what is otherwise there.
        groups: `module:function` that makes parameter groups of the model; empty takes what is known of it, else none.
        clip_norm: the global gradient norm is clipped to this, 0 is off; None takes what all trials share.
        needs: see `fairbench.optimizers.resolve.NEEDS`; None takes what is known of it.
        lr_scale: the sweep's rates are multiplied by this; None takes what is known of it, else 1.
        lr: its learning rate, where none is searched: it runs its final seeds only, and is marked as untuned. None
            takes what is known of it, unless `lr_scale` says that one is searched.
    """

    factory: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    arenas: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: str = ""
    clip_norm: float | None = None
    needs: list[str] | None = None
    lr_scale: float | None = None
    lr: float | None = None


HORIZON = "total_steps"
"""The argument that gets the number of training steps, of an optimizer that has it and whose plan leaves it out."""


@dataclass(frozen=True)
class ResolvedOptimizer:
    """An optimizer with every hyperparameter but the learning rate and the horizon, which a trial adds.

    Attributes:
        name: what tables and figures call it.
        factory: `module:Class`.
        options: every argument of the factory, defaults included.
        arenas: by arena, the options that are otherwise there.
        takes_horizon: whether it is given the number of training steps, as `total_steps`.
        groups: `module:function` that makes parameter groups of the model; empty gives all parameters alike.
        code: what takes part because of it, see `fairbench.runner.code_identity`.
        needs: what the training loop must do for it, see `NEEDS`.
        lr_scale: the sweep's rates are multiplied by this.
        lr: its learning rate where none is swept; None for the sweep's.
    """

    name: str
    factory: str
    options: Mapping[str, Any]
    arenas: Mapping[str, Mapping[str, Any]]
    takes_horizon: bool
    groups: str
    code: Mapping[str, str]
    needs: Sequence[str] = field(default_factory=list)
    lr_scale: float = 1.0
    lr: float | None = None

    def spec(self, arena: str, searched: Mapping[str, Any], steps: int) -> OptimizerSpec:
        """The optimizer of a trial, with the learning rate and whatever else was searched."""
        horizon = {HORIZON: steps} if self.takes_horizon else {}
        options = {**self.options, **self.arenas.get(arena, {}), **horizon, **searched}
        return OptimizerSpec(self.name, self.factory, options, self.groups, self.code, tuple(self.needs))
