"""What a user names by `module:Name` or `path/to/file.py:Name`, be it an optimizer, its groups, or an arena."""

import importlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

from fairbench.common.errors import UsageError, unknown

LIBRARIES = ("pytorch_optimizer", "schedulefree")
"""Packages that optimizers of the registry are from, and that the extra [zoo] installs."""


def load(reference: str, what: str) -> Any:
    """Import what a reference names; modules and files of the working directory are found.

    Args:
        reference: `module:Name`, or `path/to/file.py:Name` with a path from the working directory.
        what: what errors call it, as "optimizer factory".

    Returns:
        Whatever has that name there.

    Raises:
        UsageError: there is no such module, file or name, or it cannot be imported.
    """
    place, name = place_and_name(reference, what)
    try:
        module = _of_file(place, f"{what} {reference!r}") if place.endswith(".py") else _of_name(place)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:  # what is the user's may do anything
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, ModuleNotFoundError) and error.name in LIBRARIES:
            reason += "; install it with: pip install 'psilogic[zoo]'"
        raise UsageError(f"{what} {reference!r}: cannot import {place!r}: {reason}") from error
    if not hasattr(module, name):
        raise unknown(f"name in {place}", name, _offered(module))
    return getattr(module, name)


def place_and_name(reference: str, what: str) -> tuple[str, str]:
    """The two parts of a reference: the module or file, and the name there.

    Raises:
        UsageError: it has another form.
    """
    place, _, name = reference.rpartition(":")
    if not place or not name:
        raise UsageError(f"{what} {reference!r} must have the form module:Name or path/to/file.py:Name")
    return place, name


def _of_name(name: str) -> ModuleType:
    """The module of that name."""
    if "" not in sys.path:
        _find_in(Path.cwd())
    return importlib.import_module(name)


def _of_file(path: str, what: str) -> ModuleType:
    """The module that a file is, loaded once; modules in its folder are found as if it were run.

    The path is a part of a trial's identity, which is the same on every machine: so none starts at the root.
    """
    file = Path(path)
    if file.is_absolute():
        raise UsageError(f"{what}: give the path from the working directory, {Path.cwd()}, as in ../folder/{file.name}")
    if not file.is_file():
        raise UsageError(f"{what}: there is no file {path!r} in {Path.cwd()}")
    name = re.sub(r"\W", "_", PurePath(path).as_posix())
    loaded = sys.modules.get(name)
    if loaded is not None and Path(str(loaded.__file__)) == file.resolve():
        return loaded
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    assert spec is not None
    assert spec.loader is not None
    _find_in(file.resolve().parent)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _find_in(folder: Path) -> None:
    """Have Python look for modules there, after all other places."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _offered(module: ModuleType) -> list[str]:
    """The classes of a module, and the functions that it defines."""
    return [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) or (inspect.isfunction(value) and value.__module__ == module.__name__)
    ]
