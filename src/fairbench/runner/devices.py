"""The devices of a machine, and the places of trials on them."""

from collections.abc import Sequence
from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.runner.run_options import cores
from fairbench.study.history import History
from fairbench.training.place import Place

DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""Files of the drivers of GPUs: without one of them, torch, which is slow to import, finds no GPU."""


def gpus_here() -> int:
    """The number of GPUs that torch finds; the process that counts them can still be forked."""
    if not any(Path(driver).exists() for driver in DRIVERS):
        return 0
    import torch

    return torch.cuda.device_count()


def device_kind(device: str, history: History) -> str:
    """The kind of device for "auto": that of the study so far, otherwise "cuda" if there is a GPU."""
    study = history.study.device if history.plans else ""
    return (study or ("cuda" if gpus_here() else "cpu")) if device == "auto" else device


def places(device: str, workers: int | None, data_root: str, gpus: Sequence[int] = ()) -> list[Place]:
    """The places of concurrent trials.

    Args:
        device: "cpu", "cuda", or a GPU as "cuda:1".
        workers: trials at a time, on the CPU or on each GPU; None for one on each core of the CPU, or one on a GPU.
        data_root: folder of the prepared data.
        gpus: numbers of the GPUs, if the device does not have one; empty for the first.

    Raises:
        UsageError: the number of workers is not positive, or the device is unknown.
    """
    kind, _, number = device.partition(":")
    if kind not in ("cpu", "cuda") or (number and (kind == "cpu" or not number.isdecimal())):
        raise UsageError(f"device must be 'auto', 'cpu', 'cuda' or a GPU as 'cuda:1'; got {device!r}")
    count = workers if workers is not None else cores() if kind == "cpu" else 1
    if count < 1:
        raise UsageError(f"--workers must be at least 1, got {count}")
    if kind == "cpu":
        return [Place("cpu", data_root, alone=count <= cores())] * count
    return [Place(f"cuda:{gpu}", data_root, alone=count == 1) for gpu in gpus or [int(number or 0)]] * count
