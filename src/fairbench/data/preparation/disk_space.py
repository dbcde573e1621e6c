"""Room on the disk, asked for before the work and not at its end."""

import shutil
from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.common.formatting import in_words


def require_room(folder: Path, need: int, purpose: str) -> None:
    """Refuse to begin what cannot end.

    Args:
        folder: where it will be written, whether it is there or not.
        need: bytes.
        purpose: what for, as in "download CIFAR-100".

    Raises:
        UsageError: the disk has less.
    """
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free < need:
        raise UsageError(
            f"cannot {purpose}: it needs {in_words(need)} in {folder}, but only {in_words(free)} are free; "
            "make room or choose another --data-root"
        )
