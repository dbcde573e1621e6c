"""The import of user-defined optimizers, groups and arenas: `module:Name` or `path/to/file.py:Name`."""

import importlib
import importlib.util
import inspect
import re
import sys
from functools import cache
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

from fairbench.common.errors import UsageError, unknown
from fairbench.common.installation import how_to_install

LIBRARIES = ("pytorch_optimizer", "schedulefree")
"""The packages of the registry's optimizers, which the extra [zoo] installs."""


@cache
def entry_points() -> Any:
    """The entry points of all installed packages. Packages register optimizers and arenas by them."""
    from importlib import metadata  # slow to import, and not needed to view a study

    return metadata.entry_points()


def load(reference: str, what: str) -> Any:
    """Import the object that a reference names.

    Args:
        reference: `module:Name`, also of the working directory, or `path/to/file.py:Name` with a relative path.
        what: the kind of object, such as "optimizer factory", for errors.

    Raises:
        UsageError: the reference is wrong, or the import fails.
    """
    place, name = module_and_name(reference, what)
    module = module_of(reference, what)
    if not hasattr(module, name):
        known = _names_in(module)
        raise unknown(f"name in {place}", name, known)
    return getattr(module, name)


def _names_in(module: ModuleType) -> list[str]:
    """The classes of a module or its package, and the functions that it defines."""
    package = module.__name__.partition(".")[0]
    names = []
    for name, value in vars(module).items():
        is_own_function = inspect.isfunction(value) and value.__module__ == module.__name__
        is_own_class = inspect.isclass(value) and value.__module__.partition(".")[0] == package
        if is_own_class or is_own_function:
            names.append(name)
    return names


def module_of(reference: str, what: str) -> ModuleType:
    """Import the module that a reference names. The arguments and errors are those of `load`."""
    place, name = module_and_name(reference, what)
    try:
        if place.endswith(".py"):
            return _import_file(place, f"{what} {reference!r}")
        if "" not in sys.path:
            _add_to_path(Path.cwd())
        return importlib.import_module(place)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:  # user code may raise anything
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, ModuleNotFoundError) and error.name in LIBRARIES:
            reason += f"; {how_to_install('zoo')}"
        if isinstance(error, ImportError) and "relative import" in str(error):
            reason += f"; name the module of its package, such as {_in_package(place, name)}"
        raise UsageError(f"{what} {reference!r}: cannot import {place!r}: {reason}") from error


def _in_package(place: str, name: str) -> str:
    """The reference to a name in a file of a package, in place of the path of the file.

    A file of the working directory belongs to the package of this name, so the command must be run in the folder above.
    """
    parts = PurePath(place).with_suffix("").parts
    if len(parts) > 1:
        return f"{'.'.join(parts)}:{name}"
    return f"{Path.cwd().name}.{parts[0]}:{name}, from above"


def module_and_name(reference: str, what: str) -> tuple[str, str]:
    """The two parts of a reference: the module or file, and the name inside of it."""
    place, _, name = reference.rpartition(":")
    if not place or not name:
        raise UsageError(f"{what} {reference!r} must have the form module:Name or path/to/file.py:Name")
    return place, name


def check_file(path: str, what: str) -> None:
    """Raise `UsageError` unless a file with code is there. The message begins with `what`.

    The path is a part of a trial's identity, which must not depend on the machine. So absolute paths are refused.
    """
    file = Path(path)
    if file.is_absolute():
        raise UsageError(f"{what}: give the path from the working directory, {Path.cwd()}, as in ../folder/{file.name}")
    if not file.is_file():
        raise UsageError(f"{what}: there is no file {path!r} in {Path.cwd()}")


def _import_file(path: str, what: str) -> ModuleType:
    """Import a file as a module, unless it is already loaded. Like a script, it can import modules from its folder."""
    check_file(path, what)
    file = Path(path)
    name = re.sub(r"\W", "_", PurePath(path).as_posix())
    loaded = sys.modules.get(name)
    if loaded is not None and Path(str(loaded.__file__)) == file.resolve():
        return loaded  # another file may have the same module name
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    assert spec is not None
    assert spec.loader is not None
    _add_to_path(file.resolve().parent)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _add_to_path(folder: Path) -> None:
    """Let Python search a folder for modules, after all others."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
