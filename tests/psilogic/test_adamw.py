"""With gamma = 0 and quantum_decay = 0 PsiLogic is torch's AdamW, in every dtype."""

import pytest
import torch
from configurations import CONFIGURATIONS
from grids import pairwise
from trajectories import gradients, parameters, set_gradients, train

from psilogic import PsiLogic

OFF = {"gamma": 0.0, "quantum_decay": 0.0}
FOREACH, FUSED = {"foreach": True}, {"fused": True}
OPTIONS = [
    {}, {"lr": 0.1}, {"betas": (0.5, 0.9)}, {"betas": (0.0, 0.0)}, {"eps": 1e-2}, {"weight_decay": 0.0},
    {"weight_decay": 0.7}, {"maximize": True},
    {"lr": 0.03, "betas": (0.8, 0.99), "eps": 1e-4, "weight_decay": 0.2, "maximize": True},
]  # fmt: skip


def small(script):
    """Gradients with squares that float16 can represent."""
    return [[None if g is None else g * 0.1 for g in grads] for grads in script]


def both(script, dtype=torch.float64, psilogic=OFF, adamw=None, **options):
    """(PsiLogic's parameters, AdamW's) after the script, with the two optimizers' states."""
    options = {"weight_decay": 1e-2, **options}
    params, twins = parameters(dtype=dtype), parameters(dtype=dtype)
    ours, theirs = PsiLogic(params, **psilogic, **options), torch.optim.AdamW(twins, **(adamw or {}), **options)
    results = train(ours, params, script), train(theirs, twins, script)
    for p, twin in zip(params, twins, strict=True):
        assert float(ours.state[p]["step"]) == float(theirs.state[twin]["step"])
    moments = ([s[m] for s in o.state.values() for m in ("exp_avg", "exp_avg_sq")] for o in (ours, theirs))
    return *results, *moments


def assert_close(ours, theirs, rtol):
    for a, b in zip(ours, theirs, strict=True):
        scale = b.abs().max().item() if b.numel() else 0.0
        torch.testing.assert_close(a, b, rtol=0, atol=rtol * scale)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_double_precision(options, dtype):
    ours, theirs, our_moments, their_moments = both(gradients(60, dtype=dtype), dtype, **options)
    assert_close(ours, theirs, 1e-12)
    assert_close(our_moments, their_moments, 1e-12)


@pytest.mark.parametrize(
    ("options", "dtype", "execution"),
    pairwise(OPTIONS, [torch.float32, torch.bfloat16, torch.float16], [FOREACH, FUSED])
    + [(options, torch.complex64, FOREACH) for options in OPTIONS],  # torch's fused AdamW takes no complex tensors
    ids=str,
)
def test_low_precision_is_bitwise(torch_kernels, options, dtype, execution):
    """The same kernels in the same order, with the same rounding (torch's loop rounds halves differently).

    Element by element NaN too: eps is 0 in float16 with foreach.
    """
    ours, theirs, our_moments, their_moments = both(
        small(gradients(30, dtype=dtype)), dtype, {**OFF, **execution}, execution, **options
    )
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(our_moments, their_moments, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("psilogic", [OFF, {"gamma": 1.0}, {"gamma": 1.0, "chaos_scope": "global"}], ids=str)
def test_before_the_warmup_ends_it_is_adamw(torch_kernels, psilogic):
    """For any gamma: before that only Adam and weight decay change the parameters."""
    psilogic = {**psilogic, "chaos_warmup": 60}
    ours, theirs, *_ = both(gradients(60, dtype=torch.float32), torch.float32, psilogic, FUSED)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("max_grad_norm", "dtype", "bad"),
    pairwise([0.0, 3.0, 1e6], [torch.float64, torch.complex128], [None, 1e200, float("inf"), float("nan")]),
    ids=str,
)
def test_max_grad_norm_is_clip_grad_norm(max_grad_norm, dtype, bad):
    """Also where an infinite norm makes the factor zero, and where one NaN reaches every gradient."""
    params, twins = parameters(dtype=dtype), parameters(dtype=dtype)
    ours = PsiLogic([{"params": params[:3]}, {"params": params[3:]}], max_grad_norm=max_grad_norm, **OFF)
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


@pytest.mark.parametrize(
    ("options", "dtype"),
    [({k: v}, torch.float64) for k, v in EVERY_STAGE.items()]
    + [
        (options, dtype)
        for options in ({}, EVERY_STAGE)
        for dtype in (torch.float64, torch.complex64, torch.bfloat16, torch.float16)
    ],
    ids=str,
)
def test_foreach_false_is_the_same_and_gradients_are_never_modified(options, dtype):
    script, runs = small(gradients(18, dtype=dtype, every=15)), []
    for foreach in (None, True, False):
        params = parameters(dtype=dtype)
        optimizer = PsiLogic(params, foreach=foreach, **options)
        for grads in script:
            set_gradients(params, grads)
            held = [p.grad for p in params]
            optimizer.step()
            assert all(p.grad is h for p, h in zip(params, held, strict=True))
            torch.testing.assert_close(held, grads, rtol=0, atol=0)
        runs.append([p.detach() for p in params])
    torch.testing.assert_close(*runs[1:], rtol=0, atol=0, equal_nan=True)
