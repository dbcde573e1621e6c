"""The cached selection is valid until metadata changes: no change between steps is missed."""

import weakref

import pytest
import torch
from configurations import ACTIVE
from torch import nn
from trajectories import gradients, set_gradients

from psilogic import PsiLogic
from psilogic.backends.select import select
from psilogic.tensors import memory
from psilogic.tensors.collect import collect
from psilogic.tensors.memory import MetadataCache

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


def twice_as_long(x):
    return torch.cat([x, x])


def as_subclass(x):
    return x.as_subclass(Subclass)


CHANGES = {
    "dtype": torch.Tensor.double,
    "strides": transposed,  # if they differ from those of the other tensors
    "gaps": with_gaps,
    "shape": twice_as_long,
    "a negation to come": torch._neg_view,
    "class": as_subclass,
    "layout": torch.Tensor.to_sparse_csr,
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
        set_gradients(params, [torch.ones(SHAPE) if g is None else g for g in grads])
        optimizer.step()
    assert optimizer.executed == {"native": 3}
    return optimizer, params


def pick(optimizer):
    """How many tensors each execution would update in the next step."""
    buckets = collect(optimizer, optimizer._sharding, optimizer._caches)
    works = select(buckets, optimizer.state, scaled=False, observed=False)
    return {work.backend.name: len(work.states) for work in works}


def assert_native_from_now_on(optimizer):
    """Also when the selection is asked for again, which may read a cache."""
    for _ in range(3):
        assert pick(optimizer) == {"native": 3}


def test_this_version_of_torch_has_guards():
    assert memory.TensorGuards is not None


@pytest.mark.usefixtures("compiled_kernels")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("name", ["exp_avg", "exp_avg_sq"])
def test_moments_that_changed_between_steps_are_noticed(with_guard, name, change):
    optimizer, params = several_steps()
    state = optimizer.state[params[1]]
    before = state[name]
    state[name] = change(before)
    assert pick(optimizer) == {"native": 2, "foreach": 1}
    state[name] = before
    assert_native_from_now_on(optimizer)


@pytest.mark.usefixtures("compiled_kernels")
@pytest.mark.parametrize("change", [transposed, with_gaps, torch._neg_view])
def test_parameters_and_gradients_that_changed_between_steps_are_noticed(with_guard, change):
    optimizer, params = several_steps()
    p = params[1]
    values = p.detach()
    grad = p.grad
    p.grad = change(grad)
    assert pick(optimizer) == {"native": 2, "foreach": 1}
    p.grad = grad
    p.data = change(values)
    assert pick(optimizer) == {"native": 2, "foreach": 1}
    p.data = values
    assert_native_from_now_on(optimizer)


@pytest.mark.usefixtures("compiled_kernels")
def test_parameters_that_share_memory_after_some_steps(with_guard):
    optimizer, params = several_steps()
    params[1].data = params[0].data
    assert pick(optimizer) == {"native": 1, "fused": 2}


def test_a_result_is_computed_again_only_after_a_change():
    cache = MetadataCache()
    x = torch.ones(2, 3)
    y = torch.zeros(2, 3)

    def is_computed(key, *tensors, result="native"):
        """Whether the cache computes the result when it is asked for it."""
        computed = []

        def compute():
            computed.append(key)
            return result

        assert cache.get(key, list(tensors), compute) == result
        return bool(computed)

    assert is_computed(1, x)
    assert is_computed(1, x)  # there is no guard at first
    assert not is_computed(1, x)
    assert not is_computed(1, y)

    assert is_computed(2, x)
    assert is_computed(2, x)
    assert not is_computed(2, x)
    assert is_computed(2, x.double())
    assert not is_computed(2, x.double())
    assert is_computed(2, x)

    for _ in range(3):
        assert is_computed(3, x, result=None)

    assert is_computed(4, x, y)
    assert is_computed(4, x, y)
    assert not is_computed(4, x, y)
    assert is_computed(4, x, y.t())


@pytest.mark.usefixtures("compiled_kernels")
def test_the_cache_keeps_no_tensor_alive():
    optimizer, params = several_steps()
    old = weakref.ref(params[0].grad)
    params[0].grad = None
    assert old() is None
    assert optimizer.executed == {"native": 3}  # its cache was used, and still exists
