"""An optimizer as a suite names it, as it is resolved on this machine, and as it enters a trial's identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairbench.common.hashing import SpecPart
from fairbench.optimizers.variant import VariantPlan


@dataclass(frozen=True)
class OptimizerSpec(SpecPart):
    """The optimizer of a trial, with every hyperparameter.

    Attributes:
        factory: `module:Class`.
        options: every argument of the factory except the parameters, defaults included.
        groups: `module:function` that makes parameter groups of the model; empty for a single group.
        code: the code that takes part because of it, see `fairbench.runner.code_identity`.
        needs: what the training loop must do for it, see `fairbench.optimizers.needs.NEEDS`.
        variant: of a variant of a program, see `VariantPlan.words`; None for an optimizer.
    """

    name: str
    factory: str
    options: Mapping[str, Any]
    groups: str
    code: Mapping[str, str]
    needs: Sequence[str] = ()
    variant: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class OptimizerPlan:
    """One optimizer of a suite. The registry, where it has the optimizer, gives the values of omitted fields.

    Attributes:
        factory: `module:Class`; empty for an optimizer with a registered name, "program" for one that a training
            program makes itself.
        options: hyperparameters other than the learning rate; the others keep their defaults.
        arenas: options that differ in an arena, by its name.
        groups: `module:function` that makes parameter groups of the model; empty for the registry's, or a single group.
        clip_norm: the global gradient norm is clipped to this, 0 is off; None for the suite's.
        schedule: of its learning rate, see `fairbench.optimizers.treatments.SCHEDULES`; None for the suite's.
        min_lr: the last rate as a share of the peak, in [0, 1); None for the suite's.
        needs: see `fairbench.optimizers.needs.NEEDS`; None for the registry's, or those of the class.
        lr_scale: the sweep's rates are multiplied by this; None for the registry's, or 1.
        lr: a fixed learning rate: it runs its final seeds only, and is marked as untuned. None for the registry's,
            unless `lr_scale` is given; otherwise the rate is swept.
        variant: the variant of the program that is compared in place of an optimizer; None for an optimizer.
    """

    factory: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    arenas: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: str = ""
    clip_norm: float | None = None
    schedule: str | None = None
    min_lr: float | None = None
    needs: list[str] | None = None
    lr_scale: float | None = None
    lr: float | None = None
    variant: VariantPlan | None = None


BY_PROGRAM = "program"
"""The factory of an optimizer that a training program makes itself, by its name."""

HORIZON = "total_steps"
"""The argument that gets the number of training steps, if the optimizer has it and the plan does not set it."""

WARMUP = "warmup_steps"
"""The one hyperparameter of a search that is an option of the training, not of the optimizer."""


@dataclass(frozen=True)
class ResolvedOptimizer:
    """An optimizer with every hyperparameter except the learning rate and the horizon, which a trial adds.

    Attributes as those of `OptimizerSpec`, and:
        arenas: options that differ in an arena, by its name.
        horizon: the argument that gets the number of training steps; empty if none does.
        lr_scale: the sweep's rates are multiplied by this.
        lr: a fixed learning rate; None if it is swept.
        lacks: hyperparameters of the sweep that it does not have; it is searched without them.
        variant: the variant of the program; None for an optimizer.
    """

    name: str
    factory: str
    options: Mapping[str, Any]
    arenas: Mapping[str, Mapping[str, Any]]
    horizon: str
    groups: str
    code: Mapping[str, str]
    needs: Sequence[str] = field(default_factory=list)
    lr_scale: float = 1.0
    lr: float | None = None
    lacks: Sequence[str] = field(default_factory=list)
    variant: VariantPlan | None = None

    @property
    def has_rate(self) -> bool:
        """Whether its trials have a learning rate. A variant of a program without `{lr}` has none."""
        return self.variant is None or self.variant.searched

    def spec(self, arena: str, searched: Mapping[str, Any], steps: int) -> OptimizerSpec:
        """The optimizer of a trial, with the learning rate and any other searched hyperparameter."""
        options = {**self.options, **self.arenas.get(arena, {})}
        if self.horizon:
            options[self.horizon] = steps
        options |= searched
        return OptimizerSpec(
            name=self.name,
            factory=self.factory,
            options=options,
            groups=self.groups,
            code=self.code,
            needs=tuple(self.needs),
            variant=self.variant.words if self.variant else None,
        )
