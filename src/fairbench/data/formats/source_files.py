"""The local files of a dataset with their expected hashes, and their verification."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError

CHUNK = 1 << 20


@dataclass(frozen=True)
class SourceFile:
    """A file of a dataset, or a folder of a user's data.

    Attributes:
        name: its name at the source; of files of the hub that are not yet found, a shell pattern.
        path: where it is here, once it is found.
        sha256: its known hash; empty if unknown.
        size: its known bytes; 0 if unknown.
        split: the official split in it, by fairbench's name; empty if it has several.
        also: other names that it is distributed under.
        when: the options with which it is needed.
        header: if it is a table, the line of names that some copies have. Its hash is then also that of a copy with
            this line, with commas for spaces, or with other line ends.
    """

    name: str
    path: Path = Path()
    sha256: str = ""
    size: int = 0
    split: str = ""
    also: Sequence[str] = ()
    when: Mapping[str, Any] = field(default_factory=dict)
    header: str = ""


@dataclass(frozen=True)
class SourceFiles:
    """The files from which a dataset is read: the authors' "archive", files of the "hub", or the user's "own".

    `revision` is the commit on the hub, and `remedy` says in errors how to replace the files.
    """

    kind: str
    files: tuple[SourceFile, ...]
    remedy: str
    revision: str = ""

    def path(self, name: str) -> Path:
        return next(file.path for file in self.files if file.name == name)

    def of_split(self, split: str) -> list[Path]:
        return [file.path for file in self.files if file.split == split]


ASIDE = "hidden files, those of systems and notebooks, and links to nothing"
"""What is in a user's folders and no data, as `.ipynb_checkpoints` and a Mac's `._` files."""


def is_aside(path: Path) -> bool:
    """Whether a relative path is hidden, or is of a system's own folder."""
    return any(name.startswith(".") or name in ("__MACOSX", "@eaDir", "Thumbs.db") for name in path.parts)


def files_in(folder: Path, aside: bool = False) -> list[Path]:
    """The files in a folder and all folders in it, in the order of their paths; links to folders are followed.

    Those that are `ASIDE` are left out; with `aside`, only they are returned.
    """
    files: list[Path] = []
    for name, folders, names in os.walk(folder, followlinks=True):
        here = Path(name)
        folders[:] = [x for x in folders if not here.resolve().is_relative_to((here / x).resolve())]  # no circles
        files += map(here.joinpath, names)
    return sorted(x for x in files if (is_aside(x.relative_to(folder)) or not x.is_file()) == aside)


def sha256_of(path: Path, advance: Callable[[int], None] = lambda size: None) -> str:
    """sha256 of a file; of a folder, that of its files' relative paths and hashes in order."""
    sha = hashlib.sha256()
    if path.is_dir():
        for file in files_in(path):
            try:
                sha.update(f"{file.relative_to(path).as_posix()} {sha256_of(file, advance)}\n".encode())
            except UnicodeEncodeError as error:
                raise UsageError(f"the name of {str(file)!a} is not UTF-8; rename it") from error
        return sha.hexdigest()
    with path.open("rb") as content:
        while chunk := content.read(CHUNK):
            sha.update(chunk)
            advance(len(chunk))
    return sha.hexdigest()


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return sum(file.stat().st_size for file in (files_in(path) if path.is_dir() else [path]))


def verify_file(file: SourceFile, remedy: str, unverified: bool, advance: Callable[[int], None]) -> dict[str, Any]:
    """The facts of a file for the manifest: its hash, and whether it agrees with the known one, if there is one.

    If `unverified`, it is accepted anyway; `remedy` says how to replace it.
    """
    size, sha256 = size_of(file.path), sha256_of(file.path, advance)
    expected = {"sha256": file.sha256} if file.sha256 else None
    accept = "or accept it: run the same command with --unverified"
    agrees = None
    if expected:
        agrees = file.sha256 == sha256 or (file.header != "" and _table_hash(file) == file.sha256)
        if not agrees and not unverified:
            short = f"; it has {size:,} bytes, expected {file.size:,}" if file.size not in (0, size) else ""
            raise UsageError(
                f"{file.path} is not the known {file.name}: sha256 {sha256}, expected {file.sha256}{short}. "
                f"It is damaged, incomplete or a different version; {remedy}; {accept}"
            )
    if agrees is None and not unverified:
        raise UsageError(f"{file.path}: no hash of {file.name} is known; {remedy}; {accept}")
    return {"name": file.name, "bytes": size, "sha256": sha256, "expected": expected, "agrees": agrees}


def _table_hash(file: SourceFile) -> str:
    """sha256 of a table as its authors write it: no header, spaces between columns, CR LF after each row."""
    lines = file.path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    rows = [" ".join(line.replace(",", " ").split()) for line in lines if line.strip() not in ("", file.header)]
    return hashlib.sha256("".join(f"{row}\r\n" for row in rows).encode()).hexdigest()
