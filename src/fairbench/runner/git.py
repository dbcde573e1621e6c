"""The git repository of a user's program: its commits, its working tree as a commit, and worktrees of commits."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.common.files import remove
from fairbench.common.git import GitFailed, git

WORKING_TREE = "@"
"""The revision that stands for the working tree as it is now."""
AUTHOR = {"NAME": "fairbench", "EMAIL": "fairbench@localhost", "DATE": "2000-01-01T00:00:00+0000"}
"""The author of the commits made here. It is always the same, so that equal files give equal commits."""
POINTER = b"version https://git-lfs"
"""The beginning of a file that stands for one that git-lfs has not fetched."""


@dataclass(frozen=True)
class Repository:
    """The git repository of the working directory.

    Attributes:
        root: the folder of its checkout.
        prefix: the path of the working directory in it.
    """

    root: Path
    prefix: str

    @classmethod
    def here(cls) -> "Repository":
        """The repository of the working directory. Raises `UsageError` if there is none."""
        try:
            root = git(Path(), "rev-parse", "--show-toplevel")
            prefix = git(Path(), "rev-parse", "--show-prefix")
        except GitFailed as error:
            reason = f"{Path.cwd()} is in no git repository ({error})"
            raise UsageError(f"{reason}; start fairbench in the checkout of the program") from None
        return cls(Path(root), prefix.removesuffix("/"))

    def commit(self, revision: str, excluded: Path | None = None) -> str:
        """The commit of a revision. The working tree is taken without the folder `excluded`.

        Raises:
            UsageError: git does not know the revision.
        """
        if revision == WORKING_TREE:
            return self._commit_of_working_tree(excluded)
        try:
            return git(self.root, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
        except GitFailed:
            advice = "see git log and git branch; @ alone is the working tree, @./FOLDER a folder"
            raise UsageError(f"git knows no revision {revision!r} in {self.root}; {advice}") from None

    def tree(self, commit: str) -> str:
        """The hash of all files of a commit."""
        return git(self.root, "rev-parse", f"{commit}^{{tree}}")

    def changed(self, excluded: Path) -> list[str]:
        """The files that differ from the last commit, and new files of Python, except those in a folder."""
        if not self.has("HEAD"):
            return []  # nothing was committed yet
        listed = git(self.root, "--no-optional-locks", "diff", "HEAD", "--name-only", "-z").split("\0")
        new = git(self.root, "ls-files", "--others", "--exclude-standard", "-z", "--", "*.py").split("\0")
        changed = [name for name in (*listed, *new) if name]
        return [name for name in changed if not (self.root / name).is_relative_to(excluded)]

    def has(self, commit: str) -> bool:
        """Whether a commit is in the repository. One of a working tree may be removed by git after some weeks."""
        try:
            git(self.root, "cat-file", "-e", f"{commit}^{{commit}}")
        except GitFailed:
            return False
        return True

    def _commit_of_working_tree(self, excluded: Path | None) -> str:
        """A commit of the files of the working tree, tracked or not, but without ignored ones."""
        with own_index() as variables:
            users_index = Path(git(self.root, "rev-parse", "--absolute-git-dir")) / "index"
            if users_index.exists():
                # with its time, by which git knows what may have changed
                shutil.copy2(users_index, variables["GIT_INDEX_FILE"])
            paths = ["."]
            if excluded is not None and excluded.is_relative_to(self.root):
                paths.append(f":(exclude){excluded.relative_to(self.root)}")
            git(self.root, "add", "--all", "--", *paths, variables=variables)
            tree = git(self.root, "write-tree", variables=variables)
            return git(self.root, "commit-tree", tree, "-m", "working tree", variables=variables)

    def check_words(self, words: Iterable[str]) -> None:
        """Raise `UsageError` if a word of a command is the absolute path of a file that git tracks.

        The file would be the same for every revision.
        """
        for word in words:
            path = Path(word)
            if not path.is_absolute() or not path.is_relative_to(self.root):
                continue
            if git(self.root, "ls-files", "--", word):
                reason = f"{word} is the same file in every revision"
                raise UsageError(f"{reason}; give its path relative to {Path.cwd()}")


@dataclass(frozen=True)
class Worktree:
    """A checkout of a commit in a folder of its own.

    Attributes:
        root: the folder of the user's checkout.
        commit: the commit.
        folder: the folder of this checkout.
    """

    root: Path
    commit: str
    folder: Path

    @property
    def _complete(self) -> Path:
        """The file that is there once the whole commit is checked out."""
        return self.folder.with_name(f"{self.folder.name}.complete")

    def check_out(self) -> list[str]:
        """Make the folder, unless it is complete. Returns what is missing in it, in words."""
        if not self._complete.exists():
            self.remove()  # an interrupted run may have left a part of it
            no_hooks = ("-c", f"core.hooksPath={os.devnull}")
            git(self.root, *no_hooks, "worktree", "add", "--force", "--detach", str(self.folder), self.commit)
            self._complete.touch()
        return [*_missing_submodules(self.folder), *_missing_files(self.folder)]

    def remove(self) -> None:
        """Remove the folder, if it exists."""
        remove(self._complete)
        remove(self.folder)
        git(self.root, "worktree", "prune")


@contextmanager
def own_index() -> Iterator[dict[str, str]]:
    """The variables with which git makes a commit of an index of its own, so that the user's stays as it is."""
    with tempfile.TemporaryDirectory(prefix="fairbench-") as folder:
        variables = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        for key, value in AUTHOR.items():
            variables[f"GIT_AUTHOR_{key}"] = value
            variables[f"GIT_COMMITTER_{key}"] = value
        yield variables


def _missing_submodules(folder: Path) -> Iterator[str]:
    """The submodules of a worktree, none of which git checks out there."""
    for line in git(folder, "ls-files", "--stage").splitlines():
        details, _, name = line.partition("\t")
        if details.startswith("160000"):
            yield f"the submodule {name}"


def _missing_files(folder: Path) -> Iterator[str]:
    """The files of a worktree that git-lfs has not fetched."""
    listed = git(folder, "ls-files", "-z", "--", ":(attr:filter=lfs)")
    for name in listed.split("\0"):
        file = folder / name
        if name and file.is_file():
            with file.open("rb") as content:
                if content.read(len(POINTER)) == POINTER:
                    yield f"{name} of git-lfs"
