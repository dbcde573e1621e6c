"""The examples in the docstrings of everything public run."""

import doctest
import inspect
import sys
import warnings

import pytest
import torch

import psilogic
from psilogic.integrations.dcp import LoadPlanner

WITHOUT_EXAMPLE = ("Spike", "TensorChaos")
"""Records that are only read, as the monitor's example shows."""
PUBLIC = [getattr(psilogic, name) for name in psilogic.__all__ if name not in WITHOUT_EXAMPLE]
PUBLIC.append(LoadPlanner)


@pytest.mark.parametrize("public", PUBLIC, ids=lambda x: x.__name__)
def test_examples_run(public, tmp_path):
    module = sys.modules[public.__module__]
    names = {**vars(module), "torch": torch, "psilogic": psilogic, "folder": str(tmp_path)}
    (example,) = doctest.DocTestFinder(recurse=False).find(public, public.__name__, globs=names)
    assert example.examples, f"{inspect.getdoc(public)} has no example"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch.distributed, which warns that one process is alone
        runner = doctest.DocTestRunner()
        assert not runner.run(example).failed
