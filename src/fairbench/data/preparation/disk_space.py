"""A check of free disk space before long work."""

import shutil
from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.common.formatting import format_bytes


def require_disk_space(folder: Path, need: int, purpose: str) -> None:
    """Raise `UsageError` if the disk has too little free space.

    Args:
        folder: where files will be written; it need not exist.
        need: bytes.
        purpose: what they are for, as "download CIFAR-100".
    """
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < need:
        raise UsageError(
            f"cannot {purpose}: it needs {format_bytes(need)} in {folder}, but only {format_bytes(free)} are free; "
            "free some space or choose another --data-root"
        )
