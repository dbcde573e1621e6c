"""The tiny suite as a file, as a suite, as a study, and as a study that has run."""

import subprocess
import sys

import pytest
import torch
from hypothesis import settings
from tiny import OUTSIDE_OF_GIT, TINY, Finished, study_of, write_tiny

from fairbench.optimizers.resolve import known_optimizers
from fairbench.suites.loader import load_suite

settings.register_profile("the same in every run", deadline=None, derandomize=True)
settings.load_profile("the same in every run")


@pytest.fixture(autouse=True)
def one_thread():
    """Some tests fork this process, and a fork of one in which torch had several threads waits for them for ever."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def forgetful():
    """The registry is read again in the test, and after it."""
    known_optimizers.cache_clear()
    yield
    known_optimizers.cache_clear()


@pytest.fixture
def tiny_file(tmp_path):
    return write_tiny(tmp_path)


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The tiny study with an own optimizer, a confirmed selection and two looks, in trials long enough to be killed."""
    folder = tmp_path_factory.mktemp("finished")
    text = TINY.replace("steps = 40", "steps = 120").replace("sweep_steps = 10", "sweep_steps = 60\n")
    text = text.replace("budget = 3", "confirm = 1").replace("seeds = [1, 2]", "seeds = [1, 2, 3]\nlooks = [2, 3]")
    write_tiny(folder, text)
    words = ["run", "--suite", "tiny.toml", "--only-optimizers", "AdamW,own_optimizers:Signs", "--reference", "Signs"]
    command = [sys.executable, "-m", "fairbench", *words, "--output-dir", "out", "--workers", "2"]
    done = subprocess.run(command, cwd=folder, env=OUTSIDE_OF_GIT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Finished(folder, words, done.stdout)


@pytest.fixture
def tiny_suite(tiny_file):
    return load_suite(str(tiny_file))


@pytest.fixture(scope="session")
def tiny_study(tmp_path_factory):
    """Rehearsed once: it is frozen, and belongs to no folder."""
    return study_of(load_suite(str(write_tiny(tmp_path_factory.mktemp("tiny")))))
