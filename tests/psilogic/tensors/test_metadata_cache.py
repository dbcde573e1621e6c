"""The cached selection is valid until metadata changes: no change between steps is missed."""

import weakref
from collections import Counter

import pytest
import torch
from configurations import ACTIVE
from torch import nn
from trajectories import gradients, set_gradients

from psilogic import PsiLogic
from psilogic.backends import select as selection
from psilogic.backends.select import select
from psilogic.tensors import memory
from psilogic.tensors.collect import collect
from psilogic.tensors.memory import MetadataCache
from psilogic.tensors.sharding import Sharding

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


ORDERS = {"strides": transposed, "gaps": with_gaps}
"""Other orders of memory than that of the other tensors of a parameter. The compiled kernels take all of them."""
CHANGES = {
    **ORDERS,
    "dtype": torch.Tensor.double,
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


class Training:
    """An optimizer after some steps, and which executions update its tensors, selected with caches as it has them."""

    def __init__(self, execution, count=4, **options):
        self.execution = execution
        self.params = [nn.Parameter(torch.ones(SHAPE)) for _ in range(3)]
        self.optimizer = PsiLogic(self.params, **ACTIVE, **options)
        self.caches = {}
        for grads in gradients(count, [SHAPE] * 3, torch.float32):
            set_gradients(self.params, [torch.ones(SHAPE) if g is None else g for g in grads])
            self.pick()
            self.optimizer.step()
        assert self.optimizer.executed == {execution: 3}

    @torch.no_grad()  # as in a step: no cache is read where autograd traces it
    def pick(self):
        """How many tensors each execution would update in the next step."""
        buckets = collect(self.optimizer, Sharding(), self.caches)
        works = select(buckets, self.optimizer.state, scaled=False, observed=False)
        counts = Counter()
        for work in works:
            counts[work.backend.name] += len(work.states)
        return counts

    def assert_same_from_now_on(self):
        """The execution of the steps before, also when the selection is asked for again, which may read a cache."""
        for _ in range(3):
            assert self.pick() == {self.execution: 3}

    def tensors(self):
        """Parameters and moments."""
        every = [p.detach() for p in self.params]
        for p in self.params:
            state = self.optimizer.state[p]
            every += [state["exp_avg"], state["exp_avg_sq"]]
        return every


def picked(execution, change, other="foreach"):
    """What updates three tensors, one of which has changed: the compiled kernels still take another order."""
    if execution == "native" and change in ORDERS.values():
        return {"native": 3}
    return {execution: 2, other: 1}


def test_this_version_of_torch_has_guards():
    assert memory.TensorGuards is not None


@pytest.mark.usefixtures("with_guard")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("name", ["exp_avg", "exp_avg_sq"])
def test_moments_that_changed_between_steps_are_noticed(execution, name, change):
    training = Training(execution)
    state = training.optimizer.state[training.params[1]]
    before = state[name]
    state[name] = change(before)
    if state[name].dtype == before.dtype and state[name].shape == before.shape:
        assert training.pick() == picked(execution, change)
    else:
        with pytest.raises(RuntimeError, match=f"^{name} (is|has the size) .*, its parameter"):
            training.pick()
    state[name] = before
    training.assert_same_from_now_on()


@pytest.mark.usefixtures("with_guard")
@pytest.mark.parametrize(
    ("change", "backend"), [(transposed, "foreach"), (with_gaps, "foreach"), (torch._neg_view, "methods")]
)
def test_parameters_and_gradients_that_changed_between_steps_are_noticed(execution, change, backend):
    training = Training(execution)
    p = training.params[1]
    values = p.detach()
    grad = p.grad
    p.grad = change(grad)
    assert training.pick() == picked(execution, change)
    p.grad = grad
    p.data = change(values)
    assert training.pick() == picked(execution, change, backend)
    p.data = values
    training.assert_same_from_now_on()


def change_gradient(training, change):
    p = training.params[1]
    p.grad = change(p.grad)


def change_parameter(training, change):
    p = training.params[1]
    p.data = change(p.detach())


def change_moment(training, change):
    state = training.optimizer.state[training.params[1]]
    state["exp_avg"] = change(state["exp_avg"])


@pytest.mark.usefixtures("with_guard")
@pytest.mark.parametrize("change_tensor", [change_gradient, change_parameter, change_moment])
@pytest.mark.parametrize("change", ORDERS.values(), ids=ORDERS)
def test_steps_after_a_change_of_order_have_the_numbers_of_foreach(execution, change_tensor, change):
    training = Training(execution)
    expected = Training("foreach", fused=False)
    for p, twin in zip(training.params, expected.params, strict=True):
        p.grad = torch.arange(24.0).view(SHAPE) - 5
        twin.grad = p.grad
    for of_step in (change, torch.Tensor.contiguous):
        change_tensor(training, of_step)
        for _ in range(2):
            training.optimizer.step()
            expected.optimizer.step()
            torch.testing.assert_close(training.tensors(), expected.tensors())


@pytest.mark.usefixtures("compiled_kernels", "with_guard")
def test_parameters_that_share_memory_after_some_steps():
    training = Training("native")
    first, second, _ = training.params
    second.data = first.data
    assert training.pick() == {"native": 3}


def test_foreach_is_selected_once_for_the_same_tensors(monkeypatch):
    params = [nn.Parameter(torch.ones(SHAPE)) for _ in range(2)]
    optimizer = PsiLogic(params, fused=False)
    selected = []
    parts = selection._parts

    def counted(*arguments):
        selected.append(arguments)
        return parts(*arguments)

    monkeypatch.setattr(selection, "_parts", counted)
    for _ in range(5):
        for p in params:
            p.grad = torch.ones(SHAPE)
        optimizer.step()
    assert len(selected) == 2  # a guard is made when the same tensors come again
    params[0].grad = transposed(torch.ones(SHAPE))
    optimizer.step()
    assert len(selected) == 3


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
    training = Training("native")
    first = training.params[0]
    old = weakref.ref(first.grad)
    first.grad = None
    assert old() is None
    assert training.optimizer.executed == {"native": 3}  # its cache was used, and still exists
