"""The examples run as a user runs them."""

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GROUPS = {"accelerate_loop": "accelerate", "transformers_trainer": "trainer", "lightning_module": "lightning"}
"""For each example the worker that has imported its libraries."""

EXAMPLES = []
for path in sorted((ROOT / "examples").glob("*.py")):
    worker = pytest.mark.xdist_group(GROUPS[path.stem])
    EXAMPLES.append(pytest.param(path, marks=worker, id=path.stem))


@pytest.fixture
def settings():
    """What a script sets for itself and would leave behind here."""
    import accelerate.state
    import torch

    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()


@pytest.fixture
def fewer_digits(monkeypatch):
    """A quarter of the images: whether a script runs does not depend on their number, and bfloat16 is slow here."""
    import sklearn.datasets

    digits = sklearn.datasets.load_digits()
    fewer = type(digits)(images=digits.images[::4], target=digits.target[::4])
    monkeypatch.setattr(sklearn.datasets, "load_digits", lambda: fewer)


@pytest.mark.parametrize("example", EXAMPLES)
def test_runs(example, tmp_path, monkeypatch, capsys, settings, fewer_digits) -> None:
    """In this process, which has the libraries loaded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(example)])
    runpy.run_path(str(example), run_name="__main__")
    assert "gate_share" in capsys.readouterr().out
