"""One thread for each worker that runs tests; an installation without compiled kernels; tests for a GPU."""

from importlib import import_module
from importlib.util import find_spec

import pytest
import torch

from psilogic.backends.cpu import kernels

torch.set_num_threads(1)  # as many workers as cores: more threads would compete


def pytest_collection_modifyitems(items):
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU; there, make gpu-test runs it"))


def pytest_report_header():
    """GPUs and versions, for results from other machines."""
    if not torch.cuda.is_available():
        return None
    gpus = []
    for i in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(i)
        gpus.append(f"{gpu.name} (sm_{gpu.major}{gpu.minor}, {gpu.total_memory >> 30} GB)")
    triton = import_module("triton").__version__ if find_spec("triton") else "none"
    return f"GPUs: {', '.join(gpus)}; torch {torch.__version__}, CUDA {torch.version.cuda}, triton {triton}"


@pytest.fixture
def torch_kernels(monkeypatch):
    """An installation without compiled kernels: torch's fused one does the work on a CPU."""
    monkeypatch.setattr(kernels, "kernels", None)


@pytest.fixture
def compiled_kernels():
    """An installation with compiled kernels."""
    if kernels.kernels is None:
        pytest.skip("nothing here has built the kernels")


@pytest.fixture(params=["native", "fused"])
def execution(request):
    """Each execution that a CPU has besides foreach, with and without compiled kernels."""
    installation = "torch_kernels" if request.param == "fused" else "compiled_kernels"
    request.getfixturevalue(installation)
    return request.param


@pytest.fixture
def threads():
    """Sets the number of torch's threads, for this test."""
    yield torch.set_num_threads
    torch.set_num_threads(1)
