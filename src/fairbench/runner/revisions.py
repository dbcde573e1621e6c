"""Git revisions of a user's program, checked out for the variants of a study.

Each revision has a worktree of its own in the folder of the study. The user's checkout, its index and its stash stay as
they are. A revision is resolved to a commit when the study begins. The same command continues with these commits,
wherever the branches are by then, also after the end of the study. If the program fails before the first plan, the
study has not begun, so that its author can correct it.
"""

import fcntl
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from fairbench.arenas.program_command import ProgramCommand
from fairbench.common.errors import ProgramError, UsageError
from fairbench.common.files import remove, write_atomically
from fairbench.common.formatting import short_hash, some
from fairbench.optimizers.variant import VariantPlan
from fairbench.runner.git import WORKING_TREE, Repository, Worktree
from fairbench.runner.same_commits import check_commits, untrained_changes
from fairbench.study.folder import CONFIG
from fairbench.study.history import History
from fairbench.suites.schema import Suite

COMMITS = "commits.json"
"""The file in the folder of the worktrees with the commit of each revision."""


@dataclass(frozen=True)
class CheckedOut:
    """A suite whose variants have the commits of their revisions.

    Attributes:
        folder: the folder of the worktrees, each named by its commit; empty without any.
    """

    suite: Suite
    folder: str


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
    with _explained(next(iter(revisions))):
        repository = Repository.here()
    _check_commands(suite, revisions, repository)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "used", fcntl.LOCK_SH) as used:
        with _locked(folder / "changing", fcntl.LOCK_EX):
            fixed = _fixed(folder, history)
            for name, variant in revisions.items():
                with _explained(name):
                    fixed[variant.revision] = _commit(repository, name, variant.revision, fixed, study, say)
            commits = {name: fixed[variant.revision] for name, variant in revisions.items()}
            changed = repository.changed(study)
            check_commits(suite, repository, commits, changed)
            untrained = untrained_changes(suite, commits, changed)
            if untrained:
                say(untrained)
            write_atomically(folder / COMMITS, json.dumps(fixed))
            worktrees = _made_worktrees(repository, commits, folder, say)
        with _kept_if_interrupted(worktrees.values(), folder, study, used):
            yield CheckedOut(_with_commits(suite, worktrees, repository.prefix), str(folder))


@contextmanager
def _kept_if_interrupted(worktrees: Iterable[Worktree], folder: Path, study: Path, used: IO[str]) -> Iterator[None]:
    """Remove worktrees and their folder at the end of the `with` block, unless they are still needed.

    The same command needs them if the study was interrupted after it has begun, and so does another driver. `used` is
    the file that each driver has locked.
    """
    stays = False
    try:
        yield
    except BaseException as error:
        has_begun = _was_interrupted(error) or (study / CONFIG).exists()
        stays = folder.is_relative_to(study) and has_begun
        raise
    finally:
        if not stays and _is_last(used):
            for worktree in worktrees:
                worktree.remove()
            remove(folder)


def _check_commands(suite: Suite, revisions: Mapping[str, VariantPlan], repository: Repository) -> None:
    """Raise `UsageError` if the command of a variant names a file of the user's checkout by its absolute path."""
    for name, variant in revisions.items():
        for plan in suite.arenas.values():
            command = ProgramCommand(plan.model["program"], variant.args)
            with _explained(name):
                repository.check_words(command.words)


def _made_worktrees(
    repository: Repository, commits: Mapping[str, str], folder: Path, say: Callable[[str], None]
) -> dict[str, Worktree]:
    """The worktree of the commit of each variant. A message says what it lacks."""
    worktrees = {}
    for name, commit in commits.items():
        worktrees[name] = Worktree(repository.root, commit, folder / commit)
        missing = worktrees[name].check_out()
        if missing:
            say(f"{name}: not in its checkout: {some(missing)}")
    return worktrees


@contextmanager
def _explained(variant: str) -> Iterator[None]:
    """Say in an error of git on which variant's revision it is."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"variant {variant}: {error}") from None


def _was_interrupted(error: BaseException) -> bool:
    """Whether an error is none of the program: a signal to this process, to a worker or to the program, for example."""
    return not isinstance(error, ProgramError)


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
        commit = repository.commit(revision, study)
        if commit != revision:
            say(f"{name}: {shown}, commit {short_hash(commit)}")
        return commit
    if not repository.has(commit):
        reason = f"the study began with commit {short_hash(commit)} of {shown}, which is not in {repository.root}"
        raise UsageError(f"{reason}; fetch it, or give another --output-dir for a new study")
    if commit == revision:
        return commit
    line = f"{name}: {shown}, commit {short_hash(commit)}"
    try:
        present = repository.commit(revision, study)
        now = f"it is {short_hash(present)}"
    except UsageError:
        present = ""
        now = "git knows no such revision"
    if commit != present:
        line += f", as when the study began; now {now}, and a study of that needs another --output-dir"
    say(line)
    return commit


def _with_commits(suite: Suite, worktrees: Mapping[str, Worktree], prefix: str) -> Suite:
    """A suite whose variants run in a folder of the commits of their revisions."""
    plans = dict(suite.optimizers)
    for name, worktree in worktrees.items():
        variant = plans[name].variant
        assert variant is not None
        plans[name] = replace(plans[name], variant=replace(variant, commit=worktree.commit, folder=prefix))
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
