"""What torch records or differentiates besides the backward pass: modes and tangents see the whole step, as AdamW's."""

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

from psilogic import PsiLogic

ADAMW = {"lr": 1e-2, "weight_decay": 1e-2}
OPTIONS = [{}, {"fused": False}, {"max_grad_norm": 1e9}, {"chaos_scope": "group"}]


def before_its_backward(kind, steps_before, **options):
    """The gradient of a loss whose weights an optimizer changes before the loss's backward pass."""
    generator = torch.Generator().manual_seed(0)
    weight = nn.Parameter(torch.randn(4, 4, generator=generator))
    inputs = torch.randn(2, 4, generator=generator, requires_grad=True)
    optimizer = kind([weight], **ADAMW, **options)
    weight.grad = torch.ones(4, 4)
    for _ in range(steps_before):
        optimizer.step()
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        loss = (inputs @ weight).sin().sum()
        optimizer.step()
        loss.backward()
    return inputs.grad


@pytest.mark.parametrize("steps_before", [0, 5])
@pytest.mark.parametrize("options", [*OPTIONS, {"fused": True}], ids=str)
def test_saved_tensors_keep_their_values(options, steps_before):
    """A mode copies a saved tensor before an operation changes it, so no change may bypass the operations."""
    expected = before_its_backward(torch.optim.AdamW, steps_before)
    torch.testing.assert_close(before_its_backward(PsiLogic, steps_before, **options), expected)


class Writes(TorchDispatchMode):
    """Notes the addresses of the tensors that operations change."""

    def __init__(self):
        super().__init__()
        self.addresses = set()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        for argument, value in zip(operation._schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                tensors = value if isinstance(value, list) else [value]
                self.addresses.update(x.data_ptr() for x in tensors)
        return operation(*args, **(kwargs or {}))


def test_a_mode_sees_what_is_written_and_later_steps_run_in_kernels_again():
    params = [nn.Parameter(torch.ones(3)) for _ in range(2)]
    for p in params:
        p.grad = torch.ones(3)
    optimizer = PsiLogic(params)
    for _ in range(4):
        optimizer.step()
    usual = dict(optimizer.executed)
    with Writes() as writes:
        optimizer.step()
    expected = {x.data_ptr() for p in params for x in (p, *optimizer.state[p].values())}
    expected -= {optimizer.state[p]["chaos_start"].data_ptr() for p in params}
    assert expected <= writes.addresses
    optimizer.step()
    assert dict(optimizer.executed) == usual
    assert optimizer.state[params[0]]["step"] == 6


def tangents(kind, **options):
    """The derivative of trained weights by a factor of their gradients, in forward mode."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(4, dtype=torch.float64, generator=generator)
    grad = torch.randn(4, dtype=torch.float64, generator=generator)
    optimizer = kind([weight], eps=1e-1, **ADAMW, **options)
    with forward_ad.dual_level():
        for t in range(1, 4):
            weight.grad = forward_ad.make_dual(grad * t, grad)
            optimizer.step()
        return forward_ad.unpack_dual(weight).tangent


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_tangents_pass_through_a_step(options):
    torch.testing.assert_close(tangents(PsiLogic, **options), tangents(torch.optim.AdamW))


def test_the_tangent_of_a_learning_rate():
    """Compared with a difference quotient."""

    def trained(lr):
        weight = torch.ones(3, dtype=torch.float64)
        optimizer = PsiLogic([weight], lr=lr, weight_decay=0.1)
        for _ in range(3):
            weight.grad = torch.arange(1.0, 4.0, dtype=torch.float64)
            optimizer.step()
        return weight

    lr = torch.tensor(0.1, dtype=torch.float64)
    with forward_ad.dual_level():
        dual = trained(forward_ad.make_dual(lr, torch.ones_like(lr)))
        tangent = forward_ad.unpack_dual(dual).tangent
    quotient = (trained(0.1 + 1e-6) - trained(0.1 - 1e-6)) / 2e-6
    torch.testing.assert_close(tangent, quotient, rtol=1e-6, atol=1e-8)
