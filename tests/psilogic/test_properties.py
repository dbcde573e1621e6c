"""What holds for every hyperparameter and every gradient."""

import hypothesis.strategies as st
import torch
from hypothesis import example, given, settings
from trajectories import parameters, train, watch

from psilogic import PsiLogic

SHAPES = [(), (3,), (2, 3), (0,)]
REMAINDER = 1e-20  # more than Adam's part with this eps
ABSORBING = 1e30  # an eps that makes Adam's part of the update vanish against any theta


def for_all(*strategies):
    """`given`, bounded, and with the same examples in every run."""
    bounded = settings(max_examples=12, deadline=None, derandomize=True)

    def decorate(test):
        return bounded(given(*strategies)(test))

    return decorate


def floats(low, high):
    return st.floats(low, high, allow_subnormal=False)


powers_of_ten = floats(-3, 3).map(lambda exponent: 10.0**exponent)
magnitudes = st.lists(powers_of_ten, min_size=4, max_size=16)
seeds = st.integers(0, 2**16)
OPTION_RANGES = {
    "lr": floats(1e-4, 1.0),
    "weight_decay": floats(0.0, 0.5),
    "gamma": floats(0.0, 50.0),
    "p_ext": floats(0.0, 50.0),
    "max_cancel": floats(0.0, 1.0),
    "adaptive_tau": st.booleans(),
    "tau_scale": floats(0.5, 4.0),
    "chaos_tau": floats(0.0, 1.0),
    "chaos_warmup": st.integers(0, 6),
    "gamma_T_max": st.integers(0, 20),
    "quantum_decay": floats(0.0, 1.0),
    "chaos_signal": st.sampled_from(["raw", "relative"]),
}
PROCESSING_RANGES = {
    "agc_clip": st.sampled_from([0.0, 0.1]),
    "grad_centralize": st.booleans(),
    "maximize": st.booleans(),
}


def decays_less_than_everything(options):
    """Otherwise delta itself may exceed 1."""
    return options["lr"] * options["weight_decay"] + options["max_cancel"] <= 1


options = st.fixed_dictionaries(OPTION_RANGES).filter(decays_less_than_everything)
processing = st.fixed_dictionaries(PROCESSING_RANGES)
scopes = st.sampled_from(["tensor", "group", "global"])


def script(magnitudes, seed, shapes=SHAPES):
    """Gradients of the given magnitude in each step, here and there a tensor without one."""
    generator = torch.Generator().manual_seed(seed)
    for t, magnitude in enumerate(magnitudes):
        grads = []
        for i, shape in enumerate(shapes):
            if (t + i) % 5 == 4:
                grads.append(None)
            else:
                grads.append(torch.randn(shape, generator=generator, dtype=torch.float64) * magnitude)
        yield grads


def assert_shrunk(before, after, quantum_decay=0.0):
    """No element grew; undoing a quantum decay may round up by one unit in the last place (docs/psilogic.md)."""
    for old, new in zip(before, after, strict=True):
        bound = old.abs()
        if quantum_decay > 0:
            bound = torch.nextafter(bound, torch.full_like(old, torch.inf))
        same_sign = new * old >= 0
        vanished = new.abs() <= REMAINDER
        assert (same_sign | vanished).all(), "changed its sign"
        assert (new.abs() <= bound + REMAINDER).all(), "grew"


def copies(params):
    return [p.detach().clone() for p in params]


UNDONE = {
    "lr": 0.109375,
    "weight_decay": 0.0,
    "gamma": 0.0,
    "p_ext": 0.0,
    "max_cancel": 0.0,
    "adaptive_tau": True,
    "tau_scale": 1.0,
    "chaos_tau": 0.0,
    "chaos_warmup": 0,
    "gamma_T_max": 2,
    "quantum_decay": 1.0,
    "chaos_signal": "raw",
}
"""Options with which the first step undoes a quantum decay, and some elements grow in the last place."""


@for_all(options, magnitudes, seeds, scopes)
@example(UNDONE, [1.0] * 4, 0, "tensor")
def test_decay_never_flips_a_sign_and_never_grows(options, magnitudes, seed, scope):
    """All decays: unified and quantum, in spikes and quiet steps. Only Adam's part is switched off."""
    params = parameters(SHAPES)
    optimizer = PsiLogic(params, eps=ABSORBING, chaos_scope=scope, **options)
    for grads in script(magnitudes, seed):
        before = copies(params)
        train(optimizer, params, [grads])
        assert_shrunk(before, params, options["quantum_decay"])


@for_all(options, magnitudes, floats(1.0, 1e4))
def test_after_a_spike_zero_gradients_only_shrink(options, magnitudes, spike):
    """With beta1 = 0 a zero gradient makes no Adam step, while the gate is still open."""
    options |= {"chaos_warmup": 0, "betas": (0.0, 0.999)}
    params = parameters(SHAPES)
    optimizer = PsiLogic(params, **options)
    train(optimizer, params, script([*magnitudes, spike], seed=0))
    for _ in range(10):
        before = copies(params)
        train(optimizer, params, [[torch.zeros_like(p) for p in params]])
        assert_shrunk(before, params, options["quantum_decay"])


def test_the_gate_outlives_a_spike_and_shrinks():
    """An example in which the property above is not trivial."""
    params = parameters(SHAPES)
    optimizer = PsiLogic(params, lr=0.1, betas=(0.0, 0.999), gamma=1.0, chaos_warmup=0, weight_decay=0.0)
    train(optimizer, params, script([1.0] * 200 + [100.0], seed=0))
    before = copies(params)
    train(optimizer, params, [[torch.zeros_like(p) for p in params]])
    for old, new in zip(before, params, strict=True):
        assert (new.abs() < old.abs()).all()


@for_all(options, processing, magnitudes, seeds, scopes)
def test_cancellation_is_bounded(options, processing, magnitudes, seed, scope):
    params = parameters(SHAPES)
    optimizer = PsiLogic(params, chaos_scope=scope, **processing, **options)
    seen = watch(optimizer)
    train(optimizer, params, script(magnitudes, seed))
    (group,) = optimizer.param_groups
    weight_decay = group["lr"] * group["weight_decay"]
    for _, decision in seen:
        assert (decision.cancellation >= 0).all()
        assert (decision.cancellation <= group["max_cancel"]).all()
        assert (decision.warmup >= 0).all()
        assert (decision.warmup <= 1).all()
        assert (decision.chaos >= 0).all()
        assert (decision.chaos < 1.5 + 1e-15).all()
        torch.testing.assert_close(decision.decay, weight_decay + decision.cancellation)
