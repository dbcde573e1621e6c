"""The pool of processes, started by the first test that uses it; and one thread for each worker that runs tests."""

import pytest
import torch
from processes import Processes

torch.set_num_threads(1)  # as many workers as cores: with more threads they wait for each other


@pytest.fixture(scope="session")
def processes():
    pool = Processes()
    yield pool
    pool.close()
