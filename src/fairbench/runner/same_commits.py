"""Variants of a program whose revisions are the same commit, and changes of the checkout that no variant trains."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from fairbench.common.errors import UsageError
from fairbench.common.formatting import short_hash, some
from fairbench.runner.git import WORKING_TREE, Repository
from fairbench.suites.schema import Suite
from fairbench.suites.variants import is_same_but_for_code


def check_commits(suite: Suite, repository: Repository, commits: Mapping[str, str], changed: Sequence[str]) -> None:
    """Raise `UsageError` if two variants differ in their revisions alone, and these are the same commit.

    A repeated revision is no mistake here: that is how `fairbench noise` repeats a variant.

    Args:
        suite: the suite.
        repository: the repository of the program.
        commits: the commit of each variant that has a revision.
        changed: the files of the checkout that were changed since the last commit.
    """
    for name, other in combinations(commits, 2):
        variant = suite.optimizers[name].variant
        other_variant = suite.optimizers[other].variant
        assert variant is not None
        assert other_variant is not None
        revisions = (variant.revision, other_variant.revision)
        if revisions[0] == revisions[1] or not is_same_but_for_code(suite.optimizers[name], suite.optimizers[other]):
            continue
        is_same = commits[name] == commits[other]
        if WORKING_TREE in revisions:
            is_same = repository.tree(commits[name]) == repository.tree(commits[other])
        if is_same:
            raise UsageError(f"{name} and {other} {_what_and_advice(revisions, commits[name], changed)}")


def _what_and_advice(revisions: tuple[str, str], commit: str, changed: Sequence[str]) -> str:
    """What two variants share, and what to do."""
    if WORKING_TREE in revisions:
        return "have the same files; change one, or name another commit, such as @HEAD~1"
    if changed:
        return f"are the same commit {short_hash(commit)}; {_uncommitted(changed)}: write `@` for the working tree"
    return f"are the same commit {short_hash(commit)}, and nothing is uncommitted; name another commit, such as @HEAD~1"


def _uncommitted(changed: Sequence[str]) -> str:
    """The files of a checkout that were changed, in words."""
    if len(changed) == 1:
        return f"{changed[0]} has uncommitted changes"
    return f"{some(changed)} have uncommitted changes"


def untrained_changes(suite: Suite, commits: Mapping[str, str], changed: Sequence[str]) -> str:
    """A message on changed files of the checkout that no variant trains; empty without any.

    Where commits were given in full, as `fairbench gate` gives them, nothing was meant to be the checkout.
    """
    named = False
    for name, plan in suite.optimizers.items():
        variant = plan.variant
        if variant is None or variant.revision == WORKING_TREE or not (variant.revision or variant.folder):
            return ""
        if variant.revision and variant.revision != commits[name]:
            named = True
    if not named or not changed:
        return ""
    return f"{_uncommitted(changed)}, which no variant trains; `@` is the working tree"
