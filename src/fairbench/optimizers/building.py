"""From the optimizer in a trial's spec to the optimizer of its model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairbench.common.imports import load
from fairbench.optimizers.spec import OptimizerSpec

if TYPE_CHECKING:
    import torch


def build_optimizer(spec: OptimizerSpec, model: torch.nn.Module) -> torch.optim.Optimizer:
    """The optimizer of a trial."""
    options = {}
    for name, value in spec.options.items():
        options[name] = tuple(value) if isinstance(value, list) else value
    factory = load(spec.factory, "optimizer factory")
    built = factory(_first_argument(spec, model), **options)
    if not hasattr(built, "param_groups"):
        raise TypeError(f"it returned {built!r}, which is no optimizer; it must return one")
    return built  # type: ignore[no-any-return]


def _first_argument(spec: OptimizerSpec, model: torch.nn.Module) -> Any:
    """What the factory gets first: the model, named parameters, groups or a list of parameters."""
    if "model" in spec.needs:
        return model
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if "named_parameters" in spec.needs:
        return named
    if spec.groups:
        make_groups = load(spec.groups, "groups")
        return make_groups(model)
    return [p for _, p in named]
