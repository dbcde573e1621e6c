"""Git revisions of a user's program, checked out for the variants of a study.

Each revision has a worktree of its own in the folder of the study. The user's checkout, its index and its stash stay as
they are. A revision is resolved to a commit when the study begins. The same command continues with these commits,
wherever the branches are by then, also after the end of the study. If the program fails before the first plan, the
study has not begun, so that its author can correct it.
"""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from fairbench.arenas.program_command import words_of
from fairbench.common.errors import CallFailed, UsageError
from fairbench.common.files import remove, write_atomically
from fairbench.common.formatting import some
from fairbench.optimizers.variant import VariantPlan
from fairbench.study.history import History, read_history
from fairbench.suites.schema import Suite

WORKING_TREE = "@"
"""The revision that stands for the working tree as it is now."""
AUTHOR = {"NAME": "fairbench", "EMAIL": "fairbench@localhost", "DATE": "2000-01-01T00:00:00+0000"}
"""The author of the commit of a working tree. It is always the same, so that equal files give equal commits."""
POINTER = b"version https://git-lfs"
"""The beginning of a file that stands for one that git-lfs has not fetched."""
COMMITS = "commits.json"
"""The file in the folder of the worktrees with the commit of each revision."""
NAMED = 12
"""The digits of a commit in messages."""


@dataclass(frozen=True)
class CheckedOut:
    """A suite whose variants have the commits of their revisions.

    Attributes:
        folder: the folder of the worktrees, each named by its commit; empty without any.
    """

    suite: Suite
    folder: str


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
    def here(cls, variant: str) -> "Repository":
        """The repository of the working directory. `variant` is the one that asks for it, for the error."""
        try:
            root = git(Path(), "rev-parse", "--show-toplevel")
            prefix = git(Path(), "rev-parse", "--show-prefix")
        except GitFailed as error:
            reason = f"has a revision, and {Path.cwd()} is in no git repository ({error})"
            raise UsageError(f"variants.{variant}: {reason}; start fairbench in the checkout of the program") from None
        return cls(Path(root), prefix.removesuffix("/"))

    def commit(self, variant: str, revision: str, excluded: Path) -> str:
        """The commit of a revision. The working tree is taken without the folder `excluded`."""
        if revision == WORKING_TREE:
            return self._commit_of_working_tree(excluded)
        try:
            return git(self.root, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
        except GitFailed:
            advice = "see git log and git branch; @ alone is the working tree, @./FOLDER a folder"
            raise UsageError(
                f"variants.{variant}: git knows no revision {revision!r} in {self.root}; {advice}"
            ) from None

    def has(self, commit: str) -> bool:
        """Whether a commit is in the repository. One of a working tree may be removed by git after some weeks."""
        try:
            git(self.root, "cat-file", "-e", f"{commit}^{{commit}}")
        except GitFailed:
            return False
        return True

    def _commit_of_working_tree(self, excluded: Path) -> str:
        """A commit of the files of the working tree, tracked or not, but without ignored ones.

        It is made with an index of its own.
        """
        with tempfile.TemporaryDirectory(prefix="fairbench-") as temporary:
            index = Path(temporary) / "index"
            variables = {"GIT_INDEX_FILE": str(index)}
            for key, value in AUTHOR.items():
                variables[f"GIT_AUTHOR_{key}"] = value
                variables[f"GIT_COMMITTER_{key}"] = value
            own_index = Path(git(self.root, "rev-parse", "--absolute-git-dir")) / "index"
            if own_index.exists():
                shutil.copy2(own_index, index)  # with its time, by which git knows what may have changed
            paths = ["."]
            if excluded.is_relative_to(self.root):
                paths.append(f":(exclude){excluded.relative_to(self.root)}")
            git(self.root, "add", "--all", "--", *paths, variables=variables)
            tree = git(self.root, "write-tree", variables=variables)
            return git(self.root, "commit-tree", tree, "-m", "working tree", variables=variables)

    def check_words(self, variant: str, words: Iterable[str]) -> None:
        """Raise `UsageError` if a word of a command is the absolute path of a file that git tracks.

        The file would be the same for every revision.
        """
        for word in words:
            path = Path(word)
            if not path.is_absolute() or not path.is_relative_to(self.root):
                continue
            if git(self.root, "ls-files", "--", word):
                reason = f"{word} is the same file in every revision"
                raise UsageError(f"variants.{variant}: {reason}; give its path relative to {Path.cwd()}")

    def check_out(self, commit: str, folder: Path) -> list[str]:
        """Make a worktree of a commit in a folder, unless it is there. Returns what is missing in it, in words."""
        complete = folder.with_name(f"{folder.name}.complete")
        if not complete.exists():
            self.remove(folder)  # an interrupted run may have left a part of it
            no_hooks = ("-c", f"core.hooksPath={os.devnull}")
            git(self.root, *no_hooks, "worktree", "add", "--force", "--detach", str(folder), commit)
            complete.touch()
        return [*_missing_submodules(folder), *_missing_files(folder)]

    def remove(self, folder: Path) -> None:
        """Remove a worktree, if it exists."""
        complete = folder.with_name(f"{folder.name}.complete")
        remove(complete)
        remove(folder)
        git(self.root, "worktree", "prune")


class GitFailed(Exception):
    """A command of git failed; the message is its last line."""


def git(folder: Path, *words: str, variables: Mapping[str, str] | None = None) -> str:
    """What a command of git prints, without the line end. Raises `GitFailed` if it fails."""
    environment = {**os.environ, **(variables or {})}
    try:
        done = subprocess.run(
            ["git", *words], cwd=folder, env=environment, capture_output=True, text=True, errors="surrogateescape"
        )
    except FileNotFoundError as error:
        raise GitFailed("git is not installed") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise GitFailed(lines[-1])
    return done.stdout.rstrip("\n")


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


@contextmanager
def checked_out(
    suite: Suite, study: Path, folder: Path, history: History, say: Callable[[str], None]
) -> Iterator[CheckedOut]:
    """Check out the revisions of a suite's variants, for as long as the `with` block runs.

    Worktrees stay if the block is left by an error or a signal, since the same command continues with them. They stay
    also if another driver of the study still uses them.

    Args:
        suite: the suite.
        study: the directory of the study, which is not part of a working tree.
        folder: the folder for the worktrees. Only in the directory of the study do they outlive an error.
        history: the plans of the study so far.
        say: shows a message.

    Raises:
        UsageError: there is no repository or no such revision, or the command names a file of the checkout.
    """
    revisions = _revisions(suite)
    if not revisions:
        yield CheckedOut(suite, "")
        return
    study = study.resolve()
    folder = folder.resolve()
    repository = Repository.here(next(iter(revisions)))
    for name, variant in revisions.items():
        for plan in suite.arenas.values():
            repository.check_words(name, words_of(plan.model["program"], variant.args))
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "used", fcntl.LOCK_SH) as used:
        with _locked(folder / "changing", fcntl.LOCK_EX):
            fixed = _fixed(folder, history)
            commits = {}
            for name, variant in revisions.items():
                commits[name] = _commit(repository, name, variant.revision, fixed, study, say)
                fixed[variant.revision] = commits[name]
            write_atomically(folder / COMMITS, json.dumps(fixed))
            for name, commit in commits.items():
                missing = repository.check_out(commit, folder / commit)
                if missing:
                    say(f"{name}: not in its checkout: {some(missing)}")
        stays = False
        try:
            yield CheckedOut(_with_commits(suite, commits, repository.prefix), str(folder))
        except BaseException as error:
            has_begun = _was_interrupted(error) or read_history(study).plans
            stays = folder.is_relative_to(study) and bool(has_begun)
            raise
        finally:
            if not stays and _is_last(used):
                for commit in commits.values():
                    repository.remove(folder / commit)
                remove(folder)


def _was_interrupted(error: BaseException) -> bool:
    """Whether an error is none of the program: a signal to this process, to a worker or to the program, for example."""
    if isinstance(error, CallFailed) or not isinstance(error, UsageError):
        return True
    message = str(error)
    return not message.startswith("arenas.") or "ended with signal" in message


def _revisions(suite: Suite) -> dict[str, VariantPlan]:
    """The variants of a suite that have a revision, by name."""
    variants = {}
    for name, plan in suite.optimizers.items():
        if plan.variant is not None and plan.variant.revision:
            variants[name] = plan.variant
    return variants


def _fixed(folder: Path, history: History) -> dict[str, str]:
    """The commit of each revision with which the study has begun; none for a revision that is new to it."""
    fixed = {}
    for plan in history.plans:
        for variant in _revisions(plan.study.suite).values():
            fixed[variant.revision] = variant.commit
    with suppress(FileNotFoundError):
        fixed.update(json.loads((folder / COMMITS).read_text()))
    return fixed


def _commit(
    repository: Repository,
    name: str,
    revision: str,
    fixed: Mapping[str, str],
    study: Path,
    say: Callable[[str], None],
) -> str:
    """The commit of a variant's revision: the one with which the study has begun, or else the present one.

    Raises:
        UsageError: git does not know the revision, or the commit is no longer in the repository.
    """
    shown = "the working tree" if revision == WORKING_TREE else revision
    commit = fixed.get(revision)
    if commit is None:
        commit = repository.commit(name, revision, study)
        say(f"{name}: {shown}, commit {commit[:NAMED]}")
        return commit
    if not repository.has(commit):
        reason = f"the study began with commit {commit[:NAMED]} of {shown}, which is not in {repository.root}"
        raise UsageError(f"variants.{name}: {reason}; fetch it, or give another --output-dir for a new study")
    line = f"{name}: {shown}, commit {commit[:NAMED]}"
    present = _present(repository, name, revision, study)
    if commit != present:
        now = f"it is {present[:NAMED]}" if present else "git knows no such revision"
        line += f", as when the study began; now {now}, and a study of that needs another --output-dir"
    say(line)
    return commit


def _present(repository: Repository, name: str, revision: str, study: Path) -> str:
    """The commit of a revision as it is now; empty if git does not know it any more."""
    try:
        return repository.commit(name, revision, study)
    except UsageError:
        return ""


def _with_commits(suite: Suite, commits: Mapping[str, str], prefix: str) -> Suite:
    """A suite whose variants run in a folder of the commits of their revisions."""
    plans = dict(suite.optimizers)
    for name, commit in commits.items():
        variant = plans[name].variant
        assert variant is not None
        plans[name] = replace(plans[name], variant=replace(variant, commit=commit, folder=prefix))
    return replace(suite, optimizers=plans)


@contextmanager
def _locked(file: Path, kind: int) -> Iterator[IO[str]]:
    """Hold a lock on a file. It ends with the process, also with one that is killed."""
    with file.open("a") as opened:
        fcntl.flock(opened, kind)
        yield opened


def _is_last(used: IO[str]) -> bool:
    """Whether no other process holds a lock on this file, which this process has locked."""
    try:
        fcntl.flock(used, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
