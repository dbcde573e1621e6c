"""Wrong input: it is refused or tolerated, and nothing changes."""

import copy
import math
import warnings
from collections import UserDict
from itertools import product

import numpy as np
import pytest
import torch
from by_reference import Twin
from grids import pairwise
from torch import nn
from trajectories import gradients, ones_for, parameters, params_of, train, watch

from psilogic import PsiLogic, PsiLogicGPT
from psilogic.backends.cpu import kernels
from psilogic.optimizer import DEFAULTS
from psilogic.options import as_plain

NON_NEGATIVE = ["lr", "eps", "weight_decay", "gamma", "p_ext", "tau_scale", "chaos_tau", "quantum_decay", "agc_clip"]
NUMBERS = [*NON_NEGATIVE, "max_cancel", "max_grad_norm"]
COUNTS = ["chaos_warmup", "total_steps", "gamma_T_max"]
SWITCHES = ["adaptive_tau", "grad_centralize", "maximize", "capturable", "differentiable"]
CHOICES = ["agc_norm", "chaos_signal", "chaos_scope"]

BAD_NUMBERS = [-1e-9, math.nan, math.inf, "0.1", [0.1], True, torch.tensor([0.1, 0.2])]
BAD_COUNTS = [-2, 0.5, math.nan, math.inf, "1", None, True]
BAD_BETAS = [(0.9,), (0.9, 0.99, 0.999), 0.9, None, "ab", ("a", "b")]
for beta in (-0.1, 1.0, math.nan, math.inf):
    BAD_BETAS += [(beta, 0.9), (0.9, beta)]

BAD = [
    *product(NUMBERS, BAD_NUMBERS),
    *product([name for name in NUMBERS if name != "max_grad_norm"], [None]),
    *product(COUNTS, BAD_COUNTS),
    *product(SWITCHES, [1, "yes", None]),
    *product(CHOICES, ["unknown", None, 1]),
    *product(["betas"], BAD_BETAS),
    ("max_cancel", 1.0 + 1e-9),
    ("lr", torch.tensor(-1.0)),
    ("lr", torch.tensor(math.nan)),
    ("lr", torch.tensor([])),
    ("lr", 10**400),
    ("amsgrad", True),
    ("amsgrad", 0),
    ("betas", (torch.tensor(1.0), torch.tensor(0.99))),
    ("foreach", "yes"),
]
"""Names of arguments, and values that are refused."""


def case(argument):
    """The identifier of a name or a value."""
    if isinstance(argument, str):
        return argument
    return repr(argument)[:60]


def shown(value):
    """How the message may show the value: as it is, a part of it, or for a tensor its shape."""
    forms = [repr(value)]
    if isinstance(value, torch.Tensor):
        forms.append(str(tuple(value.shape)))
    elif isinstance(value, tuple):
        forms += [repr(part) for part in value]
    return forms


def assert_refused(name, value, build):
    with pytest.raises(ValueError) as caught:
        build()
    message = str(caught.value)
    assert name in message
    assert any(form in message for form in shown(value)), message


def a_parameter():
    return nn.Parameter(torch.ones(3))


def snapshot(optimizer):
    """Everything that a step could change: parameters, groups and state."""
    params = [p.detach() for p in params_of(optimizer)]
    return copy.deepcopy((params, optimizer.state_dict()))


def assert_unchanged(optimizer, before):
    """Compared as text with all digits: the options are no numbers."""
    torch.set_printoptions(precision=17)
    text_before = repr(before)
    text_after = repr(snapshot(optimizer))
    torch.set_printoptions(profile="default")
    assert text_after == text_before


@pytest.mark.parametrize(("name", "value"), BAD, ids=case)
def test_the_argument_and_its_value_are_named_in_the_constructor_and_in_groups(name, value):
    assert_refused(name, value, lambda: PsiLogic([a_parameter()], **{name: value}))
    good = {"params": [a_parameter()]}
    bad = {"params": [a_parameter()], name: value}
    assert_refused(name, value, lambda: PsiLogic([good, bad]))
    optimizer = PsiLogic([good])
    train(optimizer, good["params"], [[torch.ones(3)]])
    before = snapshot(optimizer)
    assert_refused(name, value, lambda: optimizer.add_param_group(bad))
    assert len(optimizer.param_groups) == 1
    assert_unchanged(optimizer, before)


NUMBERS_OF_NUMPY = [
    {"lr": np.float32(1e-2), "weight_decay": np.float64(0.1)},
    {"lr": np.array(1e-2), "betas": np.array([0.8, 0.9])},
    {"lr": np.array([1e-2]), "betas": [np.float64(0.8), 0.9], "chaos_warmup": np.int64(3)},
]


@pytest.mark.parametrize("options", NUMBERS_OF_NUMPY, ids=str)
def test_numbers_of_numpy_are_numbers(options):
    plain = as_plain({**DEFAULTS, **options})
    ours = [a_parameter()]
    optimizer = PsiLogic(ours, **options)
    twins = [a_parameter()]
    twin = PsiLogic(twins, **plain)
    script = [[torch.full((3,), 1.0 + t)] for t in range(3)]
    torch.testing.assert_close(train(optimizer, ours, script), train(twin, twins, script), rtol=0, atol=0)
    optimizer.param_groups[0].update(options)  # as a schedule sets them
    torch.testing.assert_close(train(optimizer, ours, script), train(twin, twins, script), rtol=0, atol=0)


def test_betas_and_eps_may_be_tensors_that_change_in_place():
    """As AdamW takes betas since torch 2.7."""
    results = []
    for kind in (torch.optim.AdamW, PsiLogic):
        params = [a_parameter()]
        betas = (torch.tensor(0.9), torch.tensor([0.99]))
        optimizer = kind(params, betas=betas, eps=torch.tensor(1e-3), weight_decay=0.0)
        for t in range(4):
            params[0].grad = torch.full((3,), 1.0 + t)
            optimizer.step()
            betas[0].mul_(0.9)
        results.append(params[0].detach())
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"max_grad_norm": 1.0}], ids=str)
@pytest.mark.parametrize("count", [0, torch.zeros(1), torch.zeros((), dtype=torch.int64)], ids=repr)
@pytest.mark.parametrize("when", ["before", "later"])
def test_a_step_count_of_the_user(options, count, when):
    """As an optimizer that processes share starts it before the first step, or as a user sets it back."""
    params = [a_parameter(), a_parameter()]
    optimizer = PsiLogic(params, **options)
    expected = [a_parameter(), a_parameter()]
    twin = PsiLogic(expected, **options)
    script = [ones_for(params)] * 3
    if when == "later":
        train(optimizer, params, script)
        train(twin, expected, script)
    for p, other in zip(params, expected, strict=True):
        moments = {"exp_avg": torch.zeros(3), "exp_avg_sq": torch.zeros(3)}
        optimizer.state[p].update({"step": copy.deepcopy(count), **moments})
        twin.state[other].update({"step": torch.tensor(0.0), **copy.deepcopy(moments)})
    torch.testing.assert_close(train(optimizer, params, script), train(twin, expected, script))
    assert [float(optimizer.state[p]["step"]) for p in params] == [3.0, 3.0]


def test_moments_of_another_dtype_or_shape_change_nothing():
    """A model part of which was converted or resized after the optimizer was made."""
    params = [a_parameter(), a_parameter()]
    optimizer = PsiLogic(params)
    train(optimizer, params, [ones_for(params)] * 3)
    params[1].data = params[1].data.double()
    params[1].grad = torch.ones(3, dtype=torch.float64)
    params[0].grad = torch.ones(3)
    before = snapshot(optimizer)
    with pytest.raises(RuntimeError, match=r"exp_avg is torch.float32, its parameter torch.float64: .*load_state"):
        optimizer.step()
    assert_unchanged(optimizer, before)
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()
    assert optimizer.state[params[1]]["step"] == 4
    params[0].data = torch.ones(5)
    params[0].grad = torch.ones(5)
    before = snapshot(optimizer)
    with pytest.raises(
        RuntimeError, match=r"exp_avg has the size \(3,\), its parameter \(5,\): .*delete optimizer.state"
    ):
        optimizer.step()
    assert_unchanged(optimizer, before)


def test_moments_without_a_step_count_are_refused():
    params = [a_parameter()]
    optimizer = PsiLogic(params)
    optimizer.state[params[0]] = {"exp_avg": torch.ones(3), "exp_avg_sq": torch.ones(3)}
    params[0].grad = torch.ones(3)
    with pytest.raises(RuntimeError, match=r"shape \(3,\) has exp_avg, but no step.*set optimizer.state"):
        optimizer.step()
    assert torch.equal(params[0].detach(), torch.ones(3))


def test_a_state_may_be_any_mapping():
    params = [a_parameter()]
    optimizer = PsiLogic(params)
    train(optimizer, params, [ones_for(params)])
    optimizer.state[params[0]] = UserDict(optimizer.state[params[0]])
    train(optimizer, params, [ones_for(params)])
    assert optimizer.state[params[0]]["step"] == 2


def test_groups_and_parameters_may_be_in_any_sequence():
    params = [a_parameter()]
    optimizer = PsiLogic(params)
    optimizer.param_groups[0]["params"] = tuple(params)
    optimizer.param_groups = tuple(optimizer.param_groups)
    for _ in range(3):
        train(optimizer, params, [ones_for(params)])
    assert optimizer.state[params[0]]["step"] == 3


def test_without_parameter_groups_nothing_happens():
    optimizer = PsiLogic([a_parameter()])
    optimizer.param_groups.clear()
    assert optimizer.step(lambda: 3.0) == 3.0
    optimizer.load_state_dict(optimizer.state_dict())
    assert "PsiLogic" in repr(optimizer)


REFUSED_BY_TORCH = [
    ("lr", -1),
    ("eps", -1e-9),
    ("weight_decay", math.nan),
    ("betas", (1.0, 0.9)),
    ("betas", (0.9, -0.5)),
    ("lr", torch.tensor([0.1, 0.2])),
]


@pytest.mark.parametrize(("name", "value"), REFUSED_BY_TORCH, ids=case)
def test_the_words_of_torch_where_torch_has_them(name, value):
    """Scripts and tests look for them."""
    with pytest.raises(ValueError) as theirs:
        torch.optim.AdamW([a_parameter()], **{name: value})
    with pytest.raises(ValueError) as ours:
        PsiLogic([a_parameter()], **{name: value})
    assert str(ours.value).startswith(str(theirs.value))


def test_the_arguments_of_adamw_in_its_order():
    arguments = (1e-3, (0.8, 0.9), 1e-7, 0.1, False)
    ours = PsiLogic(nn.Linear(2, 2).parameters(), *arguments).param_groups[0]
    theirs = torch.optim.AdamW(nn.Linear(2, 2).parameters(), *arguments).param_groups[0]
    for name, value in theirs.items():
        if name not in ("params", "decoupled_weight_decay"):
            assert ours[name] == value, name
    assert theirs.get("decoupled_weight_decay", True)
    with pytest.raises(ValueError, match=r"amsgrad must be False, got True: PsiLogic is defined with Adam's second"):
        PsiLogic(nn.Linear(2, 2).parameters(), *arguments[:-1], True)


@pytest.mark.parametrize(("name", "value"), [("max_grad_norm", 1.0), ("differentiable", True)])
def test_what_must_be_the_same_in_all_groups(name, value):
    """Given in the constructor, or in every group."""
    groups = [{"params": [a_parameter()], name: value}, {"params": [a_parameter()], name: value}]
    optimizer = PsiLogic(groups)
    assert [group[name] for group in optimizer.param_groups] == [value, value]
    with pytest.raises(ValueError, match=f"{name} must be the same in all groups, got .* and {value}"):
        optimizer.add_param_group({"params": [a_parameter()]})
    assert_refused(name, value, lambda: PsiLogic([{"params": [a_parameter()]}, groups[0]]))


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_grad_norm", 1.0), ("chaos_signal", "relativ"), ("chaos_scope", "Global"), ("agc_norm", "x")],
)
def test_what_is_set_later_is_checked_before_a_step(name, value):
    params = [a_parameter(), a_parameter()]
    optimizer = PsiLogic([{"params": [p]} for p in params])
    before = [p.detach().clone() for p in params]
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer.param_groups[1][name] = value
    with pytest.raises(ValueError, match=rf"{name} must be .*got {value!r}"):
        optimizer.step()
    assert all(map(torch.equal, params, before))
    assert not optimizer.state


def test_execution_flags_may_differ_between_groups():
    flags = [{"foreach": False, "fused": False}, {"fused": False}, {"fused": True}, {"capturable": True}, {}]
    groups = [{"params": [a_parameter()], **flag} for flag in flags]
    optimizer = PsiLogic(groups)
    params = [group["params"][0] for group in groups]
    train(optimizer, params, [[torch.ones(3)] * len(params)] * 3)
    assert optimizer.executed["foreach"] == 2
    assert optimizer.executed.total() == len(flags)
    for p in params:
        torch.testing.assert_close(p, params[0])


@pytest.mark.parametrize("wrong", ["device", "rounding"])
@pytest.mark.parametrize("where", ["constructor", "group"])
def test_a_fused_that_cannot_be_honored_is_refused(wrong, where, monkeypatch):
    options = {}
    if wrong == "device":
        p = nn.Parameter(torch.ones(3, device="meta"))
    else:  # only the compiled kernels have it
        monkeypatch.setattr(kernels, "kernels", None)
        p = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
        options["bf16_update"] = "kahan"
    group = {"params": [p]}
    if where == "group":
        group["fused"] = True
    else:
        options["fused"] = True
    other = a_parameter()
    optimizer = PsiLogic([{"params": [other]}, group], **options)
    p.grad = torch.ones_like(p)
    other.grad = torch.ones(3)
    before = snapshot(optimizer)
    with pytest.raises(RuntimeError, match=f"fused=True .*{p.dtype} .*{p.device}.* pass fused=None"):
        optimizer.step()
    assert_unchanged(optimizer, before)


@pytest.mark.parametrize("other", ["foreach", "differentiable"])
def test_flags_that_exclude_each_other_are_refused(other):
    with pytest.raises(RuntimeError) as theirs:
        torch.optim.AdamW([nn.Parameter(torch.zeros(2))], fused=True, **{other: True})
    with pytest.raises(ValueError, match=str(theirs.value).rstrip(".")):
        PsiLogic([nn.Parameter(torch.zeros(2))], fused=True, **{other: True})


def test_fused_leaves_what_has_gaps_to_foreach_without_compiled_kernels(execution):
    wide = nn.Parameter(torch.ones(3, dtype=torch.float64))
    gaps = nn.Parameter(torch.ones(3, 4)[:, ::2])
    optimizer = PsiLogic([wide, gaps], fused=True)
    train(optimizer, [wide, gaps], [[torch.ones(3, dtype=torch.float64), torch.ones(3, 2)]])
    assert optimizer.executed == {"native": {"native": 2}, "fused": {"fused": 1, "foreach": 1}}[execution]


def test_a_gradient_in_another_layout_does_not_stop_a_training_with_fused(execution):
    """As a user's loss brings it: the gradient of a transposed weight, in one step of three."""
    weight = nn.Parameter(torch.randn(4, 3))
    twin = nn.Parameter(weight.detach().clone())
    optimizer = PsiLogic([weight], lr=0.1, fused=True)
    expected = PsiLogic([twin], lr=0.1, fused=False)
    by_rows = torch.arange(12.0).view(4, 3) - 5
    by_columns = by_rows.T.contiguous().T
    executed = []
    for g in (by_rows, by_columns, by_rows):
        weight.grad = g
        optimizer.step()
        executed.append(set(optimizer.executed))
        twin.grad = g
        expected.step()
    between = {"native": "native", "fused": "foreach"}[execution]
    assert executed == [{execution}, {between}, {execution}]
    torch.testing.assert_close(weight, twin)


def test_a_bad_default_is_refused_though_no_group_uses_it():
    assert_refused("lr", -1.0, lambda: PsiLogic([{"params": [a_parameter()], "lr": 0.1}], lr=-1.0))


def test_limits_are_allowed():
    options = dict.fromkeys([*NUMBERS, *COUNTS], 0)
    options["eps"] = 1e-8
    options["betas"] = [0.0, 0.0]
    params = [a_parameter()]
    train(PsiLogic(params, **options), params, [[torch.ones(3)]] * 3)
    assert params[0].isfinite().all()


@pytest.mark.parametrize("started", [False, True], ids=["fresh", "started"])
def test_sparse_gradients_change_nothing(started):
    dense = nn.Parameter(torch.ones(4))
    sparse = nn.Parameter(torch.ones(4, 2))
    optimizer = PsiLogic([{"params": [dense]}, {"params": [sparse]}], max_grad_norm=1.0)
    if started:
        train(optimizer, [dense, sparse], [[torch.ones(4), torch.ones(4, 2)]])
    before = snapshot(optimizer)
    dense.grad = torch.ones(4)
    sparse.grad = torch.ones(4, 2).to_sparse()
    with pytest.raises(RuntimeError, match="sparse"):
        optimizer.step()
    assert_unchanged(optimizer, before)


@pytest.mark.parametrize(
    ("shape", "dtype", "scope"),
    pairwise(
        [(), (0,), (3, 0), (0, 3), (1, 1)],
        [torch.float32, torch.complex64, torch.bfloat16],
        ["tensor", "group", "global"],
    ),
    ids=str,
)
def test_tensors_of_zero_dimensions_or_elements(shape, dtype, scope):
    """With every stage active, alone in its pool and with another tensor."""
    options = {"agc_clip": 0.1, "grad_centralize": True, "max_grad_norm": 1.0, "quantum_decay": 0.1, "maximize": True}
    p, q = parameters([shape, (3,)], dtype=dtype)
    optimizer = PsiLogic([p, q], chaos_warmup=0, chaos_scope=scope, **options)
    g, h = ones_for([p, q])
    train(optimizer, [p, q], [[g, h], [g, None], [None, h], [None, None]])
    assert p.shape == shape
    assert p.isfinite().all()
    assert float(optimizer.state[p]["step"]) == 2


ACTIVE = {"lr": 0.02, "gamma": 1.0, "chaos_warmup": 5, "quantum_decay": 0.5}


def detector_memory(optimizer, p):
    """The scalars of a parameter's detector; none before its first step."""
    return {name: float(value) for name, value in optimizer.state[p].items() if name.startswith("chaos_")}


@pytest.mark.parametrize(
    ("bad", "at", "signal", "options"),
    pairwise(
        [math.nan, math.inf, -math.inf, 1e200],
        [{0}, {30, 31, 32}],
        ["raw", "relative"],
        [{}, {"agc_clip": 0.1}, {"chaos_scope": "group"}, {"eps": 0.0}],
    ),
    ids=str,
)
def test_gradients_without_a_finite_norm_damage_their_element_only(bad, at, signal, options):
    """As in AdamW; the detector keeps its memory, does nothing in that step, and works again afterwards."""
    shapes = [(2,), (3, 2)]
    params = parameters(shapes)
    optimizer = PsiLogic(params, chaos_signal=signal, **{**ACTIVE, **options})
    reference = Twin(optimizer)
    seen = watch(optimizer)
    fired_afterwards = False
    for t, grads in enumerate(gradients(60, shapes, every=20)):
        if t in at:
            grads[1].view(-1)[0] = bad
        memory = detector_memory(optimizer, params[1])
        train(optimizer, params, [grads])
        reference.step(grads)
        decision = seen[-1].decision
        if t in at:
            assert memory.items() <= detector_memory(optimizer, params[1]).items()
            assert decision.cancellation[1] == 0
            assert decision.quantum_rate[1] == 0
        if t > max(at) and decision.cancellation[1] > 0:
            fired_afterwards = True
        for p, member in zip(params, reference.members, strict=True):
            torch.testing.assert_close(p.detach(), member.theta, rtol=1e-10, atol=1e-12, equal_nan=True)
    assert params[1].view(-1)[0].isfinite() == math.isfinite(bad)
    assert params[1].view(-1)[1:].isfinite().all()
    assert params[0].isfinite().all()
    # The relative signal has no spikes if AGC clips them, with and without the bad gradient; after a NaN it does not.
    without_spikes = math.isfinite(bad) and signal == "relative" and "agc_clip" in options
    assert fired_afterwards != without_spikes, "the detector must recover"


def test_a_misspelled_name_is_told():
    with pytest.raises(TypeError, match="has no argument 'gama'; did you mean 'gamma'"):
        PsiLogic(parameters(), gama=0.1)
    with pytest.raises(TypeError, match="PsiLogicGPT has no argument 'gama'"):
        PsiLogicGPT(parameters(), gama=0.1)
    group = {"params": parameters(), "gama": 0.1, "name": "head", "lr_scale": 3, "initial_lr": 0.1}
    with pytest.warns(UserWarning, match="has the key 'gama', which does nothing; did you mean 'gamma'") as warned:
        optimizer = PsiLogic([group])
    with pytest.warns(UserWarning, match="did you mean 'weight_decay'") as later:
        optimizer.add_param_group({"params": parameters(), "weight_decya": 0.1})
    assert [each.filename for each in (*warned, *later)] == [__file__, __file__]


def test_keys_that_libraries_keep_in_groups_are_no_misspelled_names():
    of_libraries = ["weight_decay_mult", "no_weight_decay", "base_weight_decay", "betas2", "eps2", "adaptive"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PsiLogic([{"params": parameters(), **dict.fromkeys(of_libraries, 0.5)}])
