"""However a step is executed and its tensors are laid out, every configuration takes the same steps."""

import pytest
import torch
from configurations import ACTIVE, CONFIGURATIONS, PER_TENSOR, STEPS, assert_same, build, snapshot, trace
from trajectories import SHAPES, gradients, parameters, set_gradients, watch

from psilogic import PsiLogic

EVERY_CONFIGURATION = pytest.mark.parametrize("options", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
EVERY_PER_TENSOR = pytest.mark.parametrize("options", PER_TENSOR.values(), ids=PER_TENSOR)
NON_LEAF_GRADIENTS = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")


def one_by_one(options, script, params=None):
    """The ground truth: one tensor at a time."""
    params = parameters() if params is None else params
    return trace(build(params, foreach=False, **options), params, script)


@EVERY_CONFIGURATION
@pytest.mark.parametrize("flags", [{"foreach": None}, {"foreach": True}, {"capturable": True}], ids=str)
def test_execution_flags(options, flags):
    """Torch's own optimizers refuse `capturable` on the CPU; PsiLogic takes the same steps as without."""
    script, params = gradients(STEPS, every=15), parameters()
    assert_same(trace(build(params, **flags, **options), params, script), one_by_one(options, script))


def test_the_configurations_differ():
    """Without that the comparisons in this file would say nothing."""
    script = gradients(STEPS, every=15)
    ends = [torch.cat([p.flatten() for p, _ in one_by_one(o, script)[-1]]) for o in CONFIGURATIONS.values()]
    for i, end in enumerate(ends):
        assert not any(torch.equal(end, other) for other in ends[:i]), list(CONFIGURATIONS)[i]


@NON_LEAF_GRADIENTS
@EVERY_CONFIGURATION
def test_differentiable_takes_the_same_steps(options):
    script, params = gradients(STEPS, every=15), [p.clone() for p in parameters()]
    ours = trace(build(params, differentiable=True, **options), params, script)
    assert_same(ours, one_by_one(options, script), 1e-12)


@NON_LEAF_GRADIENTS
@EVERY_CONFIGURATION
def test_autograd_runs_through_two_steps(options):
    """Derivatives with respect to lr, parameters and gradients agree with finite differences."""
    shapes = [(3, 2), (4,)]
    options = {**options, "chaos_warmup": 0, "tau_scale": 1.1}  # the gate is open, far from its threshold

    def two_steps(lr, *tensors):
        params = [x.clone() for x in tensors[:2]]
        optimizer = build(params, differentiable=True, **{**options, "lr": lr})
        for scale in (1.0, 0.7):
            set_gradients(params, [g * scale for g in tensors[2:]])
            optimizer.step()
        return tuple(params)

    grads = [g.requires_grad_() for g in gradients(1, shapes)[0]]
    lr = torch.tensor(0.02, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(two_steps, (lr, *parameters(shapes), *grads))


@EVERY_CONFIGURATION
@pytest.mark.parametrize("shape", [(), (1,)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_lr_may_be_a_tensor_that_changes_in_place(options, shape, dtype):
    number, tensor = parameters(), parameters()
    lr = torch.full(shape, 2.0**-6, dtype=dtype)
    ours, theirs = build(tensor, **{**options, "lr": lr}), build(number, **{**options, "lr": 2.0**-6})
    for t, grads in enumerate(gradients(20, every=6)):
        assert_same(trace(ours, tensor, [grads]), trace(theirs, number, [grads]))
        for group in theirs.param_groups:
            group["lr"] = 2.0 ** -(t % 9)
        lr.fill_(2.0 ** -(t % 9))
    assert all(group["lr"] is lr for group in ours.param_groups)


# Complex parameters


def as_pairs(x):
    """(n, ...) complex as (n, ..., 2) real: what `torch.view_as_real` shows."""
    return torch.view_as_real(x.detach()).clone()


def as_rows(x):
    """(n, ...) complex as (2n, ...) real: real and imaginary parts of a row as rows of their own."""
    return torch.cat([x.detach().real, x.detach().imag])


ROW_WISE = ("AGC", "GC", "everything")


@pytest.mark.parametrize(
    ("config", "real"),
    [(c, as_pairs) for c in CONFIGURATIONS if c not in ROW_WISE] + [("AGC", as_pairs), ("GC", as_rows)],
)
def test_complex_parameters_are_reals(config, real):
    """The detector counts two elements each.

    What looks at rows must not see a complex number as a row of two: AGC clips whole complex vectors, and the mean
    of centralization is a complex number, not the mean of real and imaginary parts together.
    """
    shapes = [(4, 3), (2, 3, 2)] if config in ROW_WISE else SHAPES
    script = gradients(STEPS, shapes, torch.complex128, every=15)
    params = parameters(shapes, torch.complex128)
    twins = [real(p).requires_grad_() for p in params]
    ours = trace(build(params, **CONFIGURATIONS[config]), params, script)
    theirs = one_by_one(CONFIGURATIONS[config], [[None if g is None else real(g) for g in gs] for gs in script], twins)
    shown = [[(real(p), {k: real(v) if v.is_complex() else v for k, v in s.items()}) for p, s in x] for x in ours]
    assert_same(shown, theirs, 1e-12)


# Layouts, dtypes and devices


def transposed(x):
    return x.transpose(0, -1).contiguous().transpose(0, -1) if x.ndim > 1 else x.clone()


def strided(x):
    return torch.stack([x, torch.full_like(x, 7.0)], dim=-1)[..., 0]


def channels_last(x):
    return x.to(memory_format=torch.channels_last) if x.ndim == 4 else x.clone()


@EVERY_CONFIGURATION
@pytest.mark.parametrize("of_param", [torch.clone, transposed, strided, channels_last])
@pytest.mark.parametrize("of_grad", [torch.clone, strided])
def test_layouts(options, of_param, of_grad):
    script = gradients(STEPS, every=15)
    params = [of_param(p.detach()).requires_grad_() for p in parameters()]
    optimizer, snapshots = build(params, **options), []
    for grads in script:
        for p, g in zip(params, grads, strict=True):
            p.grad = None if g is None else of_grad(g)
        optimizer.step()
        snapshots.append(snapshot(optimizer, params))
    assert_same(snapshots, one_by_one(options, script), 1e-11)
    dense = (p for p in params if p.numel() and of_param is not strided)
    assert all(optimizer.state[p]["exp_avg"].stride() == p.stride() for p in dense)


MIXED = [torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.float64, torch.float16]


@EVERY_PER_TENSOR
@pytest.mark.parametrize("foreach", [None, False])
def test_dtypes_in_one_group_do_not_meet(options, foreach):
    """Each tensor as in an optimizer of its own, its state with its own dtypes."""

    def cast(tensors, parts):
        return [None if x is None else x.to(d) for x, d in zip(tensors, parts, strict=True)]

    options = {**options, "eps": 1e-3}  # not 0 in float16
    script = [cast(grads, MIXED) for grads in gradients(STEPS, every=15)]
    params = [p.detach().to(d).requires_grad_() for p, d in zip(parameters(), MIXED, strict=True)]
    alone = [p.detach().clone().requires_grad_() for p in params]
    together = trace(build(params, foreach=foreach, **options), params, script)
    for i, p in enumerate(alone):
        apart = trace(PsiLogic([p], **options), [p], [[grads[i]] for grads in script])
        assert_same([snapshots[i : i + 1] for snapshots in together], apart)
        state = together[-1][i][1]
        assert state["exp_avg"].dtype == state["exp_avg_sq"].dtype == p.dtype
        assert state["chaos_fast"].dtype == (torch.float64 if p.dtype == torch.float64 else torch.float32)


@pytest.mark.parametrize("scope", ["group", "global"])
def test_dtypes_share_a_pooled_norm(scope):
    options = {**ACTIVE, "chaos_scope": scope, "max_grad_norm": 3.0}
    shapes = [(4, 3), (5,), (2, 2)]
    mixed, wide = parameters(shapes), parameters(shapes)
    mixed[1] = mixed[1].detach().float().requires_grad_()
    ours, theirs = PsiLogic(mixed, **options), PsiLogic(wide, **options)
    seen, expected = watch(ours), watch(theirs)
    for grads in gradients(STEPS, shapes, every=15):
        set_gradients(mixed, [g if g is None else g.to(p.dtype) for p, g in zip(mixed, grads, strict=True)])
        set_gradients(wide, grads)
        ours.step(), theirs.step()
        for _, _, decision in seen:
            gn = expected[-1][-1].gn[:1].expand_as(decision.gn)
            torch.testing.assert_close(decision.gn, gn, rtol=1e-6, atol=0)
        seen.clear()
    torch.testing.assert_close([p.double() for p in mixed], wide, rtol=1e-5, atol=1e-6, check_dtype=False)


@EVERY_CONFIGURATION
@pytest.mark.parametrize("flags", [{}, {"foreach": False}, {"capturable": True}, {"lr": torch.tensor(0.1)}], ids=str)
def test_meta_parameters(options, flags):
    """Nothing reads a value: a step can be taken before there are any."""
    params = [p.detach().to("meta").requires_grad_() for p in parameters()]
    optimizer = build(params, **{**options, **flags})
    for _ in range(2):
        set_gradients(params, [torch.ones_like(p) for p in params])
        optimizer.step()
    assert all(optimizer.state[p][name].is_meta for p in params for name in ("exp_avg", "exp_avg_sq", "chaos_fast"))


@EVERY_PER_TENSOR
def test_devices_in_one_group_do_not_meet(options):
    """Parameters on the meta device change nothing for those on the CPU."""
    script, params = gradients(STEPS, every=15), parameters()
    ghosts = [p.detach().to("meta").requires_grad_() for p in params]
    both = [x for pair in zip(ghosts, params, strict=True) for x in pair]
    doubled = [[x for g in grads for x in (None if g is None else g.to("meta"), g)] for grads in script]
    ours = trace(build(both, **options), both, doubled)
    assert_same([snapshots[1::2] for snapshots in ours], one_by_one(options, script))


@EVERY_CONFIGURATION
def test_default_dtype_float64(options):
    """Only the step counter has the default dtype, as in torch's optimizers."""
    script = gradients(STEPS, every=15, dtype=torch.float32)
    expected = one_by_one(options, script, parameters(dtype=torch.float32))
    torch.set_default_dtype(torch.float64)
    try:
        params = parameters(dtype=torch.float32)
        actual = trace(build(params, **options), params, script)
    finally:
        torch.set_default_dtype(torch.float32)
    for snapshots in actual:
        for _, state in snapshots:
            state.update({k: state[k].float() for k in ("step", "chaos_start") if k in state})
    assert_same(actual, expected)
