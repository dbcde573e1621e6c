"""The files that a training program depends on; a change of one makes its trials new ones."""

import glob
import hashlib
import os
import subprocess
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from fairbench.common.errors import UsageError

OF_A_STUDY = ("trials", "claims", "drivers")
"""Folders that every study has."""
OF_AN_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")
"""What the folder of an environment of Python has: a file of venv and uv, a folder of conda."""
CACHES = ("__pycache__",)
"""Folders whose files may be written by several processes at once."""
PYTHON_FILES = ":(top)*.py"
"""The Python files of a whole repository, for git."""


def code_of(words: Sequence[str], patterns: Sequence[str] = (), folder: Path = Path()) -> dict[str, str]:
    """The beginning of the sha256 of each file of a program's code, by the path of the file.

    Args:
        words: the words of its command; the files that they name always count.
        patterns: the patterns of its other files; without any, these are the ones of its folder, see `_known_files`.
        folder: the folder in which the program runs. Paths are relative to it.
    """
    first, *others = words
    sources = [word for word in others if "{" not in word and (folder / word).is_file()]
    files = set(sources)
    if _is_own(first, folder):
        files.add(first)
    if patterns:
        files.update(matched(patterns, "code", folder))
    else:
        files.update(_known_files(sources, folder))
    return hashes_of(sorted(files), folder)


def hashes_of(files: Iterable[str], folder: Path) -> dict[str, str]:
    """The beginning of the sha256 of each file that exists, by its path, which is relative to a folder."""
    hashes = {}
    for file in files:
        if (folder / file).is_file():
            hashes[Path(file).as_posix()] = content_hash([file], folder)[:16]
    return hashes


def _is_own(word: str, folder: Path) -> bool:
    """Whether the first word of a command is a script or a binary of the user, in a relative path.

    The interpreter of an environment is none: it is a link to one that is installed.
    """
    file = folder / word
    if Path(word).is_absolute() or not file.is_file():
        return False
    return file.read_bytes().startswith(b"#!") or not file.is_symlink()


def _known_files(sources: list[str], folder: Path) -> list[str]:
    """The files of the program's folder that git tracks, and every Python file of its repository.

    Those of submodules count, and Python files that git does not know yet, but none that git ignores. Without git, the
    Python files of the program's folder. The packages of an environment of Python are no code of the program.
    """
    of_program = Path(sources[0]).parent if sources else Path()
    tracked = _listed(folder, of_program, "--recurse-submodules")
    tracked += _listed(folder, of_program, "--recurse-submodules", "--", PYTHON_FILES)
    untracked = _listed(folder, of_program, "--others", "--exclude-standard", "--", PYTHON_FILES)
    known = [*tracked, *_without_copies(folder, untracked, tracked)]
    if not any(_is_below(file, of_program) for file in known):
        files = visible_files(folder / of_program)
        modules = [file.relative_to(folder) for file in files if file.match("[!.]*.py")]
        known += _without_copies(folder, modules)
    return [str(file) for file in known]


def _is_below(file: Path, folder: Path) -> bool:
    """Whether a relative path is one below a relative folder."""
    return not os.path.relpath(file, folder).startswith(os.pardir)


def _listed(folder: Path, of_program: Path, *options: str) -> list[Path]:
    """The files that `git ls-files` lists in the folder of a program, and that exist; none without git."""
    git = ["git", "-C", str(folder / of_program), "ls-files", "-z", *options]
    try:
        listed = subprocess.run(git, capture_output=True, check=True).stdout.decode(errors="surrogateescape")
    except (OSError, subprocess.CalledProcessError):
        return []
    files = [Path(os.path.normpath(of_program / name)) for name in listed.split("\0") if name]
    return [file for file in files if (folder / file).is_file()]


def _without_copies(folder: Path, files: Collection[Path], originals: Iterable[Path] = ()) -> list[Path]:
    """The files of the user: none in a folder of a study or an environment, and no copy of a file nearer to the top.

    A copy of one of the `originals` is left out too.
    """
    folders = {parent for file in files for parent in file.parents}
    left_out = {each for each in folders if _is_study(folder / each)}
    left_out |= {each for each in folders if each != Path() and _is_environment(folder / each)}
    seen = {(folder / file).read_bytes() for file in originals if file.suffix == ".py"}
    kept = []
    for file in sorted(files, key=lambda file: (len(file.parts), file)):
        if not left_out.isdisjoint(file.parents):
            continue  # a trial that runs now may remove it, or it is installed
        content = (folder / file).read_bytes()
        if content not in seen:
            seen.add(content)
            kept.append(file)
    return kept


def visible_files(folder: Path) -> Iterator[Path]:
    """The files below a folder.

    Hidden folders, caches, environments of Python and folders of studies are left out: their files are not the user's.
    """
    for root, folders, files in os.walk(folder):
        if _is_study(Path(root)):
            folders.clear()
            continue
        shown = [name for name in folders if not name.startswith(".") and name not in CACHES]
        folders[:] = [name for name in shown if not _is_environment(Path(root, name))]
        for name in files:
            yield Path(root, name)


def _is_study(folder: Path) -> bool:
    """Whether a folder is that of a study."""
    return all((folder / name).is_dir() for name in OF_A_STUDY)


def _is_environment(folder: Path) -> bool:
    """Whether a folder is that of an environment of Python."""
    return any((folder / name).exists() for name in OF_AN_ENVIRONMENT)


def matched(patterns: Iterable[str], key: str, folder: Path = Path()) -> list[str]:
    """The files that match patterns, sorted.

    Args:
        patterns: shell patterns.
        key: the key of the patterns in the suite, for errors.
        folder: the folder to which the patterns and the paths of the files are relative.

    Raises:
        UsageError: a pattern matches no file.
    """
    all_files: list[str] = []
    for pattern in patterns:
        found = glob.glob(pattern, root_dir=folder, recursive=True)  # noqa: PTH207
        files = [file for file in found if (folder / file).is_file()]
        if not files:
            raise UsageError(f"{key}: {pattern!r} matches no file in {folder.absolute()}; correct the pattern")
        all_files += files
    return sorted(set(all_files))


def content_hash(files: Iterable[str], folder: Path = Path()) -> str:
    """The sha256 of the names and contents of files; empty without files. Names are relative to a folder."""
    listed = list(files)
    if not listed:
        return ""
    sha = hashlib.sha256()
    for file in listed:
        sha.update(f"{Path(file).as_posix()}\n".encode())
        with (folder / file).open("rb") as content:
            while block := content.read(1 << 20):
                sha.update(block)
    return sha.hexdigest()
