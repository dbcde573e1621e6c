"""Steps without values: in FakeTensorMode, under torch's memory tracker, recorded by make_fx; and lazy modules."""

from itertools import product

import pytest
import torch
from configurations import CONFIGURATIONS, TOGETHER, represented
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.fx.experimental.proxy_tensor import make_fx

from psilogic import PsiLogic

FLAGS = [{"foreach": True}, {"foreach": False}, {"fused": True}]


def backward(model):
    model(torch.ones(2, 4)).sum().backward()


@pytest.mark.parametrize(
    ("name", "flags"), represented([*product(CONFIGURATIONS, [{}]), *product(TOGETHER, FLAGS)]), ids=str
)
def test_fake_tensors_are_stepped(name, flags):
    """Within the mode and after it, as estimations of memory do."""
    options = CONFIGURATIONS[name]
    with FakeTensorMode():
        model = nn.Linear(4, 3)
        optimizer = PsiLogic(model.parameters(), **options, **flags)
        backward(model)
        optimizer.step()
    optimizer.step()
    for state in optimizer.state.values():
        for value in state.values():
            assert type(value) is FakeTensor


def test_a_real_step_follows_a_simulated_one():
    def two_steps(between):
        torch.manual_seed(0)
        model = nn.Linear(4, 3)
        optimizer = PsiLogic(model.parameters(), max_grad_norm=1.0)
        backward(model)
        optimizer.step()
        between()
        optimizer.step()
        return list(model.parameters())

    def nothing():
        pass

    def simulate():
        with FakeTensorMode():
            other = nn.Linear(4, 3)
            backward(other)
            PsiLogic(other.parameters()).step()

    assert all(map(torch.equal, two_steps(simulate), two_steps(nothing)))


def test_the_memory_tracker_counts_a_step():
    with FakeTensorMode():
        model = nn.Linear(4, 3)
        optimizer = PsiLogic(model.parameters())
        tracker = MemTracker()
        tracker.track_external(model, optimizer)
        with tracker:
            backward(model)
            optimizer.step()
    assert tracker.get_tracker_snapshot("peak")


@pytest.mark.parametrize("flags", [{}, *FLAGS], ids=str)
def test_a_step_is_recorded(flags):
    """The recorded operations are those of a step; AdamW reads a number, which is an error there."""

    def started():
        torch.manual_seed(0)
        model = nn.Linear(4, 3)
        optimizer = PsiLogic(model.parameters(), chaos_warmup=0, **flags)
        backward(model)
        optimizer.step()
        return model, optimizer

    model, optimizer = started()
    other, reference = started()

    def step(x):
        for p in model.parameters():
            p.grad = torch.ones_like(p) * x
        optimizer.step()
        return [p.detach().clone() for p in model.parameters()]

    graph = make_fx(step, _allow_non_fake_inputs=True)(torch.tensor(2.0))
    assert any("addcdiv" in str(node.target) for node in graph.graph.nodes)
    for p in other.parameters():
        p.grad = torch.full_like(p, 2.0)
    reference.step()
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q)


def test_lazy_modules_are_given_before_they_have_shapes():
    model = nn.Sequential(nn.LazyLinear(4), nn.LazyLinear(2))
    optimizer = PsiLogic([{"params": [p]} for p in model.parameters()])
    assert "1 tensor, some without a shape yet" in repr(optimizer)
    model[0](torch.ones(2, 5)).sum().backward()
    optimizer.step()  # the second module still has no shapes
    model(torch.ones(2, 5)).sum().backward()
    optimizer.step()
    assert [int(optimizer.state[p]["step"]) for p in model.parameters()] == [2, 2, 1, 1]
