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
        name: its name at the source; a shell pattern for files of the hub that are not found yet.
        path: its local path, once the file is found.
        sha256: its known hash; empty if unknown.
        size: its known size in bytes; 0 if unknown.
        split: the official split that the file contains, by fairbench's name; empty if it contains several.
        also: other names under which the file is distributed.
        when: the values of options with which the file is needed; empty if it is always needed.
        header: for a table, the line of column names that some copies have. A copy with this line, with commas for
            spaces, or with other line ends is also accepted.
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

    Attributes:
        kind: "archive", "hub" or "own".
        files: the files that are read.
        remedy: how to replace the files, for errors; empty for a user's own, whose errors say it.
        revision: the commit on the hub; empty for the other kinds.
    """

    kind: str
    files: tuple[SourceFile, ...]
    remedy: str
    revision: str = ""

    def path(self, name: str) -> Path:
        """The local path of the file with a name."""
        return next(file.path for file in self.files if file.name == name)

    def of_split(self, split: str) -> list[Path]:
        """The local paths of the files that contain an official split."""
        return [file.path for file in self.files if file.split == split]


ASIDE = "hidden files, those of systems and notebooks, and links to nothing"
"""The files in a user's folder that are not data, for example `.ipynb_checkpoints` and a Mac's `._` files."""
SYSTEM_NAMES = ("__MACOSX", "@eaDir", "Thumbs.db")
"""Files and folders that operating systems add to a user's folders."""


def is_hidden(path: Path) -> bool:
    """Whether a part of a relative path is hidden, or belongs to an operating system."""
    return any(name.startswith(".") or name in SYSTEM_NAMES for name in path.parts)


def files_in(folder: Path, only_aside: bool = False) -> list[Path]:
    """The files in a folder and in all folders below it, sorted by path. Links to folders are followed.

    The files described by `ASIDE` are left out. With `only_aside`, only those files are returned.
    """
    files: list[Path] = []
    # The folders on the way to each folder that is still to be read, without links in their paths.
    ways: dict[Path, list[Path]] = {folder: [folder.resolve()]}
    for root, subfolders, names in os.walk(folder, followlinks=True):
        current = Path(root)
        way = ways.pop(current)
        entered = []
        for name in subfolders:
            target = (current / name).resolve()
            if not _leads_back(target, way):
                entered.append(name)
                ways[current / name] = [*way, target]
        subfolders[:] = entered  # os.walk enters the folders that are left in its list
        for name in names:
            file = current / name
            is_data = file.is_file() and not is_hidden(file.relative_to(folder))
            if is_data != only_aside:
                files.append(file)
    return sorted(files)


def _leads_back(target: Path, way: Sequence[Path]) -> bool:
    """Whether a folder is already on the way, or holds a folder of the way. Following such a link would never end."""
    return any(folder.is_relative_to(target) for folder in way)


def sha256_of(path: Path, advance: Callable[[int], None] = lambda size: None) -> str:
    """The sha256 of a file. For a folder: the sha256 of the relative paths and hashes of its files, in order.

    `advance` is called with the number of bytes of each read.
    """
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
    """The number of bytes of a file, or of all files in a folder."""
    files = files_in(path) if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def verify_file(file: SourceFile, remedy: str, unverified: bool, advance: Callable[[int], None]) -> dict[str, Any]:
    """Compare a file with its known hash, if there is one.

    Args:
        file: the file and its known hash.
        remedy: how to replace the file, for errors.
        unverified: accept the file whatever its hash is.
        advance: called with the number of bytes of each read.

    Returns:
        The entry of the file in the manifest; `agrees` is None if no hash is known.

    Raises:
        UsageError: no hash of the file is known, or its hash differs from the known one, and `unverified` is False.
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
            # The copy may differ from the authors' table in its form only.
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
    """The sha256 of a table in the form of its authors: no header, spaces between columns, CR LF after each row."""
    text = file.path.read_text(encoding="utf-8-sig", errors="replace")
    sha = hashlib.sha256()
    for line in text.splitlines():
        if line.strip() in ("", file.header):
            continue
        row = " ".join(line.replace(",", " ").split())
        sha.update(f"{row}\r\n".encode())
    return sha.hexdigest()
