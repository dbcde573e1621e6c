"""What a step looks up: by one compiled call each if they were built, otherwise by Python, with the same result."""

from collections import defaultdict

import pytest
import torch
from torch import nn

from psilogic.tensors import memory
from psilogic.tensors.lookups import columns, have_same, moved, participants


@pytest.fixture(params=[True, False], ids=["compiled", "by Python"], autouse=True)
def asked(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(memory, "COMPILED", None)
    elif memory.COMPILED is None:
        pytest.skip("nothing here has built the extension")


def bytes_of(addresses):
    return b"".join(address.to_bytes(8, "little") for address in addresses)


def test_the_very_objects_and_no_equal_ones():
    lr = float("0.5")
    betas = (0.9, 0.99)
    groups = [{"lr": lr, "betas": betas, "other": 1}, {"lr": lr, "betas": betas, "other": 2}]
    objects = [lr, betas, lr, betas]
    assert have_same(groups, ("lr", "betas"), objects)
    assert not have_same(groups[:1], ("lr", "betas"), objects)
    assert not have_same(groups, ("lr", "betas"), objects[:2])
    groups[1]["lr"] = float("0.5")
    assert not have_same(groups, ("lr", "betas"), objects)
    with pytest.raises(KeyError, match="gone"):
        have_same(groups, ("gone", "lr"), objects)


def test_parameters_that_have_a_gradient():
    params = [nn.Parameter(torch.ones(2)) for _ in range(5)]
    for p in params[1:4]:
        p.grad = torch.ones(2)
    found = participants([{"params": params[:2]}, {"params": []}, {"params": params[2:]}])
    assert [id(p) for p in found.params] == [id(p) for p in params[1:4]]
    assert [id(grad) for grad in found.grads] == [id(p.grad) for p in params[1:4]]
    assert found.counts == [1, 0, 2]
    assert found.ids == bytes_of(map(id, params[1:4]))
    assert participants([]).counts == []
    with pytest.raises((TypeError, AttributeError)):
        participants([{"params": ["no tensor"]}])


def test_columns_of_parameters_gradients_and_states():
    params = [nn.Parameter(torch.ones(2)) for _ in range(2)]
    grads = [torch.ones(2), torch.ones(2)]
    every_state = defaultdict(dict)
    for p in params:
        every_state[p].update(a=torch.zeros(2), b=torch.zeros(()), c=torch.zeros(1))
    states, every = columns(params, grads, every_state, ("b", "a"))
    assert all(state is every_state[p] for state, p in zip(states, params, strict=True))
    expected = [*params, *grads]
    for name in ("b", "a"):
        expected += [every_state[p][name] for p in params]
    assert [id(x) for x in every] == [id(x) for x in expected]
    with pytest.raises(KeyError, match="gone"):
        columns(params, grads, every_state, ("a", "gone"))
    without = {params[0]: every_state[params[0]]}
    with pytest.raises(KeyError):
        columns(params, grads, without, ("a",))


def test_which_tensors_have_moved():
    tensors = [torch.zeros(3) for _ in range(5)]
    kept = list(tensors)  # so that no new tensor is where an old one was
    before = bytearray(bytes_of(x.data_ptr() for x in tensors))
    unchanged = bytes(before)
    assert moved(tensors, before, 1, 3) is None
    tensors[2] = torch.zeros(3)
    expected = bytes_of([tensors[1].data_ptr(), tensors[2].data_ptr()])
    assert moved(tensors, before, 1, 3) == expected
    assert before == unchanged[:8] + expected + unchanged[24:]
    assert moved(tensors, before, 1, 3) is None
    for other in (0, 3, 4):
        elsewhere = list(tensors)
        elsewhere[other] = torch.zeros(3)
        assert moved(elsewhere, bytearray(before), 1, 3) == b""
    assert len(kept) == 5
