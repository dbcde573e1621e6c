"""A change that is taken back from a stack, while all later changes stay."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from fairbench.common.formatting import short_hash
from fairbench.common.git import git, git_output
from fairbench.gate.repository import files_of
from fairbench.gate.session import Keep
from fairbench.runner.git import Repository, own_index


class Edit(NamedTuple):
    """Lines that another version of a file has in place of the lines from `start` to before `stop`."""

    start: int
    stop: int
    lines: tuple[bytes, ...]


class SameLines(Exception):
    """Two changes edit the same lines, or a file that has no lines."""


def without(repository: Repository, base: str, keep: Keep) -> str | None:
    """A commit of base without what a keep has changed; None if later changes edit the same lines."""
    before = files_of(repository, keep.onto)
    after = files_of(repository, keep.commit)
    now = files_of(repository, base)
    changed = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    with own_index() as variables:
        git(repository.root, "read-tree", base, variables=variables)
        scratch = Path(f"{variables['GIT_INDEX_FILE']}.file")
        for path in changed:
            versions = (before.get(path), after.get(path), now.get(path))
            try:
                entry = _entry_without(repository, versions, scratch)
            except SameLines:
                return None
            if entry is None:
                update = ["--force-remove", "--", path]
            else:
                mode, _, content = entry.split()
                update = ["--add", "--cacheinfo", f"{mode},{content},{path}"]
            git(repository.root, "update-index", *update, variables=variables)
        tree = git(repository.root, "write-tree", variables=variables)
        message = f"without {short_hash(keep.commit)}"
        return git(repository.root, "commit-tree", tree, "-p", base, "-m", message, variables=variables)


def _entry_without(
    repository: Repository, versions: tuple[str | None, str | None, str | None], scratch: Path
) -> str | None:
    """The entry of a file in the tree of a commit that takes a change of the file back; None for no file.

    Args:
        repository: the repository.
        versions: the entry before the change, after it, and now.
        scratch: a path for a file of this function.

    Raises:
        SameLines: a later change edits the same lines.
    """
    before, after, now = versions
    if now == after:
        return before
    if now == before:
        return now
    if before is None or after is None or now is None:
        raise SameLines
    if before.split()[:2] != after.split()[:2]:
        raise SameLines  # the change makes a file executable, or a link of it
    contents = [_lines(repository, entry) for entry in (before, after, now)]
    scratch.write_bytes(b"".join(taken_back(*contents)))
    content = git(repository.root, "hash-object", "-w", "--no-filters", str(scratch))
    mode, kind, _ = now.split()
    return f"{mode} {kind} {content}"


def _lines(repository: Repository, entry: str) -> list[bytes]:
    """The lines of a file, each with its end. Raises SameLines for a binary file or a submodule."""
    _, kind, content = entry.split()
    if kind != "blob":
        raise SameLines
    text = git_output(repository.root, "cat-file", "blob", content)
    if b"\0" in text:
        raise SameLines
    return text.splitlines(keepends=True)


def taken_back(before: Sequence[bytes], after: Sequence[bytes], now: Sequence[bytes]) -> list[bytes]:
    """The lines of a file now, with an earlier change of it taken back.

    In contrast to a merge by git, two changes of neighboring lines are two changes: constants stand below each other.

    Args:
        before: the lines before the change.
        after: the lines after it.
        now: the lines after later changes as well.

    Raises:
        SameLines: a later change edits the same lines, or both insert lines at the same place.
    """
    edits = sorted({*_edits(after, before), *_edits(after, now)})
    for first, second in pairwise(edits):
        overlap = second.start < first.stop
        both_insert = first.start == first.stop == second.start == second.stop
        if overlap or both_insert:
            raise SameLines
    lines: list[bytes] = []
    position = 0
    for edit in edits:
        lines += after[position : edit.start]
        lines += edit.lines
        position = edit.stop
    lines += after[position:]
    return lines


def _edits(old: Sequence[bytes], new: Sequence[bytes]) -> list[Edit]:
    """The edits that make new lines of old ones. Places are those in the old lines."""
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    edits = []
    for kind, start, stop, new_start, new_stop in matcher.get_opcodes():
        if kind != "equal":
            edits.append(Edit(start, stop, tuple(new[new_start:new_stop])))
    return edits
