"""With gamma = 0 and quantum_decay = 0 PsiLogic is torch's AdamW, in every dtype."""

from itertools import product
from typing import NamedTuple

import pytest
import torch
from configurations import CONFIGURATIONS
from grids import pairwise
from trajectories import changed, gradients, parameters, set_gradients, train

from psilogic import PsiLogic

OFF = {"gamma": 0.0, "quantum_decay": 0.0}
FOREACH = {"foreach": True, "fused": False}
FUSED = {"fused": True}
OPTIONS = [
    {},
    {"lr": 0.1},
    {"betas": (0.5, 0.9)},
    {"betas": (0.0, 0.0)},
    {"eps": 1e-2},
    {"weight_decay": 0.0},
    {"weight_decay": 0.7},
    {"maximize": True},
    {"lr": 0.03, "betas": (0.8, 0.99), "eps": 1e-4, "weight_decay": 0.2, "maximize": True},
]


def small(script):
    """Gradients with squares that float16 can represent."""
    return changed(script, lambda g: g * 0.1)


class Trained(NamedTuple):
    """Parameters after a training, and Adam's moments of all of them."""

    params: list
    moments: list


class Pair(NamedTuple):
    """The same training with both optimizers."""

    psilogic: Trained
    adamw: Trained


def both(script, dtype=torch.float64, psilogic=OFF, adamw=None, **options):
    """Train the same parameters with PsiLogic and with AdamW."""
    options = {"weight_decay": 1e-2, **options}
    params = parameters(dtype=dtype)
    twins = parameters(dtype=dtype)
    ours = PsiLogic(params, **psilogic, **options)
    theirs = torch.optim.AdamW(twins, **(adamw or {}), **options)
    result = Pair(
        psilogic=Trained(train(ours, params, script), moments_of(ours)),
        adamw=Trained(train(theirs, twins, script), moments_of(theirs)),
    )
    for p, twin in zip(params, twins, strict=True):
        assert float(ours.state[p]["step"]) == float(theirs.state[twin]["step"])
    return result


def moments_of(optimizer):
    moments = []
    for state in optimizer.state.values():
        moments += [state["exp_avg"], state["exp_avg_sq"]]
    return moments


def assert_close(ours, theirs, rtol):
    for a, b in zip(ours, theirs, strict=True):
        scale = b.abs().max().item() if b.numel() else 0.0
        torch.testing.assert_close(a, b, rtol=0, atol=rtol * scale)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_double_precision(options, dtype):
    pair = both(gradients(60, dtype=dtype), dtype, **options)
    assert_close(pair.psilogic.params, pair.adamw.params, 1e-12)
    assert_close(pair.psilogic.moments, pair.adamw.moments, 1e-12)


@pytest.mark.parametrize(
    ("options", "dtype", "execution"),
    [
        *pairwise(OPTIONS, [torch.float32, torch.bfloat16, torch.float16], [FOREACH, FUSED]),
        *product(OPTIONS, [torch.complex64], [FOREACH]),  # torch's fused AdamW takes no complex tensors
    ],
    ids=str,
)
def test_low_precision_is_bitwise(torch_kernels, options, dtype, execution):
    """The same kernels in the same order, with the same rounding (torch's loop rounds halves differently).

    Element by element NaN too: eps is 0 in float16 with foreach.
    """
    script = small(gradients(30, dtype=dtype))
    pair = both(script, dtype, psilogic={**OFF, **execution}, adamw=execution, **options)
    torch.testing.assert_close(pair.psilogic, pair.adamw, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("psilogic", [OFF, {"gamma": 1.0}, {"gamma": 1.0, "chaos_scope": "global"}], ids=str)
def test_before_the_warmup_ends_it_is_adamw(torch_kernels, psilogic):
    """For any gamma: before that only Adam and weight decay change the parameters."""
    psilogic = {**psilogic, "chaos_warmup": 60}
    pair = both(gradients(60, dtype=torch.float32), torch.float32, psilogic=psilogic, adamw=FUSED)
    torch.testing.assert_close(pair.psilogic.params, pair.adamw.params, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("max_grad_norm", "dtype", "bad"),
    pairwise([0.0, 3.0, 1e6], [torch.float64, torch.complex128], [None, 1e200, float("inf"), float("nan")]),
    ids=str,
)
def test_max_grad_norm_is_clip_grad_norm(max_grad_norm, dtype, bad):
    """Also where an infinite norm makes the factor zero, and where one NaN reaches every gradient."""
    params = parameters(dtype=dtype)
    twins = parameters(dtype=dtype)
    groups = [{"params": params[:3]}, {"params": params[3:]}]
    ours = PsiLogic(groups, max_grad_norm=max_grad_norm, **OFF)
    theirs = torch.optim.AdamW(twins, weight_decay=1e-4)
    for t, grads in enumerate(gradients(30, dtype=dtype)):
        if t == 9 and bad is not None:
            grads[3].view(-1)[0] = bad
        train(ours, params, [grads])
        set_gradients(twins, grads)
        torch.nn.utils.clip_grad_norm_(twins, max_grad_norm)
        theirs.step()
    torch.testing.assert_close(params, twins, rtol=1e-12, atol=1e-12, equal_nan=True)


EVERY_STAGE = {**CONFIGURATIONS["everything"], "eps": 1e-3}  # not 0 in float16
ONE_STAGE = [
    pytest.param({name: value}, torch.float64, marks=pytest.mark.soak)  # EVERY_STAGE has each of them
    for name, value in EVERY_STAGE.items()
]


@pytest.mark.parametrize(
    ("options", "dtype"),
    [
        *ONE_STAGE,
        *product([{}, EVERY_STAGE], [torch.float64, torch.complex64, torch.bfloat16, torch.float16]),
    ],
    ids=str,
)
def test_foreach_false_is_the_same_and_gradients_are_never_modified(options, dtype):
    script = small(gradients(18, dtype=dtype, every=15))
    runs = []
    for flags in ({}, {"fused": False}, {"foreach": False, "fused": False}):
        params = parameters(dtype=dtype)
        optimizer = PsiLogic(params, **flags, **options)
        for grads in script:
            set_gradients(params, grads)
            held = [p.grad for p in params]
            optimizer.step()
            for p, g in zip(params, held, strict=True):
                assert p.grad is g
            torch.testing.assert_close(held, grads, rtol=0, atol=0)
        runs.append([p.detach() for p in params])
    torch.testing.assert_close(*runs[1:], rtol=0, atol=0, equal_nan=True)
