"""Where the trials of a study run, by the arguments of a function."""

from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.runner.devices import automatic, places_on
from fairbench.runner.run_options import cores
from fairbench.training.place import Place


def places(device: str, workers: int | None, data_root: str | Path, directory: Path) -> list[Place]:
    """The places of concurrent trials on a device.

    Args:
        device: "cpu", "cuda", "cuda:1" or the like; "auto" is the device of the study, see `fb.run`.
        workers: trials at a time; None for one on each core of the CPU, or one on a GPU.
        data_root: folder of the prepared data.
        directory: of the study.

    Raises:
        UsageError: the number of workers is not positive, or the device is unknown.
    """
    kind, _, number = (automatic(directory) if device == "auto" else device).partition(":")
    if kind not in ("cpu", "cuda") or (number and (kind == "cpu" or not number.isdecimal())):
        raise UsageError(f"device must be 'auto', 'cpu', 'cuda' or a GPU as 'cuda:1'; got {device!r}")
    count = workers if workers is not None else cores() if kind == "cpu" else 1
    if count < 1:
        raise UsageError(f"workers must be at least 1, got {count}")
    return places_on(kind, str(data_root), count, [int(number or 0)])
