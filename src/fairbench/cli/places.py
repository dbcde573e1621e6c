"""Where the trials of a command run, from its options."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from fairbench.cli.arguments import names
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural
from fairbench.runner.run_options import cores
from fairbench.training.place import Place

DRIVERS = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""Files of the drivers of GPUs: without one of them, torch, which is slow to import, finds no GPU."""


def places(options: argparse.Namespace) -> list[Place]:
    """The places of concurrent trials: one per worker on the CPU, or `--trials-per-gpu` on each GPU.

    Raises:
        UsageError: an option is out of range, or has no effect on this device.
    """
    root = str(options.data_root or "data")
    if _device(options) == "cpu":
        for option, given in (("--gpus", options.gpus), ("--trials-per-gpu", options.trials_per_gpu)):
            if given is not None:
                reason = "torch finds no GPU here" if options.device == "auto" else f"--device is {options.device}"
                raise UsageError(f"{option} {given} has no effect, {reason}; leave it out")
        count = cores() if options.workers is None else options.workers
        if count < 0:
            raise UsageError(f"--workers must be at least 0, got {count}")
        return [Place("cpu", root, alone=count <= cores())] * max(count, 1)
    if options.workers is not None:
        raise UsageError(f"--workers {options.workers} has no effect on GPUs; give --trials-per-gpu, or --device cpu")
    sharing = 1 if options.trials_per_gpu is None else options.trials_per_gpu
    if sharing < 1:
        raise UsageError(f"--trials-per-gpu must be at least 1, got {sharing}")
    return [Place(f"cuda:{number}", root, sharing == 1) for number in _numbers(options.gpus)] * sharing


def _device(options: argparse.Namespace) -> str:
    """The kind of device: the given one, otherwise "cuda" if there is a GPU."""
    given: str = options.device
    return given if given != "auto" else "cuda" if gpus_here() else "cpu"


def _numbers(text: str | None) -> list[int]:
    """The numbers of the GPUs to use; the first one of a machine without GPUs, which the preflight reports."""
    if text == "all":
        return [*range(max(gpus_here(), 1))]
    words = ["0"] if text is None else names("--gpus", text) or []
    if wrong := [word for word in words if not word.isdecimal()]:
        raise UsageError(f"--gpus takes numbers of GPUs, as in 0,1, or all; got {wrong[0]!r}")
    return [int(word) for word in dict.fromkeys(words)]


def gpus_here() -> int:
    """The number of GPUs that torch finds; the process that counts them can still be forked."""
    if not any(Path(driver).exists() for driver in DRIVERS):
        return 0
    import torch

    return torch.cuda.device_count()


def choice(options: argparse.Namespace, chosen: Sequence[Place]) -> str:
    """What `--device auto` took, in a line; empty if a device was given."""
    if options.device != "auto":
        return ""
    count = gpus_here()
    found = f"{plural(count, 'GPU')} here" if count else "no GPU here"
    others = "; --gpus all uses all of them" if count > 1 and options.gpus is None else ""
    return f"device: {', '.join(dict.fromkeys(place.device for place in chosen))} ({found}{others})"
