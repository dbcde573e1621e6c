"""The verification of the files that a dataset is read from."""

from collections.abc import Mapping, Sequence
from typing import Any

from fairbench.common.terminal import say
from fairbench.data.formats.source_files import SourceFiles, size_of, verify_file
from fairbench.data.preparation.progress_bar import progress_bar

VERIFIED = "every file has its known hash"
NOT_VERIFIED = "a file has no known hash, or a different one: nothing vouches for the data"


def verified_files(label: str, source: SourceFiles, accept_all: bool) -> list[dict[str, Any]]:
    """The entry of every file in the manifest, see `verify_file`. They are read with progress.

    Args:
        label: the dataset.
        source: its files.
        accept_all: whether files without a known hash, or with another one, are accepted.

    Raises:
        UsageError: a file is not accepted.
    """
    paths = ", ".join(str(file.path) for file in source.files)
    say(f"{label}: reading {paths}")
    size = sum(size_of(file.path) for file in source.files)
    with progress_bar("check", size, "bytes") as advance:
        return [verify_file(file, source.remedy, accept_all, advance) for file in source.files]


def are_verified(files: Sequence[Mapping[str, Any]]) -> bool:
    """Whether every file has its known hash."""
    return all(file["agrees"] for file in files)
