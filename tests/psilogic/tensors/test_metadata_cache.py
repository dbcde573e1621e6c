"""The cached selection is valid until metadata changes: no change between steps is missed."""

import weakref

import pytest
import torch
from configurations import ACTIVE
from torch import nn
from trajectories import gradients, set_gradients

from psilogic import PsiLogic
from psilogic.tensors import memory
from psilogic.tensors.buckets import collect
from psilogic.tensors.memory import MetadataCache
from psilogic.updates import select

SHAPE = (6, 4)


class Subclass(torch.Tensor):
    """A tensor subclass that handles operations itself."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def transposed(x):
    return x.t().contiguous().t()


def with_gaps(x):
    return torch.cat([x, x], 1)[:, : x.shape[1]]


CHANGES = {
    "dtype": torch.Tensor.double,
    "strides": transposed,  # if they differ from those of the other tensors
    "gaps": with_gaps,
    "shape": lambda x: torch.cat([x, x]),
    "a negation to come": torch._neg_view,
    "class": lambda x: x.as_subclass(Subclass),
    "layout": lambda x: x.to_sparse_csr(),
}


@pytest.fixture(params=[True, False], ids=["with guards", "without guards"])
def with_guard(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(memory, "TensorGuards", None)
    return request.param


def several_steps(count=4):
    params = [nn.Parameter(torch.ones(SHAPE)) for _ in range(3)]
    optimizer = PsiLogic(params, **ACTIVE)
    for grads in gradients(count, [SHAPE] * 3, torch.float32):
        set_gradients(params, [g if g is not None else torch.ones(SHAPE) for g in grads])
        optimizer.step()
    assert optimizer.executed == {"native": 3}
    return optimizer, params


def pick(optimizer):
    """The execution that would update the tensors in the next step."""
    ((work,), _) = select(
        collect(optimizer, optimizer._sharding, optimizer._caches), optimizer.state, scaled=False, observed=False
    )
    return work.execution.name


def test_this_version_of_torch_has_guards():
    assert memory.TensorGuards is not None


@pytest.mark.usefixtures("compiled_kernels")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("name", ["exp_avg", "exp_avg_sq"])
def test_moments_that_changed_between_steps_are_noticed(with_guard, name, change):
    optimizer, params = several_steps()
    state = optimizer.state[params[1]]
    before, state[name] = state[name], change(state[name])
    assert pick(optimizer) == "foreach"
    state[name] = before
    assert [pick(optimizer) for _ in range(3)] == ["native"] * 3


@pytest.mark.usefixtures("compiled_kernels")
@pytest.mark.parametrize("change", [transposed, with_gaps, torch._neg_view])
def test_parameters_and_gradients_that_changed_between_steps_are_noticed(with_guard, change):
    optimizer, params = several_steps()
    p, g = params[1].detach(), params[1].grad
    params[1].grad = change(g)
    assert pick(optimizer) == "foreach"
    params[1].grad, params[1].data = g, change(p)
    assert pick(optimizer) == "foreach"
    params[1].data = p
    assert [pick(optimizer) for _ in range(3)] == ["native"] * 3


@pytest.mark.usefixtures("compiled_kernels")
def test_parameters_that_share_memory_after_some_steps(with_guard):
    optimizer, params = several_steps()
    params[1].data = params[0].data
    assert pick(optimizer) == "fused"


def test_a_result_is_computed_again_only_after_a_change():
    asked, kept = [], MetadataCache()

    def get(key, *tensors, found="native"):
        before = len(asked)
        result = kept.get(key, list(tensors), lambda: asked.append(key) or found)
        assert result == found
        return len(asked) > before

    x, y = torch.ones(2, 3), torch.zeros(2, 3)
    assert [get(1, x), get(1, x), get(1, x), get(1, y)] == [True, True, False, False]  # no guard at first
    assert [get(2, x), get(2, x), get(2, x)] == [True, True, False]
    assert [get(2, x.double()), get(2, x.double()), get(2, x)] == [True, False, True]
    assert [get(3, x, found=None) for _ in range(3)] == [True] * 3
    assert [get(4, x, y), get(4, x, y), get(4, x, y), get(4, x, y.t())] == [True, True, False, True]


@pytest.mark.usefixtures("compiled_kernels")
def test_the_cache_keeps_no_tensor_alive():
    optimizer, params = several_steps()
    old = weakref.ref(params[0].grad)
    params[0].grad = None
    assert optimizer._caches[0].metadata._guard is not None
    assert old() is None
