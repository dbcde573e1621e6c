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
    for root, folders, names in os.walk(folder, followlinks=True):
        current = Path(root)
        folders[:] = [name for name in folders if not _leads_back(current, name)]
        for name in names:
            file = current / name
            is_no_data = is_aside(file.relative_to(folder)) or not file.is_file()
            if is_no_data == aside:
                files.append(file)
    return sorted(files)


def _leads_back(folder: Path, name: str) -> bool:
    """Whether a folder in this one is a link to it or to a folder around it, which would make a circle."""
    return folder.resolve().is_relative_to((folder / name).resolve())


def sha256_of(path: Path, advance: Callable[[int], None] = lambda size: None) -> str:
    """sha256 of a file; of a folder, that of its files' relative paths and hashes in order."""
    sha = hashlib.sha256()
    if path.is_dir():
        for file in files_in(path):
            name = file.relative_to(path).as_posix()
            line = f"{name} {sha256_of(file, advance)}\n"
            try:
                sha.update(line.encode())
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
    files = files_in(path) if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def verify_file(file: SourceFile, remedy: str, unverified: bool, advance: Callable[[int], None]) -> dict[str, Any]:
    """Compare a file with its known hash, if there is one.

    Args:
        file: the file, with what is known of it.
        remedy: how to replace the file, for errors.
        unverified: accept the file whatever its hash is.
        advance: called with the number of bytes that have been read since its last call.

    Returns:
        The facts of the file for the manifest; `agrees` is None if no hash is known.

    Raises:
        UsageError: the file has no known hash, or another one, and is not accepted anyway.
    """
    size = size_of(file.path)
    sha256 = sha256_of(file.path, advance)
    accept = "or accept it: run the same command with --unverified"
    expected = None
    agrees = None
    if file.sha256:
        expected = {"sha256": file.sha256}
        agrees = file.sha256 == sha256
        if not agrees and file.header:
            agrees = file.sha256 == _table_hash(file)
    if agrees is None and not unverified:
        raise UsageError(f"{file.path}: no hash of {file.name} is known; {remedy}; {accept}")
    if agrees is False and not unverified:
        sizes = ""
        if file.size not in (0, size):
            sizes = f"; it has {size:,} bytes, expected {file.size:,}"
        raise UsageError(
            f"{file.path} is not the known {file.name}: sha256 {sha256}, expected {file.sha256}{sizes}. "
            f"It is damaged, incomplete or a different version; {remedy}; {accept}"
        )
    return {"name": file.name, "bytes": size, "sha256": sha256, "expected": expected, "agrees": agrees}


def _table_hash(file: SourceFile) -> str:
    """sha256 of a table as its authors write it: no header, spaces between columns, CR LF after each row."""
    text = file.path.read_text(encoding="utf-8-sig", errors="replace")
    sha = hashlib.sha256()
    for line in text.splitlines():
        if line.strip() in ("", file.header):
            continue
        row = " ".join(line.replace(",", " ").split())
        sha.update(f"{row}\r\n".encode())
    return sha.hexdigest()
