"""Every public class, function and method has an example in its docstring, and it runs."""

import doctest
import inspect
import os
from pathlib import Path

import pytest

import fairbench as fb

pytestmark = pytest.mark.xdist_group("servers")


def public():
    """The public objects by their names."""
    for name in fb.__all__:
        value = getattr(fb, name)
        if not isinstance(value, str):
            yield name, value
        if inspect.isclass(value):
            yield from methods(name, value)


def methods(name, cls):
    """The public methods of a class by their names."""
    for member, defined in vars(cls).items():
        function = getattr(defined, "__func__", defined)
        if inspect.isfunction(function) and not member.startswith("_"):
            yield f"{name}.{member}", defined


def test_every_example_runs(here, no_figures):
    failures = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for name, value in public():
        names = {"fb": fb, "os": os, "Path": Path}
        example = doctest.DocTestParser().get_doctest(inspect.getdoc(value), names, name, None, None)
        if not example.examples:
            failures.append(f"{name} has no example")
        doctest.DocTestRunner(optionflags=flags).run(example, out=failures.append)
    assert not failures, "\n".join(failures)
