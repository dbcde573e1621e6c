"""The folders of the source import only those below them."""

import ast
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


def test_folders_import_only_those_below_them():
    root, wrong = Path(fairbench.__file__).parent, []
    for file in sorted(root.glob("*/**/*.py")):
        own = file.relative_to(root).parts[0]
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            folders = [name.split(".")[1] for name in names if name.startswith("fairbench.")]
            wrong += [f"{file}: {x}" for x in folders if x != own and LEVELS[x] <= LEVELS[own]]
    assert not wrong
