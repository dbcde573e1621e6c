"""The files that a program writes in the folder in which it runs, where trials at the same time would share them."""

import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fairbench.arenas.program_code import visible_files

MOST_FILES = 20_000
"""A folder with more files is not looked at: that would take longer than many a program."""


def file_times(folder: Path) -> Mapping[str, int]:
    """The time at which each file below a folder was last written, in nanoseconds, by its path in the folder.

    Hidden folders, folders of studies, links, and the files that this process prints to are left out.

    Returns:
        The times; empty if there are too many files.
    """
    printed_to = _own_output()
    times: dict[str, int] = {}
    for file in visible_files(folder):
        with suppress(OSError):  # it was removed meanwhile
            status = file.lstat()
            if stat.S_ISREG(status.st_mode) and (status.st_dev, status.st_ino) not in printed_to:
                times[str(file.relative_to(folder))] = status.st_mtime_ns
        if len(times) > MOST_FILES:
            return {}
    return times


def written(before: Mapping[str, int], after: Mapping[str, int]) -> frozenset[str]:
    """The files that are new, or were written again."""
    return frozenset(file for file, time in after.items() if before.get(file) != time)


def _own_output() -> set[tuple[int, int]]:
    """The device and the number of the files to which this process prints, such as the log of the study."""
    printed_to = set()
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            with suppress(OSError, ValueError):
                status = os.fstat(stream.fileno())
                printed_to.add((status.st_dev, status.st_ino))
    return printed_to
