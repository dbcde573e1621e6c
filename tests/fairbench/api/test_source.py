"""The source of a class of a notebook: what it needs is written, and anything else is refused."""

import ast
import linecache
import sys
from types import ModuleType

import pytest

from fairbench.api.source import source_of
from fairbench.common.errors import UsageError


@pytest.fixture
def cells(monkeypatch):
    """Executes cells as a notebook does, and returns its names."""
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)

    def execute(*texts):
        for number, text in enumerate(texts):
            name = f"<cell {number}>"
            monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(keepends=True), name))
            exec(compile(text, name, "exec"), vars(main))
        return main

    return execute


USES = """
import math as maths
from collections import OrderedDict as Ordered
import xml.dom.minidom
SCALES = {"a": (1, 2.5), "b": [None, True]}
def twice(x):
    return 2 * x
""", """
class Base:
    def name(self):
        return type(self).__name__
double = twice
""", """
import functools

@functools.total_ordering
class Rule(Base):
    unused = len("abc")

    def __init__(self, x: float = maths.pi):
        local = [y for y in range(3)]
        self.values = local, x, double(SCALES["a"][1]), Ordered(a=1), xml.dom.minidom.Node.TEXT_NODE

    def __lt__(self, other):
        return super().name() < "a"
"""  # fmt: skip


def test_the_source_makes_the_same_class_in_an_empty_module(cells):
    main = cells(*USES)
    alone = {"__name__": "written"}
    exec(source_of(main.Rule), alone)
    assert alone["Rule"]().values == main.Rule().values
    assert alone["Rule"]().name() == "Rule"
    assert (alone["Rule"]() < 3) is True
    assert alone["Base"] is not main.Base
    assert alone["Rule"].__bases__ == (alone["Base"],)


def test_constants_have_their_present_values_and_the_last_definition_counts(cells):
    rule = "class Rule:\n    def step(self):\n        return RATE\n"
    main = cells("RATE = 1\n" + rule, "RATE = 2\n")
    assert source_of(main.Rule) == f"RATE = 2\n\n\n{rule}"
    main = cells("RATE = 3\n", rule.replace("return", "return 1 +"))
    assert "return 1 + RATE" in source_of(main.Rule)


def test_what_cannot_be_written_is_refused(cells, check_errors):
    check_errors("classes.txt", lambda text: source_of(cells(ast.literal_eval(text)).Rule), UsageError)
