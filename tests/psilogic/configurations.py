"""The options of PsiLogic that change a step, and runs that are compared step by step."""

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
TOGETHER = {  # each option that changes how a step is computed occurs here; for tests with further factors
    name: CONFIGURATIONS[name] for name in ("AGC of tensors", "everything but clipping", "everything", "global")
}


def chosen(*names):
    """All configurations as parameters of a test; those but TOGETHER and the ones named here have the marker soak."""
    return [pytest.param(x, marks=() if x in (*TOGETHER, *names) else pytest.mark.soak) for x in CONFIGURATIONS]


PER_TENSOR = {  # configurations in which tensors are independent
    name: options
    for name, options in CONFIGURATIONS.items()
    if "chaos_scope" not in options and "max_grad_norm" not in options
}


def build(params, **options):
    """A PsiLogic with two groups, so that the scopes "group" and "global" differ."""
    half = (len(params) + 1) // 2
    return PsiLogic([{"params": params[:half]}, {"params": params[half:]}], **options)


def snapshot(optimizer, params):
    """Copies of the parameters and of their state."""
    state = optimizer.state
    return [(p.detach().clone(), {k: v.detach().clone() for k, v in state.get(p, {}).items()}) for p in params]


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
    params = parameters() if params is None else params
    return trace(build(params, foreach=False, **options), params, script)


_computed = {}


def truth(options, steps=STEPS, shapes=SHAPES, **script):
    """`one_by_one` through `gradients(steps, shapes, **script)`: run once for all comparisons with it."""
    key = repr((sorted(options.items()), steps, shapes, script))
    if key not in _computed:
        _computed[key] = one_by_one(options, gradients(steps, shapes, **script), parameters(shapes))
    return _computed[key]


def assert_same(actual, expected, tolerance=0.0):
    """Parameters and state agree in every snapshot: bit by bit, or to a relative and absolute tolerance."""
    assert len(actual) == len(expected)
    how = {"rtol": tolerance, "atol": tolerance, "equal_nan": True}

    def agree(a, b):
        return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, **how)

    for t, (mine, theirs) in enumerate(zip(actual, expected, strict=True), 1):
        pairs = zip(mine, theirs, strict=True)
        if not all(
            agree(p, q) and ours.keys() == others.keys() and all(agree(ours[k], others[k]) for k in ours)
            for (p, ours), (q, others) in pairs
        ):  # assert_close takes ten times as long, and shows where
            torch.testing.assert_close(mine, theirs, msg=lambda m, t=t: f"step {t}: {m}", **how)
            raise AssertionError(f"step {t}")
