"""The devices of a machine, and the places of trials on them."""

from collections.abc import Sequence
from pathlib import Path

from fairbench.runner.run_options import cores
from fairbench.study.history import read_history
from fairbench.training.place import Place

DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""Files of the drivers of GPUs: without one of them, torch, which is slow to import, finds no GPU."""


def gpus_here() -> int:
    """The number of GPUs that torch finds; the process that counts them can still be forked."""
    if not any(Path(driver).exists() for driver in DRIVERS):
        return 0
    import torch

    return torch.cuda.device_count()


def device_of_study(directory: Path) -> str:
    """The kind of device of the study in a directory; empty if there is none yet.

    Raises:
        UsageError: its configuration is damaged.
    """
    plans = read_history(directory).plans
    return plans[-1].study.device if plans else ""


def automatic(directory: Path) -> str:
    """The kind of device for `auto`: that of the study in a directory, otherwise "cuda" if there is a GPU.

    Raises:
        UsageError: the configuration of the study is damaged.
    """
    return device_of_study(directory) or ("cuda" if gpus_here() else "cpu")


def places_on(kind: str, data_root: str, count: int, gpus: Sequence[int] = (0,)) -> list[Place]:
    """The places of concurrent trials.

    Args:
        kind: "cpu" or "cuda".
        data_root: folder of the prepared data.
        count: trials at a time, on the CPU or on each GPU.
        gpus: numbers of the GPUs.
    """
    if kind == "cpu":
        return [Place("cpu", data_root, alone=count <= cores())] * count
    return [Place(f"cuda:{number}", data_root, alone=count == 1) for number in gpus] * count
