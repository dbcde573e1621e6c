"""The commit of the git repository that tracks some code, and the files of the code that differ from it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fairbench.common.git import GitFailed, git

CHANGES = "+changes"
"""What follows the commit if the code differs from it."""


@dataclass(frozen=True)
class Revision:
    """The revision of some code; as a text its commit, or "none", followed by "+changes" if the code differs.

    Attributes:
        commit: the commit of the repository that tracks the code; empty if git does not track it, or is not installed.
        changed: the files and folders of the code that differ from the commit or are new, relative to the repository.
    """

    commit: str = ""
    changed: tuple[str, ...] = ()

    def __str__(self) -> str:
        changes = CHANGES if self.changed else ""
        return (self.commit or "none") + changes


def revision_of(main: Path, code: Iterable[Path]) -> Revision:
    """The revision of some code. Code that is only installed below a repository, as in a virtual environment, has none.

    Args:
        main: the file or the folder that the repository must track.
        code: the files and folders that may differ. Other files do not count.
    """
    folder = main if main.is_dir() else main.parent
    try:
        if not git(folder, "ls-files", "--", str(main.absolute())):
            return Revision()
        root = Path(git(folder, "rev-parse", "--show-toplevel"))
        commit = git(folder, "rev-parse", "HEAD")
        listed = git(root, "--no-optional-locks", "status", "--porcelain", "--no-renames", "-z")
    except (OSError, GitFailed):
        return Revision()
    places = [place.resolve() for place in code]
    changed = []
    for entry in listed.split("\0"):
        name = entry[3:]  # after the two letters of its state
        if name and any(_overlap((root / name).resolve(), place) for place in places):
            changed.append(name)
    return Revision(commit, tuple(changed))


def _overlap(one: Path, other: Path) -> bool:
    """Whether a file or folder is the other one, or lies in it, or has it. Git names a new folder, not its files."""
    return one.is_relative_to(other) or other.is_relative_to(one)
