"""The source of a class or function that is defined in a notebook or a script, as a module of its own."""

import ast
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
    """The text of a module that defines a class or function of `__main__` and everything that the definition uses.

    These are imports, constants, classes and functions. Constants have their present values. The same source always
    gives the same text.

    Raises:
        UsageError: the source is not known, or it uses something that cannot be written down.
    """
    module = _Module(defined.__name__)
    module.define(defined.__name__, defined)
    imports = "\n".join(sorted(module.imports))
    constants = "\n".join(module.constants)
    parts = [part for part in (imports, constants, *module.definitions) if part]
    return "\n\n\n".join(parts) + "\n"


class _Module:
    """The parts of the module. A definition is added after the definitions that it uses."""

    def __init__(self, subject: str) -> None:
        self.imports: set[str] = set()
        self.constants: list[str] = []
        self.definitions: list[str] = []
        self._subject = subject
        self._known: set[str] = set()  # names that are already handled

    def define(self, name: str, value: Any) -> None:
        """Add a class or function of `__main__` after everything that it uses. `name` is what other code calls it."""
        defined = inspect.unwrap(value)
        if "<locals>" in defined.__qualname__:
            raise self._refusal(f"{name} is defined inside a function")
        text = _text(defined)
        if text is None:
            raise self._refusal(f"the source of {name} is not known here")
        self._known.add(name)
        scope = sys.modules[MAIN].__dict__
        for used in sorted(_globals(text)):
            if used in scope and used not in self._known:  # a missing name is an error in the notebook too
                self._known.add(used)
                self._use(used, scope[used], text)
        self.definitions.append(text)
        if name != defined.__name__:  # it is also used by another name
            self.definitions.append(f"{name} = {defined.__name__}")

    def _use(self, name: str, value: Any, text: str) -> None:
        """Add what a definition with this text uses by a name: a module, a definition, an import or a constant."""
        if isinstance(value, ModuleType):
            self._import(name, value.__name__, text)
        elif is_in_main(value):
            self.define(name, value)
        elif _is_importable(value):
            self.imports.add(f"from {value.__module__} import {value.__qualname__} as {name}")
        elif _is_constant(value):
            self.constants.append(f"{name} = {value!r}")
        else:
            raise self._refusal(f"it uses {name}, of type {type(value).__name__}, which cannot be written to a file")

    def _import(self, name: str, module: str, text: str) -> None:
        """Import a module by the name that a definition uses, and also the submodules that the definition uses."""
        if name == module:
            self.imports.add(f"import {name}")
        else:
            self.imports.add(f"import {module} as {name}")
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Attribute):
                continue
            path = ast.unparse(node)
            submodule = module + path.removeprefix(name)
            if path.startswith(f"{name}.") and submodule in sys.modules:
                # in a trial no other import may have loaded it
                self.imports.add(f"import {submodule}")

    def _refusal(self, reason: str) -> UsageError:
        """The error that the class or function cannot be used in trials, with the reason and a remedy."""
        return UsageError(f"{self._subject} cannot be used in trials, which run in other processes: {reason}; {REMEDY}")


def _text(defined: Any) -> str | None:
    """The source of a class or function at the top level of a cell or script; None if the source is not known."""
    for function in _functions(defined):
        lines = linecache.getlines(function.__code__.co_filename)
        try:
            statements = ast.parse("".join(lines)).body
        except SyntaxError:  # a cell may hold commands of the notebook
            continue
        for statement in statements:
            if not isinstance(statement, ast.ClassDef | ast.FunctionDef) or statement.name != defined.__name__:
                continue
            first = min([statement.lineno, *(decorator.lineno for decorator in statement.decorator_list)])
            last = statement.end_lineno or 0
            # a cell may define the name twice: the right definition contains the function
            if first <= function.__code__.co_firstlineno <= last:
                return "".join(lines[first - 1 : last]).rstrip("\n")
    return None


def _functions(defined: Any) -> Iterator[FunctionType]:
    """The functions whose code says where a definition is: the methods of a class, or the function itself."""
    if isinstance(defined, FunctionType):
        yield defined
        return
    for member in vars(defined).values():
        getter = getattr(member, "fget", member)  # of a property
        function = inspect.unwrap(getattr(member, "__func__", getter))  # of a class or static method
        if not isinstance(function, FunctionType):
            continue
        if function.__qualname__.startswith(f"{defined.__qualname__}."):
            yield function


def _globals(text: str) -> set[str]:
    """The names in a definition that come from its module or from the builtins."""
    top = symtable.symtable(text, "source", "exec")
    assigned = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned()}
    used: set[str] = set()
    waiting = [top]
    while waiting:
        table = waiting.pop()
        waiting += table.get_children()
        for symbol in table.get_symbols():
            if symbol.is_global() and symbol.is_referenced():
                used.add(symbol.get_name())
    return used - assigned


def _is_importable(value: Any) -> bool:
    """Whether an object such as a class or a function can be imported from its module by its name."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", "")
    if not isinstance(module, str):
        return False
    return getattr(sys.modules.get(module), name, None) is value


def _is_constant(value: Any) -> bool:
    """Whether a value consists of literals such as numbers and texts, so that its `repr` is its source."""
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False
