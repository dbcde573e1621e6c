"""Whatever another process wrote into a study: no traceback, and everything else continues."""

import os
import time

import pytest
from damage import damaged, read_everything, whole_study, write
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return whole_study(tmp_path_factory.mktemp("whole"))


def try_damage(whole, folders, examples, number):
    """Damage one to three files of a study, `examples` times."""
    made, missing, files = whole

    @seed(number)
    @settings(
        max_examples=examples, derandomize=False, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.lists(damaged(files), min_size=1, max_size=3))
    def read(changes):
        write(directory := folders.mktemp("damaged"), files, changes)
        read_everything(directory, made, missing)

    read()


def test_damaged_files_give_no_traceback(whole, tmp_path_factory):
    try_damage(whole, tmp_path_factory, 5, 0)


@pytest.mark.soak
def test_damaged_files_give_no_traceback_at_random(whole, tmp_path_factory):
    """For SOAK_MINUTES; SOAK_SEED repeats a number that was printed."""
    until = time.monotonic() + 60 * float(os.environ.get("SOAK_MINUTES", "30"))
    number = int(os.environ.get("SOAK_SEED", time.time()))
    while time.monotonic() < until:
        print(f"SOAK_SEED={number}", flush=True)
        try_damage(whole, tmp_path_factory, 100, number)
        number += 1
