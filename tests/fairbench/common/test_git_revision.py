"""The revision of code: the commit of the repository that tracks it, and the files of the code that differ."""

import subprocess
from pathlib import Path

import pytest

from fairbench.common.git_revision import Revision, revision_of

PACKAGE = Path("src/ours")


def git(*words):
    identity = ("-c", "user.name=me", "-c", "user.email=me@localhost")
    done = subprocess.run(["git", *identity, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def commit(tmp_path, monkeypatch):
    """The commit of a repository with a package and another file."""
    monkeypatch.chdir(tmp_path)
    PACKAGE.mkdir(parents=True)
    (PACKAGE / "main.py").write_text("first")
    Path("notes.md").write_text("first")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    return git("rev-parse", "HEAD")


def revision():
    return revision_of(PACKAGE / "main.py", [PACKAGE])


def test_only_files_of_the_code_are_changes(commit):
    Path("notes.md").write_text("second")
    Path("new.py").write_text("of something else")
    assert revision() == Revision(commit)
    assert str(revision()) == commit
    (PACKAGE / "main.py").write_text("second")
    (PACKAGE / "new").mkdir()
    (PACKAGE / "new" / "part.py").write_text("of the package")
    assert revision().changed == ("src/ours/main.py", "src/ours/new/")
    assert str(revision()) == f"{commit}+changes"


@pytest.mark.parametrize("ignored", ["", "venv\n"], ids=["untracked", "ignored"])
def test_code_that_is_installed_below_a_repository_has_no_revision(commit, ignored):
    Path(".gitignore").write_text(ignored)
    installed = Path("venv/lib/python/site-packages/ours")
    installed.mkdir(parents=True)
    (installed / "main.py").write_text("first")
    assert revision_of(installed / "main.py", [installed]) == Revision()


def test_a_folder_outside_of_repositories_has_no_revision(tmp_path):
    assert revision_of(tmp_path, [tmp_path]) == Revision()
