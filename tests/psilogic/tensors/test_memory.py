"""Addresses of tensors: by one call if that was compiled, otherwise one by one, with the same result."""

import pytest
import torch
from torch import nn

from psilogic.tensors import memory
from psilogic.tensors.memory import addresses, flat, places


@pytest.fixture(params=[True, False], ids=["in one call", "one by one"])
def asked(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(memory, "ALL_AT_ONCE", None)
    elif memory.ALL_AT_ONCE is None:
        pytest.skip("nothing here has built the extension")


def test_addresses(asked):
    x = torch.zeros(7, dtype=torch.float64)
    tensors = [x, nn.Parameter(x)[3:], x[:0], torch.zeros(2, device="meta"), nn.Linear(2, 3).weight, torch.tensor(1.0)]
    expected = [t.data_ptr() for t in tensors]
    assert list(addresses(tensors)) == expected
    of_both = addresses([{"a": t, "b": x} for t in tensors], ("a", "b"))
    assert list(of_both) == expected + [x.data_ptr()] * len(tensors)
    assert places([x, torch.zeros(0)]) == [x.data_ptr()]
    assert list(addresses([])) == []


def test_what_has_no_address_is_refused(asked):
    x = torch.zeros(2)
    with pytest.raises(KeyError, match="b"):
        addresses([{"a": x, "b": x}, {"a": x}], ("b",))
    with pytest.raises((TypeError, AttributeError)):
        addresses([x, "no tensor"])


@pytest.mark.parametrize("make", [torch.t, lambda x: x[:, ::2], lambda x: x[:, :1], lambda x: x])
def test_elements_one_after_the_other(make):
    x = make(torch.arange(12.0).view(3, 4))
    assert flat(x).is_contiguous()
    assert sorted(flat(x).tolist()) == sorted(x.flatten().tolist())
