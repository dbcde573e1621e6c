"""The construction of the optimizer of a model, from the optimizer in a trial's spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairbench.common.imports import load
from fairbench.optimizers.spec import OptimizerSpec

if TYPE_CHECKING:
    import torch


def build_optimizer(spec: OptimizerSpec, model: torch.nn.Module) -> torch.optim.Optimizer:
    """Build the optimizer of a trial for its model. Raises `TypeError` if the factory returns anything else."""
    options = {}
    for name, value in spec.options.items():
        # JSON has no tuples, but some optimizers require them.
        options[name] = tuple(value) if isinstance(value, list) else value
    factory = load(spec.factory, "optimizer factory")
    built = factory(_first_argument(spec, model), **options)
    if not hasattr(built, "param_groups"):
        raise TypeError(f"it returned {built!r}, which is no optimizer; it must return one")
    return built  # type: ignore[no-any-return]


def _first_argument(spec: OptimizerSpec, model: torch.nn.Module) -> Any:
    """The first argument of the factory: the model, named parameters, parameter groups or a list of parameters."""
    if "model" in spec.needs:
        return model
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if "named_parameters" in spec.needs:
        return named
    if spec.groups:
        make_groups = load(spec.groups, "groups")
        return make_groups(model)
    return [p for _, p in named]
