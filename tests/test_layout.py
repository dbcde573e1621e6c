"""Each part of a package imports only those below it, and no files import each other in a circle."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

import fairbench
import psilogic

FAIRBENCH = (
    ("cli",),
    ("gate",),
    ("api", "trial"),
    ("report", "runner"),
    ("contract",),
    ("analysis", "training"),
    ("study",),
    ("suites",),
    ("arenas",),
    ("data", "optimizers"),
    ("common",),
)
PSILOGIC = (
    ("integrations", "models"),
    ("optimizer",),
    ("stages",),
    ("backends",),
    ("decision",),
    ("gradients", "monitor", "plan"),
    ("monitor_record",),
    ("loading", "step"),
    ("checkpoint", "hyperparameters", "warmup"),
    ("tensors",),
    ("published_calls",),
    ("description", "monitor_results", "options", "reference"),
)
FLOORS = {fairbench: FAIRBENCH, psilogic: PSILOGIC}
"""Folders and files of each package, from the top; those on one floor do not import each other."""

each_package = pytest.mark.parametrize("package", FLOORS, ids=lambda package: package.__name__)


def root_of(package: ModuleType) -> Path:
    return Path(str(package.__file__)).parent


def files_of(package: ModuleType) -> list[Path]:
    """The files of a package that have a floor: not its own __init__.py, for example."""
    levels = levels_of(package)
    files = sorted(root_of(package).glob("**/*.py"))
    return [file for file in files if part_of(package, file) in levels]


def part_of(package: ModuleType, file: Path) -> str:
    """The folder in the package that a file is in, or its own name."""
    return file.relative_to(root_of(package)).parts[0].removesuffix(".py")


def levels_of(package: ModuleType) -> dict[str, int]:
    """The floor of each part, counted from the top."""
    levels = {}
    for level, parts in enumerate(FLOORS[package]):
        for part in parts:
            levels[part] = level
    return levels


def imported(file: Path) -> Iterator[str]:
    """The modules that a file imports anywhere in it, and the names in them."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name


@each_package
def test_each_part_has_a_floor(package):
    folders = {file.parent.name for file in root_of(package).glob("*/__init__.py")}
    assert folders <= set(levels_of(package))


@each_package
def test_folders_import_only_those_below_them(package):
    levels = levels_of(package)
    wrong = []
    for file in files_of(package):
        own = part_of(package, file)
        for name in imported(file):
            if not name.startswith(f"{package.__name__}."):
                continue
            other = name.split(".")[1]
            if other != own and levels.get(other, len(levels)) <= levels[own]:
                wrong.append(f"{file} imports {name}")
    assert not wrong


@each_package
def test_no_files_import_each_other_in_a_circle_not_even_inside_functions(package):
    modules = {}
    for file in files_of(package):
        path = file.relative_to(root_of(package).parent).with_suffix("")
        modules[".".join(path.parts)] = file
    imports: dict[str, set[str]] = {}
    for module, file in modules.items():
        imports[module] = set()
        for name in imported(file):
            module_of_name, _, _ = name.rpartition(".")
            imports[module] |= {name, module_of_name} & modules.keys()
    TopologicalSorter(imports).prepare()  # raises an error that names a circle
