"""Addresses of tensors: by one call if that was compiled, otherwise one by one, with the same result."""

import pytest
import torch
from torch import nn

from psilogic.tensors import memory
from psilogic.tensors.memory import addresses, flat, used_addresses


@pytest.fixture(params=[True, False], ids=["in one call", "one by one"])
def asked(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(memory, "COMPILED", None)
    elif memory.COMPILED is None:
        pytest.skip("nothing here has built the extension")


def test_addresses(asked):
    x = torch.zeros(7, dtype=torch.float64)
    tensors = [
        x,
        nn.Parameter(x)[3:],
        x[:0],
        torch.zeros(2, device="meta"),
        nn.Linear(2, 3).weight,
        torch.tensor(1.0),
    ]
    expected = [tensor.data_ptr() for tensor in tensors]
    assert list(addresses(tensors)) == expected
    states = [{"a": tensor, "b": x} for tensor in tensors]
    assert list(addresses(states, ("a",))) == expected
    assert list(addresses(states, ("a", "b"))) == expected + [x.data_ptr()] * len(tensors)
    assert used_addresses([x, torch.zeros(0)]) == [x.data_ptr()]
    assert list(addresses([])) == []


def test_what_has_no_address_is_refused(asked):
    x = torch.zeros(2)
    with pytest.raises(KeyError, match="b"):
        addresses([{"a": x, "b": x}, {"a": x}], ("b",))
    with pytest.raises((TypeError, AttributeError)):
        addresses([x, "no tensor"])


MATRIX = torch.arange(12.0).view(3, 4)
VIEWS = {
    "transposed": MATRIX.t(),
    "every other column": MATRIX[:, ::2],
    "a column": MATRIX[:, :1],
    "itself": MATRIX,
}


@pytest.mark.parametrize("x", VIEWS.values(), ids=VIEWS)
def test_elements_one_after_the_other(x):
    assert flat(x).is_contiguous()
    assert sorted(flat(x).tolist()) == sorted(x.flatten().tolist())
