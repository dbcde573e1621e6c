"""Files as they were found: by which name, where, and with which hash they ought to have."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError

CHUNK = 1 << 20


@dataclass(frozen=True)
class SourceFile:
    """A file, or a folder of a user's own data.

    Attributes:
        name: what the authors or the repository call it.
        path: where it lies.
        expected: its known hash by kind (sha256 or md5); empty: nothing to compare with.
        size: its known bytes; 0: not known.
        split: the official split that it holds, if it holds one.
    """

    name: str
    path: Path
    expected: Mapping[str, str] = field(default_factory=dict)
    size: int = 0
    split: str = ""


@dataclass(frozen=True)
class SourceFiles:
    """The files from which a dataset is read.

    Attributes:
        kind: "archive" (the authors' files), "hub" (of the repository) or "own" (the user's).
        files: the files.
        remedy: how to get other ones, for errors.
        revision: the commit of the repository, for "hub".
    """

    kind: str
    files: tuple[SourceFile, ...]
    remedy: str
    revision: str = ""

    def path(self, name: str) -> Path:
        """Where the file of that name lies."""
        return next(file.path for file in self.files if file.name == name)

    def of_split(self, split: str) -> list[Path]:
        """The files of an official split, in their order."""
        return [file.path for file in self.files if file.split == split]


def sha256_of(path: Path, advance: Callable[[int], None] = lambda size: None) -> str:
    """sha256 of a file; of a folder, that of its files' relative paths and hashes in their order."""
    if path.is_dir():
        sha = hashlib.sha256()
        for file in sorted(file for file in path.rglob("*") if file.is_file()):
            sha.update(f"{file.relative_to(path).as_posix()} {sha256_of(file, advance)}\n".encode())
        return sha.hexdigest()
    return _hash(path, "sha256", advance)


def _hash(path: Path, kind: str, advance: Callable[[int], None]) -> str:
    sha = hashlib.new(kind, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            sha.update(chunk)
            advance(len(chunk))
    return sha.hexdigest()


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def verify_file(file: SourceFile, remedy: str, unverified: bool, advance: Callable[[int], None]) -> dict[str, Any]:
    """Compare a file with what is known of it.

    Args:
        file: the file.
        remedy: how to get another one.
        unverified: take it even if its hash is another one.
        advance: told of bytes that have been read.

    Returns:
        What the manifest says of it: `name`, `bytes`, `sha256`, `expected` (by kind, or None) and `agrees` (or None).

    Raises:
        UsageError: it is a web page, or its hash is not the known one.
    """
    _refuse_page(file, remedy)
    size, sha256 = size_of(file.path), sha256_of(file.path, advance)
    entry = {"name": file.name, "bytes": size, "sha256": sha256, "expected": dict(file.expected) or None}
    agrees = None
    for kind, expected in file.expected.items():
        found = sha256 if kind == "sha256" else _hash(file.path, kind, lambda size: None)
        agrees = found == expected
        if not agrees and not unverified:
            short = f"; it has {size:,} bytes, expected {file.size:,}" if file.size not in (0, size) else ""
            raise UsageError(
                f"{file.path} is not the known {file.name}: {kind} {found}, expected {expected}{short}. "
                f"It is damaged, incomplete or another version; {remedy}; or take it as it is with --unverified"
            )
    return {**entry, "agrees": agrees}


def _refuse_page(file: SourceFile, remedy: str) -> None:
    """Login and quota pages are what browsers and scripts like to save in an archive's place."""
    if not (file.expected or file.split) or file.path.is_dir():
        return
    with file.path.open("rb") as opened:
        start = opened.read(256).lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html")):
        expected = "".join(f"; expected {kind} {value}" for kind, value in file.expected.items())
        found = sha256_of(file.path)
        raise UsageError(
            f"{file.path} is an HTML page, not {file.name}: a login or quota page was saved in its place "
            f"(sha256 {found}{expected}). Delete it; {remedy}"
        )
