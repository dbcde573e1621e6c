"""Where the trials of a command run, from its options."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from fairbench.cli.arguments import names
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural
from fairbench.runner import devices
from fairbench.runner.run_options import cores
from fairbench.training.place import Place


def places(options: argparse.Namespace, directory: Path) -> list[Place]:
    """The places of concurrent trials: one per worker on the CPU, or `--trials-per-gpu` on each GPU.

    Raises:
        UsageError: an option is out of range, or has no effect on this device.
    """
    root = str(options.data_root or "data")
    kind = devices.automatic(directory) if options.device == "auto" else options.device
    if kind == "cpu":
        for option, given in (("--gpus", options.gpus), ("--trials-per-gpu", options.trials_per_gpu)):
            if given is not None:
                reason = _reason(directory) if options.device == "auto" else f"--device is {options.device}"
                raise UsageError(f"{option} {given} has no effect, {reason}; leave it out")
        count = cores() if options.workers is None else options.workers
        if count < 1:
            raise UsageError(f"--workers must be at least 1, got {count}")
        return devices.places_on(kind, root, count)
    if options.workers is not None:
        raise UsageError(f"--workers {options.workers} has no effect on GPUs; give --trials-per-gpu, or --device cpu")
    sharing = 1 if options.trials_per_gpu is None else options.trials_per_gpu
    if sharing < 1:
        raise UsageError(f"--trials-per-gpu must be at least 1, got {sharing}")
    return devices.places_on(kind, root, sharing, _numbers(options.gpus))


def _reason(directory: Path) -> str:
    """Why `--device auto` takes the CPU."""
    return f"{directory} has trials of the CPU" if devices.device_of_study(directory) else "torch finds no GPU here"


def _numbers(text: str | None) -> list[int]:
    """The numbers of the GPUs to use; the first one of a machine without GPUs, which the preflight reports."""
    if text == "all":
        return [*range(max(devices.gpus_here(), 1))]
    words = ["0"] if text is None else names("--gpus", text) or []
    if wrong := [word for word in words if not word.isdecimal()]:
        raise UsageError(f"--gpus takes numbers of GPUs, as in 0,1, or all; got {wrong[0]!r}")
    return [int(word) for word in dict.fromkeys(words)]


def choice(options: argparse.Namespace, directory: Path, chosen: Sequence[Place]) -> str:
    """What `--device auto` took, in a line; empty if a device was given."""
    if options.device != "auto":
        return ""
    count = devices.gpus_here()
    found = f"{plural(count, 'GPU')} here" if count else "no GPU here"
    kept = "the device of this study; " if devices.device_of_study(directory) else ""
    more = chosen[0].kind == "cuda" and count > 1 and options.gpus is None
    others = "; --gpus all uses all of them" if more else ""
    return f"device: {', '.join(dict.fromkeys(place.device for place in chosen))} ({kept}{found}{others})"
