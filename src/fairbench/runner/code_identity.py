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
    """The code that takes part in every trial of an arena.

    `before` names the modules that were loaded before the arena. Modules of the user that came later take part too.
    """

    def visit(module: ModuleType) -> tuple[Code, list[ModuleType]]:
        """The code of a module and of the libraries that it refers to, and the modules to visit next."""
        code = _content(module)
        further = []
        for other in _referred(module):
            if is_of_user(other) or module_name(other).startswith("fairbench.arenas."):
                further.append(other)
            elif top_package(other) not in OURS:
                code |= _installed(other)
        return code, further

    arena_module = _modules_of(type(arena))[0]
    modules = [arena_module]
    modules += _modules_of_user(before)
    modules += [importlib.import_module(name) for name in TRIAL]
    return _walk(modules, visit)


def arena_libraries(arena: Arena) -> set[str]:
    """The modules, except the user's, that an arena's module refers to."""
    referred = _referred(sys.modules[type(arena).__module__])
    return {module_name(module) for module in referred if not is_of_user(module)}


def optimizer_code(references: Iterable[str], before: Iterable[str]) -> Code:
    """The code that takes part in a trial because of its optimizer.

    Each reference is `module:Name`. It names what makes the optimizer, or what makes its groups of parameters. `before`
    names the modules that were loaded before the optimizer.
    """
    modules = []
    for reference in references:
        factory = load_factory(reference)
        modules += _modules_of(unwrap_factory(factory))
        if not (inspect.isclass(factory) or inspect.isfunction(factory)):
            # it is an object such as a partial: the module that defines it has its arguments
            modules.append(module_of(reference, "factory"))

    def visit(module: ModuleType) -> tuple[Code, list[ModuleType]]:
        """The code of a module, and the modules to visit next."""
        referred = _referred(module)
        psilogic_modules = [other for other in referred if top_package(other) == "psilogic"]
        if top_package(module) == "fairbench":
            # only a control arm takes part, without the modules of fairbench that it uses
            if module in modules:
                return _content(module), psilogic_modules
            return {}, []
        if module_file(module) and not origin_of(module):  # a file that is not installed
            return _content(module), referred
        code = _installed(module)
        if top_package(module) == "psilogic":
            # its version does not tell how its extensions were compiled during the installation
            is_extension = str(module_file(module)).endswith(tuple(EXTENSION_SUFFIXES))
            if is_extension:
                code |= _content(module)
            return code, psilogic_modules
        return code, []

    return _walk([*modules, *_modules_of_user(before)], visit)


def _modules_of_user(before: Iterable[str]) -> list[ModuleType]:
    """The modules of the user that were loaded after the modules with the names in `before`."""
    late = sys.modules.keys() - set(before)
    return [module for name, module in list(sys.modules.items()) if name in late and is_of_user(module)]


def _modules_of(factory: Any) -> list[ModuleType]:
    """The modules that define a class and its base classes, or a function. Each must have a source file."""
    modules = []
    definitions = inspect.getmro(factory) if inspect.isclass(factory) else [factory]
    for each in definitions:
        module = inspect.getmodule(each)
        # the standard library has modules without a file, such as builtins
        is_standard = module and top_package(module) in sys.stdlib_module_names and hasattr(module, each.__name__)
        if module is None or not (is_standard or module_file(module)):
            named = f"{each.__module__}.{each.__qualname__} has no source file, so that an edit of it would not be seen"
            raise UsageError(f"{named}: put it into a file, and name it path/to/file.py:{each.__name__}")
        modules.append(module)
    return modules


def _walk(modules: list[ModuleType], visit: Callable[[ModuleType], tuple[Code, list[ModuleType]]]) -> Code:
    """The code of some modules and of every module that they lead to, sorted by name.

    `visit` gives the code of one module, and the modules to visit next.
    """
    code: Code = {}
    seen: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module_name(module) not in seen:
            seen.add(module_name(module))
            module_code, further = visit(module)
            code |= module_code
            waiting += further
    return dict(sorted(code.items()))  # the order does not depend on what was loaded first


def _referred(module: ModuleType) -> list[ModuleType]:
    """The modules that define the values of a module's global names, sorted by name."""
    own = module_name(module)
    names = set()
    for bound, value in list(vars(module).items()):
        name = _name_of_definer(value)
        if name is None or name == own:
            continue
        # Importing a submodule binds it in its package, even if another module imports it.
        is_submodule = name == f"{own}.{bound}"
        if is_submodule and bound not in _imported(module):
            continue
        names.add(name)
    return [sys.modules[name] for name in sorted(names) if name in sys.modules]


def _name_of_definer(value: Any) -> str | None:
    """The name of the module that defines a value; of a module its own name. None where no text names one."""
    if isinstance(value, ModuleType):
        return module_name(value)
    name = getattr(value, "__module__", None)
    return name if isinstance(name, str) else None


@cache
def _imported(module: ModuleType) -> set[str]:
    """The names that the import statements at the top level of a module bind."""
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
    """The names of the distributions that install each top-level module. It is slow: it reads all of their metadata."""
    return {top: sorted(set(names)) for top, names in metadata.packages_distributions().items()}


def _installed(module: ModuleType) -> Code:
    """The versions of the distributions of an installed module.

    If no distribution has the module, the hash of its content is returned instead.
    """
    if origin_of(module) != "installed":
        return {}
    names = distributions_of().get(top_package(module), [])
    if not names:
        return _content(module)
    return {name: metadata.version(name) for name in names}


def _content(module: ModuleType) -> Code:
    """The hash of a module's content by its name; empty if the module has no content to hash."""
    digest = content_hash(module)
    if digest is None:
        return {}
    return {module_name(module): digest}
