"""The options of PsiLogic that change a step, and runs that are compared step by step."""

from typing import NamedTuple

import pytest
import torch
from trajectories import SHAPES, gradients, parameters, set_gradients

from psilogic import PsiLogic

ACTIVE = {"lr": 2.0**-6, "gamma": 3.0, "chaos_warmup": 10, "weight_decay": 0.1}  # an lr that every dtype holds exactly
STEPS = 20  # beyond the 12 for which `trajectories.gradients` freezes a tensor, with a spike for each in 15 of them
PROCESSING = {"max_grad_norm": 5.0, "agc_clip": 0.5, "grad_centralize": True, "maximize": True}

CONFIGURATIONS = {
    "defaults": {},
    "gamma=0": {**ACTIVE, "gamma": 0.0},
    "no warm-up": {**ACTIVE, "chaos_warmup": 0},
    "schedule": {**ACTIVE, "gamma_T_max": 60, "quantum_decay": 1.0},
    "absolute gate": {**ACTIVE, "adaptive_tau": False, "chaos_tau": 0.3},
    "bound": {**ACTIVE, "p_ext": 40.0, "max_cancel": 0.02},
    "quantum decay": {**ACTIVE, "quantum_decay": 1.0},
    "AGC": {**ACTIVE, "agc_clip": 0.05},
    "AGC of tensors": {**ACTIVE, "agc_clip": 0.05, "agc_norm": "tensor"},
    "GC": {**ACTIVE, "grad_centralize": True},
    "max_grad_norm": {**ACTIVE, "max_grad_norm": 3.0},
    "maximize": {**ACTIVE, "maximize": True},
    "relative": {**ACTIVE, "chaos_signal": "relative"},
    "group": {**ACTIVE, "chaos_scope": "group"},
    "global": {**ACTIVE, "chaos_scope": "global"},
    "everything but clipping": {**ACTIVE, "agc_clip": 0.3, "grad_centralize": True, "quantum_decay": 1.0},
    "everything": {**ACTIVE, **PROCESSING, "quantum_decay": 1.0, "chaos_signal": "relative", "gamma_T_max": 90},
}


def some(*names):
    """The configurations with these names."""
    return {name: CONFIGURATIONS[name] for name in names}


TOGETHER = some("AGC of tensors", "everything but clipping", "everything", "global")
"""Each option that changes how a step is computed occurs here; for tests with further factors."""


def chosen(*names):
    """All configurations as parameters of a test; those but TOGETHER and the ones named here have the marker soak."""
    cases = []
    for name in CONFIGURATIONS:
        is_quick = name in TOGETHER or name in names
        cases.append(pytest.param(name, marks=() if is_quick else pytest.mark.soak))
    return cases


def represented(cases):
    """Cases that begin with the name of a configuration: without one of TOGETHER, they have the marker soak."""
    parameters = []
    for name, *values in cases:
        marks = () if name in TOGETHER else pytest.mark.soak
        parameters.append(pytest.param(name, *values, marks=marks))
    return parameters


def _joins_tensors(options):
    return "chaos_scope" in options or "max_grad_norm" in options


PER_TENSOR = some(*[name for name, options in CONFIGURATIONS.items() if not _joins_tensors(options)])
"""Configurations in which tensors are independent."""


def build(params, **options):
    """A PsiLogic with two groups, so that the scopes "group" and "global" differ."""
    half = (len(params) + 1) // 2
    return PsiLogic([{"params": params[:half]}, {"params": params[half:]}], **options)


class TensorSnapshot(NamedTuple):
    """Copies of a parameter and of its state."""

    param: torch.Tensor
    state: dict


def snapshot(optimizer, params):
    """Copies of the parameters and of their state."""
    snapshots = []
    for p in params:
        state = optimizer.state.get(p, {})
        copies = {name: value.detach().clone() for name, value in state.items()}
        snapshots.append(TensorSnapshot(p.detach().clone(), copies))
    return snapshots


def trace(optimizer, params, script):
    """A snapshot after each step of the script."""
    snapshots = []
    for grads in script:
        set_gradients(params, grads)
        optimizer.step()
        snapshots.append(snapshot(optimizer, params))
    return snapshots


def one_by_one(options, script, params=None):
    """The ground truth: one tensor at a time."""
    if params is None:
        params = parameters()
    return trace(build(params, foreach=False, fused=False, **options), params, script)


_computed = {}


def truth(options, steps=STEPS, shapes=SHAPES, **script):
    """`one_by_one` through `gradients(steps, shapes, **script)`: run once for all comparisons with it."""
    key = repr((sorted(options.items()), steps, shapes, script))
    if key not in _computed:
        grads = gradients(steps, shapes, **script)
        _computed[key] = one_by_one(options, grads, parameters(shapes))
    return _computed[key]


def assert_same(actual, expected, tolerance=0.0):
    """Parameters and state agree in every snapshot: bit by bit, or to a relative and absolute tolerance."""
    assert len(actual) == len(expected)
    for t, (ours, theirs) in enumerate(zip(actual, expected, strict=True), 1):
        if not all(_agree(mine, other, tolerance) for mine, other in zip(ours, theirs, strict=True)):
            _show_difference(t, ours, theirs, tolerance)
            raise AssertionError(f"step {t}")


def _agree(ours, theirs, tolerance):
    """Whether two snapshots of a tensor agree; `assert_close` takes ten times as long."""
    if ours.state.keys() != theirs.state.keys() or not _close(ours.param, theirs.param, tolerance):
        return False
    return all(_close(value, theirs.state[name], tolerance) for name, value in ours.state.items())


def _close(a, b, tolerance):
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


def _show_difference(t, ours, theirs, tolerance):
    """Fail with the place where two lists of snapshots differ."""
    torch.testing.assert_close(
        ours,
        theirs,
        rtol=tolerance,
        atol=tolerance,
        equal_nan=True,
        msg=lambda message: f"step {t}: {message}",
    )
