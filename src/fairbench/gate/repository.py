"""What a session asks the git repository of the program."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.common.formatting import short_hash, some
from fairbench.common.git import git
from fairbench.gate.session import Entry
from fairbench.runner.git import AUTHOR, WORKING_TREE, Repository

REFS = "refs/fairbench/gate"
"""The references that keep the commits of sessions from being removed by git."""
FOLDER = Path("fairbench/gate")
"""The folder of all sessions in the git directory, where neither `git reset --hard` nor `git clean` removes it."""


def common_folder(repository: Repository) -> Path:
    """The folder of all sessions of a repository. All of its worktrees have the same."""
    found = git(repository.root, "rev-parse", "--git-common-dir")
    return (repository.root / found).resolve() / FOLDER


def commit_of(repository: Repository, revision: str) -> str:
    """The commit of a revision.

    Args:
        repository: the repository.
        revision: a revision, "@" for the working tree; empty for HEAD, or the working tree if a tracked file differs.

    Raises:
        UsageError: there is no such revision.
    """
    if not revision:
        changed = git(repository.root, "status", "--porcelain", "--untracked-files=no")
        revision = WORKING_TREE if changed else "HEAD"
    return repository.commit(revision)


def tree_of(repository: Repository, commit: str) -> str:
    """The hash of all files of a commit."""
    return git(repository.root, "rev-parse", f"{commit}^{{tree}}")


def files_of(repository: Repository, commit: str) -> dict[str, str]:
    """The entry of each file of a commit, such as "100644 blob <hash>", by its path."""
    listed = git(repository.root, "ls-tree", "-r", "-z", "--full-tree", commit)
    entries = {}
    for line in listed.split("\0"):
        entry, _, path = line.partition("\t")
        if path:
            entries[path] = entry
    return entries


def subject_of(repository: Repository, commit: str) -> str:
    """The first line of the message of a commit."""
    return git(repository.root, "log", "-1", "--format=%s", commit)


def is_working_tree(repository: Repository, commit: str) -> bool:
    """Whether a commit was made of a working tree. It then has no parent that a branch could continue."""
    author = git(repository.root, "log", "-1", "--format=%an <%ae> %P", commit)
    return author == f"{AUTHOR['NAME']} <{AUTHOR['EMAIL']}> "


def keep_commit(repository: Repository, session: str, commit: str) -> None:
    """Keep a commit from being removed by git, also if no branch has it."""
    git(repository.root, "update-ref", f"{REFS}/{session}/{commit}", commit)


def protected_files(repository: Repository, commit: str, patterns: Iterable[str]) -> dict[str, str]:
    """The entry of each file of a commit that a pattern matches, by its path.

    Args:
        repository: the repository.
        commit: the commit.
        patterns: patterns of paths, relative to the folder in which the program runs; `*` also matches a slash.
    """
    prefix = f"{repository.prefix}/" if repository.prefix else ""
    wanted = [f"{prefix}{pattern}" for pattern in patterns]
    protected = {}
    for path, entry in files_of(repository, commit).items():
        if any(fnmatchcase(path, pattern) for pattern in wanted):
            protected[path] = entry
    return protected


def check_patterns(repository: Repository, commit: str, patterns: Iterable[str]) -> None:
    """Raise `UsageError` for the first pattern that matches no file of a commit."""
    for pattern in patterns:
        if not protected_files(repository, commit, [pattern]):
            raise UsageError(
                f"--protect {pattern!r} matches no file that git knows in {Path.cwd()}; "
                "git ls-files lists them, and 'eval/*' stands for all files below eval/"
            )


def check_protected(repository: Repository, commit: str, facts: Entry) -> None:
    """Raise `UsageError` if a commit changes a protected file.

    Args:
        repository: the repository.
        commit: the commit.
        facts: the first entry of the session, with the patterns and the files that they matched.
    """
    before = facts["protected"]
    now = protected_files(repository, commit, facts["patterns"])
    changed = [path for path in {**before, **now} if before.get(path) != now.get(path)]
    if changed:
        reason = f"{some(changed)} is protected, and differs from the one of the session's first base"
        raise UsageError(f"{short_hash(commit)}: {reason}; a try may not change what evaluates it")
