"""A change is taken back from a stack, and all later changes stay."""

import subprocess
from pathlib import Path

import pytest
from repositories import git

from fairbench.gate.removal import SameLines, taken_back, without
from fairbench.gate.session import Keep
from fairbench.runner.git import Repository


def lines(text):
    return [f"{word}\n".encode() for word in text.split()]


@pytest.mark.parametrize(
    ("before", "after", "now", "expected"),
    [
        ("a b c", "a B c", "a B c", "a b c"),
        ("a b c", "a B c", "A B C", "A b C"),  # git sees a conflict of neighboring lines
        ("a b c", "a c", "a c C", "a b c C"),
        ("a c", "a b c", "A b c", "A c"),
        ("a c", "a b c", "a b x c", "a x c"),
        ("a b", "a B", "x y z a B", "x y z a b"),
        ("a b c d", "A b c D", "A x c D", "a x c d"),
        ("a b", "a B", "a b", "a b"),  # a later change has taken it back
    ],
)
def test_the_lines_without_a_change(before, after, now, expected):
    assert taken_back(lines(before), lines(after), lines(now)) == lines(expected)


@pytest.mark.parametrize(
    ("before", "after", "now"),
    [
        ("a b c", "a B c", "a BB c"),
        ("a b c", "a B c", "a c"),
        ("a b c", "a c", "a x c"),  # which of b and x comes first is not known
        ("a b c d", "a B C d", "a B CC d"),
    ],
)
def test_two_changes_of_the_same_lines(before, after, now):
    with pytest.raises(SameLines):
        taken_back(lines(before), lines(after), lines(now))


def commit(**files):
    """Write or remove some files, and commit."""
    for name, content in files.items():
        if content is None:
            Path(name).unlink()
        else:
            Path(name).write_bytes(content)
    git("add", "--all")
    git("commit", "-qm", "a change")
    return git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    git("config", "user.name", "me")
    git("config", "user.email", "me@localhost")
    return Repository.here()


def test_a_commit_without_a_change(repository):
    first = commit(train=b"lr 1\nbeta 2\n", gone=b"a file", weights=b"\0one", tool=b"stays")
    keep = commit(train=b"lr 10\nbeta 2\n", gone=None, new=b"no line end", weights=b"\0two")
    base = commit(train=b"lr 10\nbeta 20\nsteps 5\r\n", later=b"stays")
    removed = without(repository, base, Keep(keep, onto=first))
    train = subprocess.run(["git", "show", f"{removed}:train"], capture_output=True, check=True)
    assert train.stdout == b"lr 1\nbeta 20\nsteps 5\r\n"
    assert git("ls-tree", "--name-only", removed).split() == ["gone", "later", "tool", "train", "weights"]
    assert git("rev-parse", f"{removed}:weights") == git("rev-parse", f"{first}:weights")
    assert git("rev-parse", f"{removed}^") == base
    assert git("status", "--porcelain") == ""


@pytest.mark.parametrize("later", [b"\0three", None])
def test_a_binary_file_that_was_changed_again_or_removed(repository, later):
    first = commit(weights=b"\0one")
    keep = commit(weights=b"\0two")
    base = commit(weights=later)
    assert without(repository, base, Keep(keep, onto=first)) is None
