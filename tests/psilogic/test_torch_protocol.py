"""All executions take the same steps, for every configuration; autograd can record them."""

from itertools import product

import pytest
import torch
from configurations import (
    CONFIGURATIONS,
    STEPS,
    TOGETHER,
    TensorSnapshot,
    assert_same,
    build,
    chosen,
    one_by_one,
    represented,
    trace,
    truth,
)
from torch import nn
from trajectories import SHAPES, changed, gradients, parameters, set_gradients

# `test_execution_flags` compares every configuration with the steps that these run, one tensor at a time.
REPRESENTED = pytest.mark.parametrize("name", chosen())
NON_LEAF_GRADIENTS = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        *represented(product(CONFIGURATIONS, [{"fused": False}])),
        *product(TOGETHER, [{"fused": False, "capturable": True}]),
    ],
    ids=str,
)
def test_execution_flags(name, flags):
    """Torch's own optimizers refuse `capturable` on the CPU; PsiLogic takes the same steps as without."""
    options = CONFIGURATIONS[name]
    params = parameters()
    optimizer = build(params, **flags, **options)
    actual = trace(optimizer, params, gradients(STEPS, every=15))
    assert_same(actual, truth(options, every=15))


def test_the_configurations_differ():
    """Otherwise the comparisons in this file would prove nothing."""
    ends = {}
    for name, options in CONFIGURATIONS.items():
        last = truth(options, every=15)[-1]
        end = torch.cat([snapshot.param.flatten() for snapshot in last])
        for other, its_end in ends.items():
            assert not torch.equal(end, its_end), (name, other)
        ends[name] = end


@NON_LEAF_GRADIENTS
@REPRESENTED
def test_differentiable_takes_the_same_steps(name):
    options = CONFIGURATIONS[name]
    params = [p.clone() for p in parameters()]
    optimizer = build(params, differentiable=True, **options)
    ours = trace(optimizer, params, gradients(STEPS, every=15))
    assert_same(ours, truth(options, every=15), 1e-12)


@NON_LEAF_GRADIENTS
@REPRESENTED
def test_autograd_runs_through_two_steps(name):
    """Derivatives with respect to lr, parameters and gradients agree with finite differences."""
    shapes = [(3, 2), (4,)]
    options = {**CONFIGURATIONS[name], "chaos_warmup": 0, "tau_scale": 1.1}  # the gate is open, far from its threshold

    def two_steps(lr, first, second, first_grad, second_grad):
        params = [first.clone(), second.clone()]
        optimizer = build(params, differentiable=True, **{**options, "lr": lr})
        for scale in (1.0, 0.7):
            set_gradients(params, [first_grad * scale, second_grad * scale])
            optimizer.step()
        return tuple(params)

    grads = gradients(1, shapes)[0]
    for g in grads:
        g.requires_grad_()
    lr = torch.tensor(0.02, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(two_steps, (lr, *parameters(shapes), *grads))


@REPRESENTED
@pytest.mark.parametrize(("shape", "dtype"), [((), torch.float32), ((1,), torch.float64)], ids=str)
@pytest.mark.parametrize("what", ["lr", "weight_decay"])
def test_lr_and_weight_decay_may_be_tensors_that_change_in_place(what, name, shape, dtype):
    options = CONFIGURATIONS[name]
    value = torch.full(shape, 2.0**-6, dtype=dtype)
    params = parameters()
    ours = build(params, **{**options, what: value})
    others = parameters()
    theirs = build(others, **{**options, what: 2.0**-6})
    for t, grads in enumerate(gradients(20, every=6)):
        # Groups with numbers are merged, so that the norm over all tensors is added in another order.
        assert_same(trace(ours, params, [grads]), trace(theirs, others, [grads]), 1e-14)
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


def as_real(snapshot, real):
    """A snapshot of a complex tensor as that of a real one."""
    state = {name: real(value) if value.is_complex() else value for name, value in snapshot.state.items()}
    return TensorSnapshot(real(snapshot.param), state)


ROW_WISE = ("AGC", "GC", "everything but clipping", "everything")
ELEMENT_WISE = [name for name in CONFIGURATIONS if name not in ROW_WISE]


@pytest.mark.parametrize(
    ("config", "real"),
    [*represented(product(ELEMENT_WISE, [as_pairs])), ("AGC", as_pairs), ("GC", as_rows)],
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
    options = CONFIGURATIONS[config]
    ours = trace(build(params, **options), params, script)
    theirs = one_by_one(options, changed(script, real), twins)
    ours_as_reals = [[as_real(snapshot, real) for snapshot in snapshots] for snapshots in ours]
    assert_same(ours_as_reals, theirs, 1e-12)
