"""Parameter groups that are treated at once, against an optimizer for each group."""

from itertools import product

import pytest
import torch
from configurations import CONFIGURATIONS, assert_same, trace
from torch import nn
from trajectories import SHAPES, gradients, parameters

from psilogic import PsiLogic
from psilogic.tensors.collect import collect

VARIED = [  # of each group; layer-wise rates, and every other number that may differ
    {"lr": 0.02, "weight_decay": 0.1, "betas": (0.4, 0.99), "eps": 1e-3},
    {"lr": 0.01, "weight_decay": 0.0, "p_ext": 2.0, "max_cancel": 0.01},
    {"lr": 0.04, "weight_decay": 0.1, "gamma": 0.0},
    {"lr": 0.02, "weight_decay": 0.2, "tau_scale": 1.2, "chaos_tau": 0.1},
    {"lr": 0.05, "weight_decay": 0.1, "gamma": 9.0, "betas": (0.9, 0.9)},
]
assert len(VARIED) <= len(SHAPES)


def grouped(params, **options):
    """A PsiLogic with a group for each of the VARIED numbers; the last one has all further tensors."""
    last = len(VARIED) - 1
    groups = []
    for i, numbers in enumerate(VARIED):
        members = params[i:] if i == last else params[i : i + 1]
        groups.append({"params": members, **numbers})
    return PsiLogic(groups, **options)


def without(options):
    """Options for all groups, without the numbers in which they differ."""
    varied = set().union(*VARIED)
    return {name: value for name, value in options.items() if name not in varied}


class Separate:
    """An optimizer for each group: the truth."""

    def __init__(self, params, **options):
        self.each = [PsiLogic([group], **options) for group in grouped(params).param_groups]
        for optimizer, numbers in zip(self.each, VARIED, strict=True):
            optimizer.param_groups[0].update({**options, **numbers})

    def step(self):
        for optimizer in self.each:
            optimizer.step()

    @property
    def state(self):
        states = {}
        for optimizer in self.each:
            states.update(optimizer.state)
        return states


@pytest.fixture
def sizes(monkeypatch):
    """The number of tensors in each bucket of the last step."""
    found = []

    def noted(*arguments):
        collected = collect(*arguments)
        found[:] = [len(bucket.params) for bucket in collected]
        return collected

    monkeypatch.setattr("psilogic.stages.collect", noted)
    return found


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        *product(["no warm-up", "absolute gate", "everything but clipping", "group"], [{}]),
        *product(["everything but clipping", "group"], [{"fused": False}, {"foreach": False, "fused": False}]),
    ],
    ids=str,
)
def test_steps_are_those_of_separate_optimizers(sizes, execution, name, flags):
    script = gradients(20, every=9)
    options = {**without(CONFIGURATIONS[name]), **flags, "chaos_warmup": 2}
    params = parameters()
    actual = trace(grouped(params, **options), params, script)
    assert len(sizes) == 1
    twins = parameters()
    expected = trace(Separate(twins, **options), twins, script)
    # Only the compiled kernels add a tensor's squares in an order that does not depend on the other tensors.
    tolerance = 0.0 if execution == "native" and not flags else 1e-14
    assert_same(actual, expected, tolerance)


def test_what_is_no_number_keeps_groups_apart(sizes):
    options = [{}, {"maximize": True}, {"quantum_decay": 1.0}, {"chaos_scope": "group"}, {"agc_clip": 0.1}, {}]
    params = [nn.Parameter(torch.ones(3)) for _ in options]
    groups = [{"params": [p], **option} for p, option in zip(params, options, strict=True)]
    optimizer = PsiLogic(groups)
    trace(optimizer, params, [[torch.ones(3)] * len(params)])
    assert sorted(sizes) == [1, 1, 1, 1, 2]


def test_groups_with_equal_tensors_run_in_compiled_kernels(compiled_kernels):
    params = [nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizer = PsiLogic([{"params": [p]} for p in params], weight_decay=torch.tensor(0.1), fused=True)
    trace(optimizer, params, [[torch.ones(3)] * 2])
    assert optimizer.executed == {"native": 2}


def in_host_memory(number):
    return torch.tensor(number, dtype=torch.float64)


@pytest.mark.parametrize("number", [float, in_host_memory])
def test_a_schedule_moves_every_group(sizes, number):
    """The groups' numbers are read in each step, also if they are tensors in host memory."""
    params = parameters()
    ours = grouped(params)
    twins = parameters()
    theirs = Separate(twins)
    for grads, factor in zip(gradients(6), (1, 2, 2, 0.5, 0.0, 1), strict=True):
        for group, separate, numbers in zip(ours.param_groups, theirs.each, VARIED, strict=True):
            lr = factor * numbers["lr"]
            separate.param_groups[0]["lr"] = lr
            group["lr"] = number(lr)
            group["weight_decay"] = number(numbers["weight_decay"])
        actual = trace(ours, params, [grads])
        assert len(sizes) == 1
        assert_same(actual, trace(theirs, twins, [grads]))
