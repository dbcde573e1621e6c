"""One thread for each worker that runs tests; an installation without kernels of our own."""

import pytest
import torch

from psilogic.updates.native import kernels

torch.set_num_threads(1)  # as many workers as cores: with more threads they wait for each other


@pytest.fixture
def torch_kernels(monkeypatch):
    """An installation without kernels of its own: torch's fused one does the work on a CPU."""
    monkeypatch.setattr(kernels, "kernels", None)


@pytest.fixture(params=["native", "fused"])
def execution(request):
    """Each execution that a CPU has besides foreach, with and without kernels of our own."""
    if request.param == "fused":
        request.getfixturevalue("torch_kernels")
    return request.param
