"""The code that a trial's numbers depend on: a user's modules by content, installed ones by name and version.

A module takes part if it defines the optimizer or the arena, if a module that takes part refers to it, or if it was
loaded while the optimizer was built and took its first steps. A trial that loads any other module of the user fails.
"""

import ast
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType
from typing import Any

from fairbench.arenas.base import Arena
from fairbench.common.errors import UsageError
from fairbench.common.imports import module_of
from fairbench.common.loaded_modules import (
    OURS,
    content_hash,
    is_of_user,
    module_file,
    module_name,
    origin_of,
    top_package,
)
from fairbench.optimizers.factories import load_factory, unwrap_factory

Code = dict[str, str]
"""sha256 of a module by its name, version of a distribution by its name."""

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
    "fairbench.data.batches",
    "fairbench.data.transforms",
    "fairbench.data.loading",
    "fairbench.data.splits",
)
"""Modules on which the numbers of every trial depend."""


def arena_code(arena: Arena, before: Iterable[str]) -> Code:
    """The code that takes part in every trial of an arena; `before` names the modules that were loaded before it."""

    def visit(module: ModuleType) -> tuple[Code, list[ModuleType]]:
        code = _content(module)
        further = []
        for other in _referred(module):
            if is_of_user(other) or module_name(other).startswith("fairbench.arenas."):
                further.append(other)
            elif top_package(other) not in OURS:
                code |= _installed(other)
        return code, further

    modules = [_modules_of(type(arena))[0]]
    modules += _modules_of_user(before)
    modules += [importlib.import_module(name) for name in TRIAL]
    return _walk(modules, visit)


def arena_libraries(arena: Arena) -> set[str]:
    """The modules, except the user's, that an arena's module refers to."""
    referred = _referred(sys.modules[type(arena).__module__])
    return {module_name(module) for module in referred if not is_of_user(module)}


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
        of_psilogic = [other for other in _referred(module) if top_package(other) == "psilogic"]
        if top_package(module) == "fairbench":
            # only a control arm takes part, without the modules of fairbench that it uses
            if module in modules:
                return _content(module), of_psilogic
            return {}, []
        code = _installed(module)
        if not origin_of(module) and module_file(module):
            return code | _content(module), _referred(module)
        if top_package(module) == "psilogic":  # installed, with extensions that were compiled during the installation
            is_extension = str(module_file(module)).endswith(tuple(EXTENSION_SUFFIXES))
            if is_extension:
                code |= _content(module)
            return code, of_psilogic
        return code, []

    return _walk([*modules, *_modules_of_user(before)], visit)


def _modules_of_user(before: Iterable[str]) -> list[ModuleType]:
    """The user's modules that were loaded later than those named."""
    late = sys.modules.keys() - set(before)
    return [module for name, module in list(sys.modules.items()) if name in late and is_of_user(module)]


def _modules_of(factory: Any) -> list[ModuleType]:
    """The modules of a class and of those that it inherits from, or of a function; each must have a source file."""
    modules = []
    definitions = inspect.getmro(factory) if inspect.isclass(factory) else [factory]
    for each in definitions:
        module = inspect.getmodule(each)
        is_python = module and top_package(module) in sys.stdlib_module_names and hasattr(module, each.__name__)
        if module is None or not (is_python or module_file(module)):
            named = f"{each.__module__}.{each.__qualname__} has no source file, so that an edit of it would not be seen"
            raise UsageError(f"{named}: put it into a file, and name it path/to/file.py:{each.__name__}")
        modules.append(module)
    return modules


def _walk(modules: list[ModuleType], visit: Callable[[ModuleType], tuple[Code, list[ModuleType]]]) -> Code:
    """The code of modules and of all that they lead to; `visit` gives the code of one module and the next modules."""
    code: Code = {}
    seen: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module_name(module) not in seen:
            seen.add(module_name(module))
            of_module, further = visit(module)
            code |= of_module
            waiting += further
    return dict(sorted(code.items()))  # whatever was loaded before


def _referred(module: ModuleType) -> list[ModuleType]:
    """The modules that a module's global names come from, by name."""
    own = module_name(module)
    names = set()
    for bound, value in list(vars(module).items()):
        name = module_name(value) if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if not isinstance(name, str) or name == own:
            continue
        # Importing a submodule binds it in its package, even if another module imports it.
        if name == f"{own}.{bound}" and bound not in _imported(module):
            continue
        names.add(name)
    return [sys.modules[name] for name in sorted(names) if name in sys.modules]


@cache
def _imported(module: ModuleType) -> set[str]:
    """The names that a module's import statements bind, except those in functions."""
    try:
        body = ast.parse(inspect.getsource(module)).body
    except (OSError, TypeError):  # it has no source
        return set()
    bound = set()
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            bound |= {alias.asname or alias.name for alias in statement.names}
    return bound


@cache
def distributions_of() -> dict[str, list[str]]:
    """The names of the installed distributions by top-level module; slow, since it reads all of their metadata."""
    return {top: sorted(set(names)) for top, names in metadata.packages_distributions().items()}


def _installed(module: ModuleType) -> Code:
    """Versions of the distributions of an installed module; its content if no distribution has it."""
    if origin_of(module) != "installed":
        return {}
    names = distributions_of().get(top_package(module), [])
    if not names:
        return _content(module)
    return {name: metadata.version(name) for name in names}


def _content(module: ModuleType) -> Code:
    digest = content_hash(module)
    if digest is None:
        return {}
    return {module_name(module): digest}
