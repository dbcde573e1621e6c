"""The pool of processes, started by the first test that uses it."""

import pytest
from processes import Processes


@pytest.fixture(scope="session")
def processes():
    pool = Processes()
    yield pool
    pool.close()
