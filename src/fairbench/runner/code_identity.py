"""The code behind a trial's numbers: what is not installed by content, what is installed by name and version.

A module takes part if it defines the optimizer or the arena, if a module that takes part refers to it, or if it was
loaded only when the optimizer was built and took a step.
"""

import ast
import hashlib
import importlib
import inspect
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import Any

from fairbench.arenas.registry import load_arena

Code = dict[str, str]
"""What takes part: sha256 of a module, version of a distribution."""

BESIDE = ("fairbench", "psilogic")
"""Packages of which a trial refers to more than its numbers depend on."""
TRIAL = (
    "fairbench.training.trial",
    "fairbench.training.trainer",
    "fairbench.training.determinism",
    "fairbench.training.evaluation",
    "fairbench.training.phase_timer",
    "fairbench.training.optimizer_needs",
    "fairbench.training.mechanism",
    "fairbench.arenas.shocks.kinds",
    "fairbench.arenas.shocks.registry",
    *(f"fairbench.data.{name}" for name in ("batches", "transforms", "loading", "splits")),
)


def arena_code(task: str, before: Iterable[str]) -> Code:
    """What takes part in every trial of an arena, whatever the optimizer.

    Args:
        task: what it is loaded by.
        before: names of the modules that were loaded before the arena was.
    """
    arena = sys.modules[type(load_arena(task)).__module__]
    late = [sys.modules[name] for name in sys.modules.keys() - set(before)]
    waiting = [arena, *filter(_is_own, late), *map(importlib.import_module, TRIAL)]
    found: Code = {}
    seen: set[str] = set()
    while waiting:
        module = waiting.pop()
        if _name(module) in seen:
            continue
        seen.add(_name(module))
        found |= _content(module)
        for other in _referred(module):
            if _is_own(other) or _name(other).startswith("fairbench.arenas."):
                waiting.append(other)
            elif _top(other) not in BESIDE:
                found |= _installed(other)
    return dict(sorted(found.items()))


def arena_libraries(task: str) -> list[str]:
    """The modules that an arena's own module refers to, but for those of a user's: what its processes need."""
    referred = _referred(sys.modules[type(load_arena(task)).__module__])
    return [_name(module) for module in referred if not _is_own(module)]


def optimizer_code(factories: Iterable[Any], before: Iterable[str]) -> Code:
    """What takes part in a trial because of its optimizer.

    Args:
        factories: the class or function that makes the optimizer, and the one that makes its groups, if there is one.
        before: names of the modules that were loaded before the optimizer was.
    """
    parents = [p for x in factories for p in (inspect.getmro(x) if inspect.isclass(x) else [inspect.unwrap(x)])]
    modules = [inspect.getmodule(parent) for parent in parents]
    late = sys.modules.keys() - set(before)
    waiting = [module for module in modules if module is not None]
    waiting += [module for name, module in list(sys.modules.items()) if name in late and _is_own(module)]
    found: Code = {}
    seen: set[str] = set()
    while waiting:
        module = waiting.pop()
        if _name(module) in seen:
            continue
        seen.add(_name(module))
        if _top(module) == "fairbench":
            if module in modules:  # a control arm; what it refers to of fairbench is no part of it
                found |= _content(module)
                waiting += [other for other in _referred(module) if _top(other) == "psilogic"]
            continue
        found |= _installed(module)
        if not _where(module) and _file(module):
            found |= _content(module)
            waiting += _referred(module)
        elif _top(module) == "psilogic":  # built where it was installed
            found |= _content(module) if _is_extension(module) else {}
            waiting += [other for other in _referred(module) if _top(other) == "psilogic"]
    return dict(sorted(found.items()))  # whatever this process had loaded before


def _referred(module: ModuleType) -> list[ModuleType]:
    """The modules that a module's names come from."""
    names = set()
    for bound, value in list(vars(module).items()):
        name = _name(value) if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        # Whoever imports a module of a package binds it there, the package itself or anybody else.
        if isinstance(name, str) and (name != f"{_name(module)}.{bound}" or bound in _imported(module)):
            names.add(name)
    return [sys.modules[name] for name in sorted(names - {_name(module)}) if name in sys.modules]


def _imported(module: ModuleType) -> set[str]:
    """The names that a module's own import statements bind, but for those in functions."""
    try:
        body = ast.parse(inspect.getsource(module)).body
    except (OSError, TypeError):  # there is no source
        return set()
    aliases = [alias for x in body if isinstance(x, ast.Import | ast.ImportFrom) for alias in x.names]
    return {alias.asname or alias.name for alias in aliases}


def _name(module: ModuleType) -> str:
    """Its name in `sys.modules`; a compiled module may call itself otherwise."""
    spec = getattr(module, "__spec__", None)
    return str(spec.name if spec else module.__name__)


def _top(module: ModuleType) -> str:
    return _name(module).partition(".")[0]


def _file(module: ModuleType) -> Path | None:
    """The file of a module; None of one that is built in, or a package without a file."""
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if isinstance(file, str) and Path(file).is_file() else None


def _is_own(module: ModuleType) -> bool:
    """Whether it is a user's: a file that is not installed, and none of ours."""
    return _file(module) is not None and not _where(module) and _top(module) not in BESIDE


def _is_extension(module: ModuleType) -> bool:
    file = _file(module)
    return file is not None and file.name.endswith(tuple(EXTENSION_SUFFIXES))


@cache
def _roots() -> dict[str, list[Path]]:
    paths = {"standard library": ("stdlib", "platstdlib"), "installed": ("purelib", "platlib")}
    return {where: [Path(sysconfig.get_path(name)).resolve() for name in names] for where, names in paths.items()}


def _where(module: ModuleType) -> str:
    """Either "installed" or "standard library", empty for what is neither."""
    file = _file(module)
    if file is None:
        return "" if getattr(module, "__path__", None) else "standard library"
    if {"site-packages", "dist-packages"} & set(file.parts) or any(map(file.is_relative_to, _roots()["installed"])):
        return "installed"
    return "standard library" if any(map(file.is_relative_to, _roots()["standard library"])) else ""


def _installed(module: ModuleType) -> Code:
    """Name and version of the distributions of an installed module; its content where no distribution has it."""
    if _where(module) != "installed":
        return {}
    from fairbench.runner.installed_distributions import DISTRIBUTIONS_OF  # only where it is asked for

    names = DISTRIBUTIONS_OF.get(_top(module), [])
    return {name: metadata.version(name) for name in names} or _content(module)


def _content(module: ModuleType) -> Code:
    """sha256 of a module's file."""
    file = _file(module)
    return {} if file is None else {_name(module): hashlib.sha256(file.read_bytes()).hexdigest()[:16]}
