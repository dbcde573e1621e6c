"""One small study for all tests of the Python interface, run by it."""

import pytest
from tiny import write_tiny

import fairbench as fb


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A working directory with the tiny suite, its optimizers and the study results/mine."""
    made = tmp_path_factory.mktemp("api")
    write_tiny(made)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        fb.run("tiny.toml", "results/mine", workers=2, progress=False)
    return made


@pytest.fixture
def here(folder, monkeypatch):
    """The same, as the working directory."""
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def study(here):
    """The study, opened."""
    return fb.open("results/mine")
