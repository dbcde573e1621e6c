"""Compiled kernels take tensors in any order of memory: the result is that of contiguous tensors, bit for bit."""

import pytest
import torch
from configurations import CONFIGURATIONS, build
from torch import nn

from psilogic import PsiLogic

pytestmark = pytest.mark.usefixtures("compiled_kernels")
SHAPES = [(6, 4, 3, 3), (5, 7, 2, 2), (9,)]
STEPS = 8
SPIKE = 3
"""The step with much larger gradients."""


def contiguous(x):
    return x.clone()


def transposed(x):
    return x.transpose(0, -1).contiguous().transpose(0, -1)


def channels_last(x):
    if x.ndim != 4:
        return x.clone()
    return x.to(memory_format=torch.channels_last)


def with_gaps(x):
    wide = x.new_full((*x.shape[:-1], 2 * x.shape[-1]), 7.0)
    part = wide[..., : x.shape[-1]]
    part.copy_(x)
    return part


def expanded(x):
    """A tensor of the same shape with equal elements, which are one in memory, as in the gradient of a sum."""
    return x.flatten()[0].expand(x.shape)


def trained(of_param, of_grad, options, dtype, convert=contiguous, has_equal_grads=False):
    """The parameters after some steps, in the middle of which `convert` gives them another order."""
    generator = torch.Generator().manual_seed(0)
    params = []
    for shape in SHAPES:
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        params.append(nn.Parameter(of_param(values.to(dtype))))
    optimizer = build(params, **options)
    for t in range(STEPS):
        if t == STEPS // 2 and convert is not contiguous:
            for p in params:
                p.data = convert(p.data)
        for p in params:
            size = 100.0 if t == SPIKE else 1.0
            grad = torch.randn(p.shape, generator=generator, dtype=torch.float64) * size
            if has_equal_grads:
                grad = expanded(grad).contiguous()
            p.grad = of_grad(grad.to(dtype))
        optimizer.step()
        assert set(optimizer.executed) == {"native"}
    return [p.detach().clone(memory_format=torch.contiguous_format) for p in params]


LAYOUTS = [
    (transposed, transposed),
    (contiguous, transposed),
    (contiguous, with_gaps),
    (channels_last, contiguous),
    (with_gaps, contiguous),
    (with_gaps, with_gaps),
    (with_gaps, transposed),
]


@pytest.mark.parametrize(("of_param", "of_grad"), LAYOUTS)
@pytest.mark.parametrize("name", ["defaults", "AGC", "everything"])
def test_any_order_gives_the_numbers_of_contiguous_tensors(name, of_param, of_grad):
    options = CONFIGURATIONS[name]
    expected = trained(contiguous, contiguous, options, torch.float64)
    actual = trained(of_param, of_grad, options, torch.float64)
    torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("of_param", "of_grad"), [(with_gaps, contiguous), (contiguous, transposed)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_bit_differs_where_the_kernels_order_is_the_same(dtype, of_param, of_grad):
    options = CONFIGURATIONS["everything"]
    expected = trained(contiguous, contiguous, options, dtype)
    actual = trained(of_param, of_grad, options, dtype)
    assert all(map(torch.equal, actual, expected))


def test_the_gradient_of_a_sum():
    expected = trained(contiguous, contiguous, {}, torch.float32, has_equal_grads=True)
    actual = trained(contiguous, expanded, {}, torch.float32, has_equal_grads=True)
    assert all(map(torch.equal, actual, expected))


@pytest.mark.parametrize("convert", [channels_last, with_gaps])
@pytest.mark.parametrize("rounding", ["nearest", "kahan"])
def test_parameters_that_change_their_order_while_the_state_does_not(rounding, convert):
    """Moments and errors of rounding stay as they were when the training began."""
    options = {"bf16_update": rounding, "lr": 0.01}
    expected = trained(contiguous, contiguous, options, torch.bfloat16)
    actual = trained(contiguous, contiguous, options, torch.bfloat16, convert)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_a_parameter_whose_elements_share_memory_is_not_changed():
    p = nn.Parameter(torch.ones(1).expand(4))
    p.grad = torch.ones(4)
    optimizer = PsiLogic([p])
    with pytest.raises(RuntimeError, match="single memory location"):
        optimizer.step()
    assert p.tolist() == [1.0] * 4
