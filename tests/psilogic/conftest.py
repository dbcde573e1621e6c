"""The pool of processes, started by the first test that uses it; and one thread for each worker that runs tests."""

import pytest
import torch
from processes import Processes

from psilogic.updates import native

torch.set_num_threads(1)  # as many workers as cores: with more threads they wait for each other


@pytest.fixture(scope="session")
def processes():
    pool = Processes()
    yield pool
    pool.close()


@pytest.fixture
def torch_kernels(monkeypatch):
    """An installation without kernels of its own: torch's fused one does the work on a CPU."""
    monkeypatch.setattr(native, "kernels", None)


@pytest.fixture(params=["native", "fused"])
def execution(request):
    """Each execution that a CPU has besides foreach, with and without kernels of our own."""
    if request.param == "fused":
        request.getfixturevalue("torch_kernels")
    return request.param
