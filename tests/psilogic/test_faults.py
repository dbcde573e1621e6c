"""Gradients with squares out of range, and interrupted steps."""

import copy
from contextlib import contextmanager
from itertools import product
from typing import NamedTuple

import pytest
import torch
from configurations import ACTIVE, CONFIGURATIONS, TOGETHER, assert_same, build, represented, snapshot, trace
from torch import nn
from trajectories import duplicates, gradients, parameters, set_gradients, watch

from psilogic import PsiLogic

SHAPE = (16, 4)


class Pushed(NamedTuple):
    """A parameter of ones after some steps with gradients of one magnitude."""

    param: torch.Tensor
    state: dict
    decision: tuple  # the last one


def pushed(magnitude, steps=3, dtype=torch.float32, **options):
    """Push ones by gradients of one magnitude."""
    p = nn.Parameter(torch.ones(SHAPE, dtype=dtype))
    optimizer = PsiLogic([p], **{**ACTIVE, "chaos_warmup": 0, **options})
    seen = watch(optimizer)
    trace(optimizer, [p], [[torch.full(SHAPE, magnitude, dtype=dtype)]] * steps)
    return Pushed(p.detach(), optimizer.state[p], seen[-1].decision)


# Size of the gradients


@pytest.mark.parametrize(
    ("magnitude", "dtype"),
    [
        *product([1e-18, 1e-10, 1.0, 1e10, 1e18], [torch.float32]),
        *product([1e-150, 1e-30, 1e30, 1e150], [torch.float64]),
    ],
)
def test_gn_of_norms_that_the_dtype_can_square(magnitude, dtype):
    decision = pushed(magnitude, dtype=dtype).decision
    torch.testing.assert_close(decision.gn.item(), magnitude, rtol=1e-4, atol=0.0)
    assert decision.gate


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("magnitude", [1e20, 1e30, 3e38])
@pytest.mark.parametrize("signal", ["raw", "relative"])
def test_a_norm_beyond_float32_is_no_observation(dtype, magnitude, signal):
    """From a norm of 1.8e19 its square is infinite in float32: the detector waits, the elements are AdamW's."""
    p, state, decision = pushed(magnitude, dtype=dtype, chaos_signal=signal, quantum_decay=1.0)
    assert decision.gn.isinf()
    assert decision.cancellation == 0
    assert decision.quantum_rate == 0
    assert state["chaos_fast"] == 0
    assert state["chaos_slow"] == 0
    twin = nn.Parameter(torch.ones(SHAPE, dtype=dtype))
    adamw = torch.optim.AdamW([twin], lr=ACTIVE["lr"], weight_decay=ACTIVE["weight_decay"], foreach=True)
    for _ in range(3):
        twin.grad = torch.full(SHAPE, magnitude, dtype=dtype)
        adamw.step()
    assert p.isfinite().all()
    torch.testing.assert_close(p, twin.detach(), rtol=0, atol=0)


@pytest.mark.parametrize("magnitude", [1e-24, 1e-30, 1e-45])
@pytest.mark.parametrize("signal", ["raw", "relative"])
def test_a_norm_below_float32_is_zero(magnitude, signal):
    """Below about 1e-24 squares vanish in float32: the gate sees a gradient of zero, which never opens it."""
    result = pushed(magnitude, chaos_signal=signal)
    assert result.decision.gn == 0
    assert result.decision.cancellation == 0
    assert not result.decision.gate
    assert result.param.isfinite().all()


HARMLESS = (1e-45, 1e-38, 1e-30, 1e-20, 1e18, 1e19)
"""Magnitudes that are tested one after the other in a single run."""
OVERFLOWING = [(1e20,), (1e30,), (3e38,)]
"""Those that make second moments infinite, after which nothing else would be tested."""


@pytest.mark.parametrize(
    ("name", "fused", "magnitudes"),
    represented([*product(CONFIGURATIONS, [None], [HARMLESS]), *product(TOGETHER, [None, False], OVERFLOWING)]),
    ids=str,
)
def test_no_finite_gradient_makes_a_parameter_infinite(name, fused, magnitudes):
    """Among ordinary ones; the detector's memory stays finite as well."""
    script = gradients(20, dtype=torch.float32)
    for t, magnitude in enumerate(magnitudes, 12):
        grads = script[t]
        script[t] = [None if g is None else torch.full_like(g, magnitude) for g in grads]
    params = parameters(dtype=torch.float32)
    optimizer = build(params, fused=fused, **CONFIGURATIONS[name])
    for snapshots in trace(optimizer, params, script):
        for p, state in snapshots:
            assert p.isfinite().all()
            for key, value in state.items():
                if key.startswith("chaos"):
                    assert value.isfinite()


@pytest.mark.parametrize(("bad", "damaged"), [(3e38, 0), (float("inf"), 1), (float("nan"), 1)], ids=str)
def test_centralization_does_not_spread_a_fault(bad, damaged):
    """A row is not centralized if its mean is not finite, also if finite elements have an infinite sum."""
    (p,) = parameters([(4, 3)], torch.float32)
    g = torch.ones(4, 3)
    if damaged:
        g[2, 0] = bad
    else:
        g[2, :2] = bad  # two elements whose sum is infinite
    trace(PsiLogic([p], **CONFIGURATIONS["GC"]), [p], [[g]])
    assert (~p.isfinite()).sum() == damaged
    assert p[[0, 1, 3]].isfinite().all()


# Steps that are interrupted


class Interrupted(Exception):
    pass


def interrupt(*_):
    raise Interrupted


@contextmanager
def by_an_observer(optimizer):
    """It may be between two buckets."""
    optimizer.observers.append(interrupt)
    yield
    optimizer.observers.clear()


@contextmanager
def by_a_hook_before(optimizer):
    hook = optimizer.register_step_pre_hook(interrupt)
    yield
    hook.remove()


@contextmanager
def by_a_hook_after(optimizer):
    hook = optimizer.register_step_post_hook(interrupt)
    yield
    hook.remove()


@contextmanager
def by_a_broken_group(optimizer):
    group = optimizer.param_groups[1]
    betas = group.pop("betas")
    yield
    group["betas"] = betas


@pytest.mark.parametrize("interrupted", [by_an_observer, by_a_hook_before, by_a_hook_after, by_a_broken_group])
@pytest.mark.parametrize("at", [0, 12])
@pytest.mark.parametrize("config", ["no warm-up", "everything", "global"])
def test_an_interrupted_step_leaves_everything_usable(interrupted, at, config):
    """The optimizer continues; its state dict loads, and the optimizer that loads it continues with the same bits."""
    script = gradients(25, every=9)
    options = CONFIGURATIONS[config]
    params = parameters()
    optimizer = build(params, **options)
    keys = [set(group) for group in optimizer.param_groups]
    trace(optimizer, params, script[:at])
    set_gradients(params, script[at])
    before = snapshot(optimizer, params)
    with interrupted(optimizer), pytest.raises((Interrupted, KeyError)):
        optimizer.step()
    if interrupted is by_a_hook_before:
        assert_same([snapshot(optimizer, params)], [before])
    assert torch.is_grad_enabled()
    assert [set(group) for group in optimizer.param_groups] == keys
    torch.testing.assert_close([p.grad for p in params], script[at], rtol=0, atol=0)
    others = duplicates(params)
    twin = build(others, **options)
    twin.load_state_dict(copy.deepcopy(optimizer.state_dict()))  # torch shares the tensors that it loads
    assert_same([snapshot(twin, others)], [snapshot(optimizer, params)])
    rest = script[at + 1 :]
    ours = trace(optimizer, params, rest)
    assert_same(trace(twin, others, rest), ours)
    for last in ours[-1]:
        assert last.param.isfinite().all()
