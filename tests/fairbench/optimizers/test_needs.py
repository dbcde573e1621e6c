"""What an optimizer needs of the training loop: by its plan, the registry, its class or its arguments."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from fairbench.common.errors import UsageError
from fairbench.optimizers.building import build_optimizer
from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan

pytestmark = pytest.mark.xdist_group("registry")


@pytest.mark.parametrize(
    ("factory", "needs"),
    [
        ("torch.optim:LBFGS", ["closure"]),
        ("schedulefree:SGDScheduleFree", ["modes"]),
        ("schedulefree:AdamWScheduleFree", ["modes", "constant_lr"]),
        ("torch.optim:Rprop", []),
    ],
)
def test_needs_are_those_of_the_plan_or_the_registry_or_the_class(factory, needs):
    plan = OptimizerPlan(factory=factory)
    assert resolve_optimizer("Own", plan).needs == needs
    assert resolve_optimizer("Own", replace(plan, needs=["create_graph"])).needs == ["create_graph"]


class Faded(torch.optim.SGD):
    def __init__(self, params, lr, num_training_steps):
        super().__init__(params, lr)


class Iterated(torch.optim.SGD):
    """The argument has a default, so that it may be anything."""

    def __init__(self, params, lr, max_iters=5):
        super().__init__(params, lr)


class Named(torch.optim.SGD):
    def __init__(self, named_parameters, lr):
        groups = [{"params": [p], "name": name} for name, p in named_parameters]
        super().__init__(groups, lr)


class OfModel(torch.optim.SGD):
    def __init__(self, model, lr):
        super().__init__(model.parameters(), lr)


Given = partial(Faded, num_training_steps=7)


@pytest.mark.parametrize(
    ("name", "horizon", "groups"),
    [
        ("Faded", "num_training_steps", 1),
        ("Iterated", "", 1),
        ("Named", "", 2),
        ("OfModel", "", 1),
        ("Given", "", 1),
    ],
)
def test_a_constructor_gets_what_its_arguments_mean(name, horizon, groups):
    resolved = resolve_optimizer("Own", OptimizerPlan(f"{__name__}:{name}"))
    assert resolved.horizon == horizon
    built = build_optimizer(resolved.spec("vit", {"lr": 0.1}, 40), nn.Linear(2, 2))
    assert len(built.param_groups) == groups


def test_a_need_is_a_word_or_names_a_method():
    with pytest.raises(UsageError, match="'update every few steps'; did you mean 'A every 10 steps'"):
        resolve_optimizer("Own", OptimizerPlan("torch.optim:SGD", needs=["update every few steps"]))
