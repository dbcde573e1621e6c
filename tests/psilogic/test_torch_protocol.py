"""All executions take the same steps, for every configuration; autograd can record them."""

import pytest
import torch
from configurations import CONFIGURATIONS, STEPS, TOGETHER, assert_same, build, chosen, one_by_one, trace, truth
from torch import nn
from trajectories import SHAPES, gradients, parameters, set_gradients

# `test_execution_flags` compares every configuration with the steps that these run, one tensor at a time.
REPRESENTED = pytest.mark.parametrize("name", chosen())
NON_LEAF_GRADIENTS = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")


@pytest.mark.parametrize(
    ("name", "flags"),
    [(name, {"foreach": True}) for name in CONFIGURATIONS]
    + [(name, flags) for name in TOGETHER for flags in ({"fused": False}, {"foreach": True, "capturable": True})],
    ids=str,
)
def test_execution_flags(name, flags):
    """Torch's own optimizers refuse `capturable` on the CPU; PsiLogic takes the same steps as without."""
    options, params = CONFIGURATIONS[name], parameters()
    actual = trace(build(params, **flags, **options), params, gradients(STEPS, every=15))
    assert_same(actual, truth(options, every=15))


def test_the_configurations_differ():
    """Otherwise the comparisons in this file would prove nothing."""
    ends = [torch.cat([p.flatten() for p, _ in truth(o, every=15)[-1]]) for o in CONFIGURATIONS.values()]
    for i, end in enumerate(ends):
        assert not any(torch.equal(end, other) for other in ends[:i]), list(CONFIGURATIONS)[i]


@NON_LEAF_GRADIENTS
@REPRESENTED
def test_differentiable_takes_the_same_steps(name):
    options = CONFIGURATIONS[name]
    script, params = gradients(STEPS, every=15), [p.clone() for p in parameters()]
    ours = trace(build(params, differentiable=True, **options), params, script)
    assert_same(ours, truth(options, every=15), 1e-12)


@NON_LEAF_GRADIENTS
@REPRESENTED
def test_autograd_runs_through_two_steps(name):
    """Derivatives with respect to lr, parameters and gradients agree with finite differences."""
    shapes = [(3, 2), (4,)]
    options = {**CONFIGURATIONS[name], "chaos_warmup": 0, "tau_scale": 1.1}  # the gate is open, far from its threshold

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


@REPRESENTED
@pytest.mark.parametrize(("shape", "dtype"), [((), torch.float32), ((1,), torch.float64)], ids=str)
@pytest.mark.parametrize("what", ["lr", "weight_decay"])
def test_lr_and_weight_decay_may_be_tensors_that_change_in_place(what, name, shape, dtype):
    options, number, tensor = CONFIGURATIONS[name], parameters(), parameters()
    value = torch.full(shape, 2.0**-6, dtype=dtype)
    ours, theirs = build(tensor, **{**options, what: value}), build(number, **{**options, what: 2.0**-6})
    for t, grads in enumerate(gradients(20, every=6)):
        # Groups with numbers are merged, so that the norm over all tensors is added in another order.
        assert_same(trace(ours, tensor, [grads]), trace(theirs, number, [grads]), 1e-14)
        for group in theirs.param_groups:
            group[what] = 2.0 ** -(t % 9)
        value.fill_(2.0 ** -(t % 9))
    assert all(group[what] is value for group in ours.param_groups)


# Complex parameters


def as_pairs(x):
    """(n, ...) complex as (n, ..., 2) real: the result of `torch.view_as_real`."""
    return torch.view_as_real(x.detach()).clone()


def as_rows(x):
    """(n, ...) complex as (2n, ...) real: real and imaginary parts of a row as separate rows."""
    return torch.cat([x.detach().real, x.detach().imag])


ROW_WISE = ("AGC", "GC", "everything but clipping", "everything")


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
    twins = [nn.Parameter(real(p)) for p in params]
    ours = trace(build(params, **CONFIGURATIONS[config]), params, script)
    theirs = one_by_one(CONFIGURATIONS[config], [[None if g is None else real(g) for g in gs] for gs in script], twins)
    shown = [[(real(p), {k: real(v) if v.is_complex() else v for k, v in s.items()}) for p, s in x] for x in ours]
    assert_same(shown, theirs, 1e-12)
