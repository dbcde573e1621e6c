"""Parameter groups that are treated at once, against an optimizer for each group."""

import pytest
import torch
from configurations import CONFIGURATIONS, assert_same, trace
from torch import nn
from trajectories import SHAPES, gradients, parameters

from psilogic import PsiLogic
from psilogic.tensors import buckets

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
    members = [params[i : i + 1] for i in range(last)] + [params[last:]]
    return PsiLogic([{"params": x, **numbers} for x, numbers in zip(members, VARIED, strict=True)], **options)


def without(options):
    """Options for all groups, without the numbers in which they differ."""
    return {name: value for name, value in options.items() if not any(name in numbers for numbers in VARIED)}


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
        return {p: state for optimizer in self.each for p, state in optimizer.state.items()}


@pytest.fixture
def sizes(monkeypatch):
    """The number of tensors in each bucket of the last step."""
    found, collect = [], buckets.collect

    def noted(*arguments):
        collected = collect(*arguments)
        found[:] = [len(bucket.params) for bucket in collected]
        return collected

    monkeypatch.setattr("psilogic.optimizer.collect", noted)
    return found


@pytest.mark.parametrize("flags", [{}, {"foreach": True}, {"foreach": False}], ids=str)
@pytest.mark.parametrize("name", ["no warm-up", "absolute gate", "everything but clipping", "group"])
def test_steps_are_those_of_separate_optimizers(sizes, execution, name, flags):
    script, options = gradients(20, every=9), {**without(CONFIGURATIONS[name]), **flags, "chaos_warmup": 2}
    params, twins = parameters(), parameters()
    optimizer = grouped(params, **options)
    # Only the compiled kernels add a tensor's squares in an order that does not depend on the other tensors.
    tolerance = 0.0 if execution == "native" and not flags else 1e-14
    actual = trace(optimizer, params, script)
    assert len(sizes) == 1
    assert_same(actual, trace(Separate(twins, **options), twins, script), tolerance)


def test_what_is_no_number_keeps_groups_apart(sizes):
    options = [{}, {"maximize": True}, {"quantum_decay": 1.0}, {"chaos_scope": "group"}, {"agc_clip": 0.1}, {}]
    params = [nn.Parameter(torch.ones(3)) for _ in options]
    optimizer = PsiLogic([{"params": [p], **option} for p, option in zip(params, options, strict=True)])
    trace(optimizer, params, [[torch.ones(3)] * len(params)])
    assert sorted(sizes) == [1, 1, 1, 1, 2]


def test_groups_with_equal_tensors_run_in_compiled_kernels(compiled_kernels):
    params = [nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizer = PsiLogic([{"params": [p]} for p in params], weight_decay=torch.tensor(0.1), fused=True)
    trace(optimizer, params, [[torch.ones(3)] * 2])
    assert optimizer.executed == {"native": 2}


@pytest.mark.parametrize("number", [float, lambda x: torch.tensor(x, dtype=torch.float64)], ids=["float", "tensor"])
def test_a_schedule_moves_every_group(sizes, number):
    """The groups' numbers are read in each step, also if they are tensors in host memory."""
    params, twins = parameters(), parameters()
    ours, theirs = grouped(params), Separate(twins)
    for grads, factor in zip(gradients(6), (1, 2, 2, 0.5, 0.0, 1), strict=True):
        for groups in (ours.param_groups, [optimizer.param_groups[0] for optimizer in theirs.each]):
            for group, numbers in zip(groups, VARIED, strict=True):
                group["lr"] = factor * numbers["lr"]
        for group in ours.param_groups:
            group |= {name: number(group[name]) for name in ("lr", "weight_decay")}
        actual = trace(ours, params, [grads])
        assert len(sizes) == 1
        assert_same(actual, trace(theirs, twins, [grads]))
