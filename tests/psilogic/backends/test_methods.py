"""The update by the tensors' own methods: of classes that change these, and inside torch.func."""

import pytest
import torch
from configurations import ACTIVE, CONFIGURATIONS, TOGETHER, assert_same, build, chosen, trace, truth
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor
from trajectories import gradients, parameters, set_gradients

from psilogic import PsiLogic
from psilogic.backends import by_methods


class Bounded(nn.Parameter):
    """A parameter whose update leaves its elements within a bound."""

    def addcdiv_(self, *arguments, **options):
        super().addcdiv_(*arguments, **options)
        with torch.no_grad():
            return self.clamp_(-1.0, 1.0)


@pytest.mark.parametrize(
    "flags", [{}, {"fused": False}, {"foreach": False, "fused": False}, {"max_grad_norm": 1.0}], ids=str
)
def test_a_class_is_updated_by_its_methods(flags):
    bounded = Bounded(torch.ones(3))
    usual = nn.Parameter(torch.ones(3))
    optimizer = PsiLogic([bounded, usual], lr=0.1, **flags)
    for _ in range(3):
        set_gradients([bounded, usual], [-torch.ones(3), -torch.ones(3)])
        optimizer.step()
    assert optimizer.executed["methods"] == 1
    assert bounded.max() <= 1.0
    assert usual.min() > 1.1


@pytest.mark.parametrize("flags", [{}, {"fused": False}, {"foreach": True}], ids=str)
def test_a_class_with_its_own_dispatch_leaves_its_neighbors_alone(flags):
    """Such a class may take a list of tensors for one of its own, and repeat the operation for each part."""
    results = []
    for kind, options in ((torch.optim.AdamW, {}), (PsiLogic, flags)):
        pair = nn.Parameter(TwoTensor(torch.ones(3, 2), torch.ones(3, 2)))
        usual = nn.Parameter(torch.ones(3))
        optimizer = kind([pair, usual], lr=0.1, weight_decay=0.1, **options)
        for t in range(3):
            grads = [TwoTensor(torch.full((3, 2), 1.0 + t), torch.full((3, 2), 2.0 - t)), torch.ones(3)]
            set_gradients([pair, usual], grads)
            optimizer.step()
        results.append([pair.a, pair.b, usual.detach()])
    torch.testing.assert_close(results[1], results[0])


def test_a_lazily_negated_parameter_is_updated():
    """An imaginary part of a conjugate, next to a usual parameter."""
    results = []
    for kind in (torch.optim.AdamW, PsiLogic):
        whole = torch.arange(6, dtype=torch.float32).view(3, 2)
        negated = nn.Parameter(torch.view_as_complex(whole).conj().imag)
        usual = nn.Parameter(torch.ones(3))
        optimizer = kind([negated, usual], lr=0.1, weight_decay=0.1)
        for _ in range(3):
            set_gradients([negated, usual], [torch.ones(3), -torch.ones(3)])
            optimizer.step()
        results.append([whole, usual.detach()])
    torch.testing.assert_close(results[1], results[0])


def test_an_option_that_needs_other_methods_names_the_class():
    p = Bounded(torch.ones(3, dtype=torch.bfloat16))
    p.grad = torch.ones_like(p)
    optimizer = PsiLogic([p], bf16_update="kahan")
    with pytest.raises(RuntimeError, match=r"without the methods of this class: .*nearest"):
        optimizer.step()
    assert torch.equal(p.detach().float(), torch.ones(3))


@pytest.mark.parametrize("name", chosen())
def test_methods_take_the_same_steps(monkeypatch, name):
    monkeypatch.setattr(by_methods, "has_own_methods", lambda kind: True)
    monkeypatch.setattr("psilogic.backends.select.has_own_methods", lambda kind: True)
    options = CONFIGURATIONS[name]
    params = parameters()
    optimizer = build(params, **options)
    assert_same(trace(optimizer, params, gradients(20, every=6)), truth(options, 20, every=6), 1e-12)
    assert set(optimizer.executed) == {"methods"}


def trained(kind, weight, grad, **options):
    """A weight after some steps."""
    optimizer = kind([weight], lr=1e-2, weight_decay=1e-2, **options)
    for _ in range(3):
        weight.grad = grad
        optimizer.step()
    return weight


def scaled(train):
    """A function that trains ones, and multiplies the weight by its argument."""
    return lambda x: train(torch.ones(3), torch.ones(3)) * x


def in_grad(train):
    return torch.func.grad(lambda x: scaled(train)(x).sum())(torch.ones(3))


def in_jacrev(train):
    return torch.func.jacrev(scaled(train))(torch.ones(3))


def in_jvp(train):
    _, tangent = torch.func.jvp(scaled(train), (torch.ones(3),), (torch.ones(3),))
    return tangent


def in_vmap(train):
    grads = torch.tensor([[1.0, 2, 3], [-1.0, 0, 5]])
    return torch.vmap(train)(torch.ones(2, 3), grads)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("transformed", [in_grad, in_jacrev, in_jvp, in_vmap])
def test_a_step_inside_a_transformed_function_is_that_of_adamw(transformed):
    ours = transformed(lambda weight, grad: trained(PsiLogic, weight, grad, gamma=0.0))
    theirs = transformed(lambda weight, grad: trained(torch.optim.AdamW, weight, grad))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TOGETHER)
def test_each_member_of_an_ensemble_decides_for_itself(name):
    options = {**ACTIVE, **CONFIGURATIONS[name], "lr": 1e-2, "weight_decay": 1e-2}
    weights = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0))
    grads = torch.tensor([1.0, 100.0, 0.01]).view(3, 1, 1) * torch.ones(3, 4, 2)

    def train(weight, grad):
        optimizer = PsiLogic([weight], **options)
        for _ in range(3):
            weight.grad = grad
            optimizer.step()
        return weight

    together = torch.vmap(train)(weights.clone(), grads)
    for weight, grad, of_member in zip(weights, grads, together, strict=True):
        torch.testing.assert_close(of_member, train(weight.clone(), grad))
