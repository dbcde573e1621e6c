"""The small study for all tests of the Python interface."""

import pytest

import fairbench as fb


@pytest.fixture
def here(tiny_run, monkeypatch):
    """Its folder, as the working directory."""
    monkeypatch.chdir(tiny_run)
    return tiny_run


@pytest.fixture
def study(here):
    """The study, opened."""
    return fb.open("results/mine")
