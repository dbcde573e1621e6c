"""A driver for Triton without a GPU: kernels are compiled for an architecture, launches are recorded, not run."""

import re
import subprocess
import tempfile
from collections import defaultdict

import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from psilogic.backends.triton import launch, sum_kernels
from psilogic.backends.triton import update_kernels as kernels
from psilogic.backends.triton.decision_kernels import decide_kernel, processing_kernel

KERNELS = (
    kernels.update_kernel,
    sum_kernels.statistics_kernel,
    sum_kernels.complete_kernel,
    processing_kernel,
    decide_kernel,
    kernels.trial_kernel,
)


class Driver:
    """The interface that Triton needs of its driver, for the CUDA architecture `arch`."""

    def __init__(self, arch):
        self.target = GPUTarget("cuda", arch, 32)
        self.launches = []  # kernel name and grid
        self.utils = self

    def get_current_target(self):
        return self.target

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_device_properties(self, device):
        return {"max_shared_mem": 1 << 17}

    def load_binary(self, name, kernel, shared, device):
        return None, 1, 32, 0, 1024

    def launcher_cls(self, source, metadata):
        def launch(*args):
            self.launches.append((metadata.name, args[:2]))

        return launch

    def compiled(self):
        """Everything that was compiled."""
        found = []
        for kernel in KERNELS:
            for cache, *_ in kernel.device_caches.values():
                found += cache.values()
        return found


def install(monkeypatch, arch=90):
    """Make it Triton's driver, with empty caches of the kernels."""
    fake = Driver(arch)
    monkeypatch.setattr(driver, "_active", fake)
    monkeypatch.setattr(launch, "COMPILED", {})
    for kernel in KERNELS:
        monkeypatch.setattr(kernel, "device_caches", defaultdict(kernel.create_binder))
    return fake


def resources(compiled):
    """Registers and bytes of local memory, stack and shared memory of a compiled kernel."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {name: int(number) for name, number in re.findall(r"(REG|STACK|LOCAL|SHARED):(\d+)", text)}
