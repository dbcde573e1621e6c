"""The package against the reference: every option alone and all together, to 1e-12 in float64."""

import warnings

import pytest
import torch
from by_reference import Twin
from torch import nn
from trajectories import SHAPES, changed, gradients, parameters, set_gradients, train, watch

from psilogic import PsiLogic

STEPS = 80
ACTIVE = {"lr": 0.02, "gamma": 0.5, "chaos_warmup": 40}  # the gate opens and shuts within the run
RELATIVE = {"chaos_signal": "relative"}
BINDING = {"p_ext": 40.0}  # beyond max_cancel
ABSOLUTE = {"adaptive_tau": False, "chaos_tau": 0.3}
QUANTUM = {"quantum_decay": 3.0}
EVERYTHING = {
    "betas": (0.8, 0.95),
    "eps": 1e-3,
    "weight_decay": 0.3,
    "p_ext": 8.0,
    "max_cancel": 0.03,
    "tau_scale": 1.3,
    "gamma_T_max": 400,
    "agc_clip": 20.0,
    "grad_centralize": True,
    "max_grad_norm": 60.0,
    "maximize": True,
    **QUANTUM,
    **RELATIVE,
}
OTHER_GROUP = {  # as different from EVERYTHING as possible
    "lr": 0.05,
    "betas": (0.9, 0.99),
    "eps": 1e-6,
    "weight_decay": 0.01,
    "gamma": 1.0,
    "p_ext": 0.5,
    "max_cancel": 0.005,
    "chaos_warmup": 11,
    "gamma_T_max": 90,
    "quantum_decay": 0.5,
    "agc_clip": 0.5,
    "agc_norm": "tensor",
    "grad_centralize": False,
    "chaos_signal": "raw",
    "maximize": False,
    "adaptive_tau": False,
    "chaos_tau": 0.05,
}

OTHER_VALUES = [
    {"lr": 0.1},
    {"betas": (0.5, 0.9)},
    {"weight_decay": 0.5},
    {"gamma": 3.0},
    {"tau_scale": 4.0},
    {"chaos_warmup": 7},
    {"gamma_T_max": 1000},
]
"""Of options that ONE_OPTION or EVERYTHING has with another value: a fault in one fails those cases, too."""
ONE_OPTION = [
    {},
    {"betas": (0.0, 0.0)},
    {"eps": 0.05},
    {"weight_decay": 0.0},
    BINDING,
    {"max_cancel": 0.002},
    {"tau_scale": 1.1},
    {"chaos_warmup": 0},
    {"chaos_warmup": 0.05, "total_steps": 500},
    {"gamma_T_max": 200},
    {"agc_clip": 0.05},
    {"grad_centralize": True},
    {"chaos_scope": "group"},
    {"chaos_scope": "global"},
    {"max_grad_norm": 3.0},
    {"maximize": True},
    ABSOLUTE,
    QUANTUM,
    RELATIVE,
]
COMBINED = [
    {"p_ext": 100.0, "max_cancel": 0.9},
    {**QUANTUM, "gamma_T_max": 200},
    {**ABSOLUTE, **QUANTUM},
    {"agc_clip": 0.05, "agc_norm": "tensor"},
    {"agc_clip": 0.05, "agc_norm": "tensor", "grad_centralize": True},
    {**RELATIVE, "eps": 0.05},
    {**RELATIVE, "eps": 0.05, "tau_scale": 1.1},  # so that the gate's margin matters
    {**RELATIVE, **ABSOLUTE, "chaos_tau": 1.0, "chaos_warmup": 0},
    {**RELATIVE, "chaos_scope": "group"},
    {**RELATIVE, "chaos_scope": "global"},
    EVERYTHING,
]
TWO_GROUPS = [
    ({}, {"chaos_scope": "group"}),
    ({"chaos_scope": "global"}, {"lr": 0.05, "grad_centralize": True}),
    (EVERYTHING, OTHER_GROUP),
    ({**EVERYTHING, "chaos_scope": "group"}, OTHER_GROUP),
    ({**EVERYTHING, "chaos_scope": "global"}, OTHER_GROUP),
]


def name(options):
    """The identifier of a case."""
    if not options:
        return "defaults"
    if len(options) > 8:
        return "everything" if options["chaos_signal"] == "relative" else "other"
    return ",".join(f"{key}={value}" for key, value in options.items())


def assert_close(actual, expected, what):
    """Equal to 1e-12 of the tensor's largest element, and NaN and infinite in the same places."""
    actual = actual.detach().double().reshape(-1)
    expected = torch.as_tensor(expected, dtype=torch.float64).reshape(-1)
    finite = expected[expected.isfinite()].abs()
    scale = finite.max().item() if finite.numel() else 0.0
    torch.testing.assert_close(
        actual,
        expected,
        rtol=0,
        atol=1e-12 * scale,
        equal_nan=True,
        msg=lambda message: f"{what}: {message}",
    )


def assert_same_state(optimizer, params, reference, t):
    for i, (p, member) in enumerate(zip(params, reference.members, strict=True)):
        where = f"step {t}, tensor {i}"
        state = optimizer.state[p]
        assert_close(p, member.theta, where)
        if member.state:
            assert {"step", "exp_avg", "exp_avg_sq", "chaos_fast", "chaos_slow"} <= set(state)
        for key, value in state.items():
            assert_close(value, member.state[key], f"{where}, {key}")


def assert_same_decisions(seen, reference):
    """Gate, warm-up and cancellation of one step, which the reference lists in the same order."""
    if not seen:
        return
    gates = torch.cat([observation.decision.gate for observation in seen])
    warmups = torch.cat([observation.decision.warmup for observation in seen])
    cancellations = torch.cat([observation.decision.cancellation for observation in seen])
    assert gates.long().tolist() == [d.s for d in reference.decisions]
    assert_close(warmups, [d.w for d in reference.decisions], "w")
    assert_close(cancellations, [d.w * d.c for d in reference.decisions], "w c")


def follow(optimizer, params, reference, script):
    """Run both through the script and compare after steps; returns the reference's decisions."""
    seen = watch(optimizer)
    decisions = []
    for t, grads in enumerate(script, 1):
        set_gradients(params, grads)
        optimizer.step()
        reference.step(grads)
        if t <= 5 or t % 10 == 0 or t == len(script):
            assert_same_state(optimizer, params, reference, t)
        assert_same_decisions(seen, reference)
        decisions += reference.decisions
        seen.clear()
        reference.decisions.clear()
    return decisions


def compare(script, shapes=SHAPES, other=None, **options):
    """Follow both from the start; `other` overrides the options for a second group, from the third tensor on."""
    params = parameters(shapes)
    groups = [{"params": params}]
    if other is not None:
        groups = [{"params": params[:3]}, {"params": params[3:], **other}]
    optimizer = PsiLogic(groups, **options)
    return follow(optimizer, params, Twin(optimizer), script)


def acted(decisions):
    return [d for d in decisions if d.w * d.c > 0]


@pytest.mark.parametrize(
    "options",
    [*ONE_OPTION, *COMBINED, *(pytest.param(options, marks=pytest.mark.soak) for options in OTHER_VALUES)],
    ids=name,
)
def test_options(options):
    decisions = compare(gradients(STEPS), **{**ACTIVE, **options})
    assert 12 < len(acted(decisions)) < len(decisions), "the gate must open, and must not stay open"
    if options is BINDING:
        assert any(d.c == 0.05 for d in decisions), "max_cancel must bind"


@pytest.mark.parametrize(("first", "second"), TWO_GROUPS, ids=name)
def test_groups_with_options_of_their_own(first, second):
    decisions = compare(gradients(STEPS), other=second, **{**ACTIVE, **first})
    assert 12 < len(acted(decisions)) < len(decisions)


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"gamma_T_max": 12_000}, marks=pytest.mark.soak),
        {"total_steps": 11_000, "gamma_T_max": 30_000},
    ],
    ids=name,
)
def test_automatic_warmup(options):
    script = gradients(800, shapes=[(), (2,)], every=20)
    decisions = compare(script, [(), (2,)], lr=0.02, gamma=0.5, chaos_warmup=-1, **options)
    assert any(0 < d.w < 1 for d in acted(decisions))
    assert any(d.w == 1 for d in acted(decisions))


def test_the_defaults_are_adamw_for_500_steps():
    script = gradients(600, shapes=[(4, 3), (2,)], every=20)
    ours = parameters([(4, 3), (2,)])
    theirs = parameters([(4, 3), (2,)])
    options = {"lr": 0.02, "weight_decay": 0.01}
    trainings = {
        "ours": (PsiLogic(ours, **options), ours),
        "theirs": (torch.optim.AdamW(theirs, **options), theirs),
    }
    for optimizer, params in trainings.values():
        train(optimizer, params, script[:500])
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    for optimizer, params in trainings.values():
        train(optimizer, params, script[500:])
    assert not torch.allclose(ours[0], theirs[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("steps", "warmup"), [(500, -1), (100, 500)])
def test_a_training_without_chaos_term_is_warned_of_once(steps, warmup):
    groups = [{"params": parameters()}, {"params": parameters()}]
    message = rf"waits for 500 steps .*, and total_steps is {steps};"
    with pytest.warns(UserWarning, match=message) as warned:
        PsiLogic(groups, total_steps=steps, chaos_warmup=warmup)
    assert len(warned) == 1
    assert warned[0].filename == __file__


def test_total_steps_that_count_epochs_are_warned_of_in_the_first_step_beyond_twice_as_many():
    params = parameters()
    optimizer = PsiLogic(params, total_steps=3, chaos_warmup=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(optimizer, params, gradients(6))
    with pytest.warns(UserWarning, match="step 7 is taken, and total_steps is 3: .* not of epochs") as warned:
        train(optimizer, params, gradients(3))
    assert len(warned) == 1


@pytest.mark.parametrize("options", [{"chaos_warmup": 2}, {"chaos_warmup": 0}, {"gamma": 0}], ids=name)
def test_steps_beyond_are_silent_where_nothing_depends_on_total_steps(options):
    params = parameters()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(PsiLogic(params, total_steps=3, **options), params, gradients(7))


@pytest.mark.parametrize(
    "options",
    [{}, {"total_steps": 501}, {"total_steps": 100, "chaos_warmup": 0.05}, {"total_steps": 100, "gamma": 0}],
    ids=name,
)
def test_a_training_in_which_the_chaos_term_may_act_is_silent(options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PsiLogic(parameters(), **options)


@pytest.mark.parametrize("signal", ["raw", "relative"])
def test_zero_gradients_before_the_first_signal(signal):
    script = gradients(80)
    quiet = changed(script[:20], torch.zeros_like)
    decisions = compare(quiet + script, **{**ACTIVE, "chaos_warmup": 0, "chaos_signal": signal})
    assert acted(decisions)


@pytest.mark.parametrize(
    ("signal", "quantum_decay"), [pytest.param("raw", 0.0, marks=pytest.mark.soak), ("relative", 0.0), ("raw", 3.0)]
)
def test_state_of_adamw_gets_its_own_warmup(signal, quantum_decay):
    """Moments and step continue; the detector's warm-up starts when the detector does."""
    script = gradients(200, every=12)
    params = parameters()
    adamw = torch.optim.AdamW(params, lr=0.02)
    train(adamw, params, script[:60])
    options = {**ACTIVE, "gamma_T_max": 150, "chaos_signal": signal, "quantum_decay": quantum_decay}
    optimizer = PsiLogic(params, **options)
    optimizer.state.update(adamw.state)
    decisions = follow(optimizer, params, Twin(optimizer), script[60:])
    assert acted(decisions)


def test_agc_clips_where_the_norm_is_beyond_float16():
    """Every element is finite, and so is the clipped gradient; only the norm needs a wider type."""
    p = nn.Parameter(torch.ones(70_000, dtype=torch.float16))
    optimizer = PsiLogic([p], betas=(0.0, 0.0), agc_clip=0.01)
    train(optimizer, [p], [[torch.full_like(p, 300.0)]])
    torch.testing.assert_close(optimizer.state[p]["exp_avg"], torch.full_like(p, 0.01))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("signal", ["raw", "relative"])
def test_the_detector_is_precise_with_half_precision(dtype, signal):
    """Norms and EMAs never round to the gradient's dtype: the detector agrees with float64 to float32's precision."""
    params = parameters(dtype=dtype)
    script = gradients(150, dtype=dtype)
    optimizer = PsiLogic(params, chaos_signal=signal)
    reference = Twin(optimizer)
    train(optimizer, params, script)
    for grads in script:
        reference.step(grads)
    keys = ["chaos_fast", "chaos_slow"]
    if signal == "relative":
        keys.append("chaos_ref")
    for p, member in zip(params, reference.members, strict=True):
        for key in keys:
            value = optimizer.state[p][key]
            assert value.dtype == torch.float32
            assert float(value) == pytest.approx(member.state[key], rel=1e-5)
