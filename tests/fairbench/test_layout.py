"""The folders of the source import only those below them, and no files import each other in a circle."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import fairbench

ORDER = (
    ("cli",),
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
LEVELS = {folder: level for level, folders in enumerate(ORDER) for folder in folders}
ROOT = Path(fairbench.__file__).parent
FILES = sorted(ROOT.glob("*/**/*.py"))


def imported(file: Path) -> Iterator[str]:
    """The modules of fairbench that a file imports anywhere in it, and the names in them."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names if str(node.module) != "fairbench")
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_folders_import_only_those_below_them():
    wrong = []
    for file in FILES:
        own = file.relative_to(ROOT).parts[0]
        folders = [name.split(".")[1] for name in imported(file) if name.startswith("fairbench.")]
        wrong += [f"{file}: {x}" for x in folders if x != own and LEVELS[x] <= LEVELS[own]]
    assert not wrong


def test_no_files_import_each_other_in_a_circle_not_even_inside_functions():
    modules = {".".join(("fairbench", *file.relative_to(ROOT).with_suffix("").parts)): file for file in FILES}
    imports = {
        module: {x for name in imported(file) for x in (name, name.rpartition(".")[0]) if x in modules}
        for module, file in modules.items()
    }
    TopologicalSorter(imports).prepare()  # raises an error that names a circle
