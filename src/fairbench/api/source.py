"""The source of a class or function that is defined in a notebook or a script, as a module of its own."""

import ast
import builtins
import inspect
import linecache
import symtable
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from fairbench.common.errors import UsageError

MAIN = "__main__"
REMEDY = "pass it as an argument, define it inside the class, or put the class into a file: path/to/file.py:Class"


def is_in_main(value: Any) -> bool:
    """Whether a class or function is defined in a notebook or in the script that runs."""
    return getattr(value, "__module__", None) == MAIN and hasattr(value, "__qualname__")


def source_of(defined: Any) -> str:
    """A module with a class or function of `__main__`, and what it uses: imports, constants, classes and functions.

    Constants have their present values. The same source always gives the same text.

    Raises:
        UsageError: the source is not known, or it uses something that cannot be written down.
    """
    module = _Module(defined.__name__)
    module.define(defined.__name__, defined)
    parts = ["\n".join(sorted(module.imports)), "\n".join(module.constants), *module.definitions]
    return "\n\n\n".join(part for part in parts if part) + "\n"


class _Module:
    """The parts of the module, each added after those that it uses."""

    def __init__(self, subject: str) -> None:
        self.imports: set[str] = set()
        self.constants: list[str] = []
        self.definitions: list[str] = []
        self._subject = subject
        self._known: set[str] = set()

    def define(self, name: str, value: Any) -> None:
        """Add a class or function of `__main__`, after what it uses."""
        defined = inspect.unwrap(value)
        if "<locals>" in defined.__qualname__:
            raise self._refusal(f"{name} is defined inside a function")
        text = _text(defined)
        if text is None:
            raise self._refusal(f"the source of {name} is not known here")
        self._known.add(name)
        scope = sys.modules[MAIN].__dict__
        for used in sorted(_globals(text)):
            if used not in self._known and (used in scope or not hasattr(builtins, used)):
                self._known.add(used)
                if used in scope:  # otherwise it would be missing in the notebook as well
                    self._use(used, scope[used], text)
        self.definitions.append(text)
        if name != defined.__name__:
            self.definitions.append(f"{name} = {defined.__name__}")

    def _use(self, name: str, value: Any, text: str) -> None:
        if isinstance(value, ModuleType):
            self.imports.add(f"import {value.__name__} as {name}" if name != value.__name__ else f"import {name}")
            for node in ast.walk(ast.parse(text)):  # its submodules, which another import may have loaded
                path = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
                if path.startswith(f"{name}.") and (full := value.__name__ + path.removeprefix(name)) in sys.modules:
                    self.imports.add(f"import {full}")
        elif is_in_main(value):
            self.define(name, value)
        elif _is_importable(value):
            self.imports.add(f"from {value.__module__} import {value.__qualname__} as {name}")
        elif _is_constant(value):
            self.constants.append(f"{name} = {value!r}")
        else:
            raise self._refusal(f"it uses {name}, of type {type(value).__name__}, which cannot be written to a file")

    def _refusal(self, reason: str) -> UsageError:
        return UsageError(f"{self._subject} cannot be used in trials, which run in other processes: {reason}; {REMEDY}")


def _text(defined: Any) -> str | None:
    """The source of a class or function at the top of a cell or script; None if it is not known."""
    for function in _functions(defined):
        lines = linecache.getlines(function.__code__.co_filename)
        try:
            statements = ast.parse("".join(lines)).body
        except SyntaxError:
            continue
        for statement in statements:
            if not (isinstance(statement, ast.ClassDef | ast.FunctionDef) and statement.name == defined.__name__):
                continue
            first = min([statement.lineno, *(x.lineno for x in statement.decorator_list)])
            if first <= function.__code__.co_firstlineno <= (statement.end_lineno or 0):
                return "".join(lines[first - 1 : statement.end_lineno]).rstrip("\n")
    return None


def _functions(defined: Any) -> Iterator[FunctionType]:
    """The functions that tell in which file a class or function is defined: its methods, or itself."""
    if isinstance(defined, FunctionType):
        yield defined
        return
    for member in vars(defined).values():
        function = inspect.unwrap(getattr(member, "__func__", getattr(member, "fget", member)))
        if isinstance(function, FunctionType) and function.__qualname__.startswith(f"{defined.__qualname__}."):
            yield function


def _globals(text: str) -> set[str]:
    """The names that a definition takes from its module, or from the builtins."""
    top, names = symtable.symtable(text, "source", "exec"), set[str]()
    waiting = [top]
    while waiting:
        table = waiting.pop()
        waiting += table.get_children()
        names |= {x.get_name() for x in table.get_symbols() if x.is_global() and x.is_referenced()}
    return names - {x.get_name() for x in top.get_symbols() if x.is_assigned()}


def _is_importable(value: Any) -> bool:
    """Whether a class, a function or the like can be imported from its module by its name."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    return isinstance(module, str) and getattr(sys.modules.get(module), name, None) is value


def _is_constant(value: Any) -> bool:
    """Whether a value is made of numbers, texts and the like, so that its `repr` is its source."""
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False
