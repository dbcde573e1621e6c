"""The verification of the files that a dataset is read from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairbench.common.terminal import say
from fairbench.data.formats.source_files import SourceFiles, size_of, verify_file
from fairbench.data.preparation.progress_bar import progress_bar

VERIFIED = "every file has its known hash"
NOT_VERIFIED = "a file has no known hash, or a different one: nothing vouches for the data"


@dataclass(frozen=True)
class Verification:
    """What the verification of all files of a dataset has found.

    Attributes:
        files: the entry of each file in the manifest, see `verify_file`.
        verified: whether every file has its known hash.
    """

    files: Sequence[Mapping[str, Any]]
    verified: bool

    @property
    def in_words(self) -> str:
        """Whether every file has its known hash, in words."""
        if self.verified:
            return VERIFIED
        return NOT_VERIFIED


def verification_of(label: str, source: SourceFiles, accept_all: bool) -> Verification:
    """Read the files of a dataset with progress, and compare them with their known hashes.

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
        files = [verify_file(file, source.remedy, accept_all, advance) for file in source.files]
    verified = all(file["agrees"] for file in files)
    return Verification(files, verified)
