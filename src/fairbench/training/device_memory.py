"""The memory of a device: its peak, what is free, and the message where it does not suffice."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from fairbench.common.errors import OutOfMemory

CLEAR_REFS = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")


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
