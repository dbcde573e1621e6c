"""The code that a trial's numbers depend on: a user's modules by content, installed ones by name and version.

A module takes part if it defines the optimizer or the arena, if a module that takes part refers to it, or if it was
loaded while the optimizer was built and took its first steps. A trial that loads any other module of the user fails.
"""

import ast
import hashlib
import importlib
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import Any

from fairbench.arenas.base import Arena
from fairbench.common.errors import UsageError
from fairbench.common.imports import module_of
from fairbench.optimizers.factories import load_factory, unwrap_factory

Code = dict[str, str]
"""sha256 of a module by its name, version of a distribution by its name."""

OURS = ("fairbench", "psilogic")
"""Packages whose modules do not all affect the numbers of a trial."""
TRIAL = (
    "fairbench.training.trial",
    "fairbench.training.trainer",
    "fairbench.training.determinism",
    "fairbench.training.digests",
    "fairbench.training.phase_timer",
    "fairbench.training.optimizer_needs",
    "fairbench.training.mechanism",
    "fairbench.training.schedules",
    "fairbench.arenas.shocks.kinds",
    "fairbench.arenas.shocks.registry",
    *(f"fairbench.data.{name}" for name in ("batches", "transforms", "loading", "splits")),
)
"""Modules on which the numbers of every trial depend."""


def arena_code(arena: Arena, before: Iterable[str]) -> Code:
    """The code that takes part in every trial of an arena; `before` names the modules that were loaded before it."""

    def visit(module: ModuleType) -> tuple[Code, list[ModuleType]]:
        code, further = _content(module), []
        for other in _referred(module):
            if _is_users(other) or _name(other).startswith("fairbench.arenas."):
                further.append(other)
            elif _top(other) not in OURS:
                code |= _installed(other)
        return code, further

    late = [sys.modules[name] for name in sys.modules.keys() - set(before)]
    return _walk([_modules_of(type(arena))[0], *filter(_is_users, late), *map(importlib.import_module, TRIAL)], visit)


def arena_libraries(arena: Arena) -> set[str]:
    """The modules, except the user's, that an arena's module refers to."""
    return {_name(module) for module in _referred(sys.modules[type(arena).__module__]) if not _is_users(module)}


def optimizer_code(references: Iterable[str], before: Iterable[str]) -> Code:
    """The code that takes part in a trial because of its optimizer, or of what makes its groups, each as `module:Name`.

    `before` names the modules that were loaded before the optimizer.
    """
    modules = []
    for reference in references:
        factory = load_factory(reference)
        modules += _modules_of(unwrap_factory(factory))
        if not (inspect.isclass(factory) or inspect.isfunction(factory)):  # as a partial, whose arguments are there
            modules.append(module_of(reference, "factory"))

    def visit(module: ModuleType) -> tuple[Code, list[ModuleType]]:
        of_psilogic = [other for other in _referred(module) if _top(other) == "psilogic"]
        if _top(module) == "fairbench":  # only a control arm takes part, without the modules of fairbench that it uses
            return (_content(module), of_psilogic) if module in modules else ({}, [])
        code = _installed(module)
        if not _where(module) and _file(module):
            return code | _content(module), _referred(module)
        if _top(module) == "psilogic":  # installed, with extensions that were compiled during the installation
            is_extension = str(_file(module)).endswith(tuple(EXTENSION_SUFFIXES))
            return code | (_content(module) if is_extension else {}), of_psilogic
        return code, []

    late = sys.modules.keys() - set(before)
    users = [module for name, module in list(sys.modules.items()) if name in late and _is_users(module)]
    return _walk([*modules, *users], visit)


def _modules_of(factory: Any) -> list[ModuleType]:
    """The modules of a class and of those that it inherits from, or of a function; each must have a source file."""
    modules = []
    for each in inspect.getmro(factory) if inspect.isclass(factory) else [factory]:
        module = inspect.getmodule(each)
        is_python = module and _top(module) in sys.stdlib_module_names and hasattr(module, each.__name__)
        if module is None or not (is_python or _file(module)):
            named = f"{each.__module__}.{each.__qualname__} has no source file, so that an edit of it would not be seen"
            raise UsageError(f"{named}: put it into a file, and name it path/to/file.py:{each.__name__}")
        modules.append(module)
    return modules


class LoadedCode:
    """Compares the user's modules that a trial loads with the code in its spec, each when it is first seen."""

    def __init__(self, code: Mapping[str, str]) -> None:
        self._code, self._seen = code, set(sys.modules)

    def check(self) -> None:
        """Raise `UsageError` if a module that was loaded since the last call is not in the spec as it is."""
        new = sys.modules.keys() - self._seen
        self._seen |= new
        for module in filter(_is_users, [sys.modules[name] for name in sorted(new)]):
            name = _name(module)
            if self._code.get(name) == _content(module)[name]:
                continue
            if name in self._code:
                raise UsageError(f"{_file(module)} was changed after this run had started: run the same command again")
            reason = f"the trial loaded the module {name} ({_file(module)}) late, and its identity does not contain it"
            raise UsageError(f"{reason}: import it at the top of the module that uses it")


def _walk(modules: list[ModuleType], visit: Callable[[ModuleType], tuple[Code, list[ModuleType]]]) -> Code:
    """The code of modules and of all that they lead to; `visit` gives the code of one module and the next modules."""
    code: Code = {}
    seen: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if _name(module) not in seen:
            seen.add(_name(module))
            of_module, further = visit(module)
            code |= of_module
            waiting += further
    return dict(sorted(code.items()))  # whatever was loaded before


def _referred(module: ModuleType) -> list[ModuleType]:
    names = set()
    for bound, value in list(vars(module).items()):
        name = _name(value) if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        # Importing a submodule binds it in its package, even if another module imports it.
        if isinstance(name, str) and (name != f"{_name(module)}.{bound}" or bound in _imported(module)):
            names.add(name)
    return [sys.modules[name] for name in sorted(names - {_name(module)}) if name in sys.modules]


@cache
def _imported(module: ModuleType) -> set[str]:
    """The names that a module's import statements bind, except those in functions."""
    try:
        body = ast.parse(inspect.getsource(module)).body
    except (OSError, TypeError):  # it has no source
        return set()
    aliases = [alias for x in body if isinstance(x, ast.Import | ast.ImportFrom) for alias in x.names]
    return {alias.asname or alias.name for alias in aliases}


def _name(module: ModuleType) -> str:
    """Its name in `sys.modules`; the `__name__` of a compiled module may differ."""
    spec = getattr(module, "__spec__", None)
    return str(spec.name if spec else module.__name__)


def _top(module: ModuleType) -> str:
    return _name(module).partition(".")[0]


def _file(module: ModuleType) -> Path | None:
    """The file of a module; None for a built-in one, or a package without a file."""
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if isinstance(file, str) and Path(file).is_file() else None


def _is_users(module: ModuleType) -> bool:
    """Whether it is a user's module: a file that is neither installed, nor one of ours, nor generated by a compiler.

    The modules of torch's compiler have names in packages that are installed, or that do not exist.
    """
    package = sys.modules.get(_top(module))
    is_generated = package is None or _where(package) == "installed"
    return _file(module) is not None and not _where(module) and _top(module) not in OURS and not is_generated


@cache
def _folders(*names: str) -> list[Path]:
    return [Path(sysconfig.get_path(name)).resolve() for name in names]


def _where(module: ModuleType) -> str:
    """Either "installed" or "standard library"; empty for other modules."""
    file = _file(module)
    if file is None:
        return "" if getattr(module, "__path__", None) else "standard library"
    installed = any(map(file.is_relative_to, _folders("purelib", "platlib")))
    if installed or {"site-packages", "dist-packages"} & set(file.parts):
        return "installed"
    return "standard library" if any(map(file.is_relative_to, _folders("stdlib", "platstdlib"))) else ""


@cache
def distributions_of() -> dict[str, list[str]]:
    """The names of the installed distributions by top-level module; slow, since it reads all of their metadata."""
    return {top: sorted(set(names)) for top, names in metadata.packages_distributions().items()}


def _installed(module: ModuleType) -> Code:
    """Versions of the distributions of an installed module; its content if no distribution has it."""
    if _where(module) != "installed":
        return {}
    names = distributions_of().get(_top(module), [])
    return {name: metadata.version(name) for name in names} or _content(module)


def _content(module: ModuleType) -> Code:
    file = _file(module)
    return {} if file is None else {_name(module): hashlib.sha256(file.read_bytes()).hexdigest()[:16]}
