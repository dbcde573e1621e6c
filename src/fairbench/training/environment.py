"""The environment of a trial: versions, device, git revision, memory."""

import platform
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path

import torch

from fairbench.common.errors import OutOfMemory, UsageError
from fairbench.common.formatting import some
from fairbench.common.git_revision import CHANGES, revision_of
from fairbench.common.installation import DISTRIBUTION, PACKAGES
from fairbench.study.environments import CHANGED_FILES

DISTRIBUTIONS = ("torch", "pytorch-optimizer", "scikit-learn", "numpy")
CLEAR_REFS = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")
CPU_INFO = Path("/proc/cpuinfo")


_REVISION = revision_of(Path(__file__), PACKAGES)
LOADED_REVISION = str(_REVISION)
"""The revision of the loaded code: the checkout may change while trials are forked.

It is "none" if no repository tracks the code, as in a virtual environment. The version of the package tells more then.
"""
LOADED_CHANGES = some(_REVISION.changed)
"""As `LOADED_REVISION`, the changes of the loaded code."""


@cache
def processor() -> str:
    """The name of the CPU, and the instruction set that torch uses, on which the order of sums depends."""
    name = _model_name() or platform.processor() or platform.machine()
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"


def _model_name() -> str:
    """The model of the CPU on Linux; empty on other systems."""
    if CPU_INFO.exists():
        for line in CPU_INFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return ""


@cache
def environment(device: str) -> dict[str, str]:
    """Versions, device and git revision, as records and `config.json` state them."""
    device_facts = gpu(device) if device.startswith("cuda") else {"device": processor()}
    changes = {}
    if LOADED_CHANGES and LOADED_REVISION.endswith(CHANGES):
        changes[CHANGED_FILES] = LOADED_CHANGES
    return {
        "python": platform.python_version(),
        "psilogic": version(DISTRIBUTION),
        **{name: version(name) for name in DISTRIBUTIONS},
        "platform": platform.platform(),
        **device_facts,
        "git": LOADED_REVISION,
        **changes,
    }


def version(distribution: str) -> str:
    """The version of a distribution; "none" if it is not installed, or lacks metadata, as in some containers."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "none"


def gpu(device: str) -> dict[str, str]:
    """The name of a GPU, the versions of its libraries, and the operations in which torch may round to TF32."""
    products = "yes" if torch.backends.cuda.matmul.allow_tf32 else "no"
    convolutions = "yes" if torch.backends.cudnn.allow_tf32 else "no"
    return {
        "device": torch.cuda.get_device_name(device),
        "cuda": str(torch.version.cuda),
        "cudnn": str(torch.backends.cudnn.version()),
        "tf32": f"products {products}, convolutions {convolutions}",
    }


def check_device(device: str) -> None:
    """Raise UsageError if torch does not find the device on this machine."""
    if not device.startswith("cuda"):
        return
    if not torch.cuda.is_available():
        raise UsageError("--device cuda: torch finds no CUDA GPU here; use --device cpu")
    index = torch.device(device).index or 0
    count = torch.cuda.device_count()
    if index >= count:
        raise UsageError(f"--gpus {index}: torch finds {count} GPUs here, numbered from 0")


def reset_peak_memory(device: torch.device) -> None:
    """Start a new measurement of the peak of memory.

    On a CPU without /proc this has no effect: the peak remains that of the whole process.
    """
    if device.type == "cuda":
        torch.cuda.init()  # without it torch refuses the next call in a process that has not used the GPU yet
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError):
            CLEAR_REFS.write_text("5")  # by which Linux resets the peak


def peak_memory(device: torch.device) -> int:
    """The peak of bytes since `reset_peak_memory`: those allocated on the GPU, or resident in this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if STATUS.exists():
        lines = STATUS.read_text().splitlines()
        peak_line = next(line for line in lines if line.startswith("VmHWM"))
        kilobytes = int(peak_line.split()[1])
        return kilobytes * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def gpu_memory(device: torch.device) -> tuple[int, int, int]:
    """The bytes of a GPU; 0 for a CPU.

    Returns:
        The peak that torch has reserved, the bytes that this process could have now, and the total.
    """
    if device.type != "cuda":
        return 0, 0, 0
    free, total = torch.cuda.mem_get_info(device)
    return torch.cuda.max_memory_reserved(device), free + torch.cuda.memory_reserved(device), total


@contextmanager
def explain_out_of_memory(device: str) -> Iterator[None]:
    """Replace torch's error of the block by `OutOfMemory`, which says how much memory was used, and what to do."""
    try:
        yield
    except (torch.OutOfMemoryError, RuntimeError) as error:
        if not isinstance(error, torch.OutOfMemoryError) and "out of memory" not in str(error):
            raise
        needed = str(error).partition("\n")[0]
        reserved, _, total = gpu_memory(torch.device(device))
        used = ""
        if total:
            used = f"; torch had reserved {reserved / 1e9:.2f} of its {total / 1e9:.2f} GB"
        raise OutOfMemory(
            f"{needed}{used}; let fewer trials share the GPU (--trials-per-gpu), or give the "
            "arena a smaller batch_size in the suite, for every optimizer"
        ) from error
