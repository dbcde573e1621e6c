"""Templates for a user's optimizer or arena; each works as it is."""

import importlib.util
import keyword
from importlib import resources
from pathlib import Path
from string import Template

from fairbench.common.errors import UsageError


def class_name(name: str) -> str:
    """The class of a file: my_rule has MyRule."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def write_start(kind: str, name: str) -> Path:
    """Write a start into the working directory.

    Args:
        kind: what it is a start of, "optimizer" or "arena".
        name: name of the file without .py, from which the class has its own.

    Returns:
        The file.

    Raises:
        UsageError: no module can have that name, or one has it already.
    """
    if not name.isidentifier() or keyword.iskeyword(name) or not class_name(name).isidentifier():
        raise UsageError(f"{name!r} can be no name in Python; take letters, digits and _, as my_rule")
    path = Path(f"{name}.py")
    if path.exists():
        raise UsageError(f"{path} exists and stays as it is; take another name")
    if importlib.util.find_spec(name) is not None:
        raise UsageError(f"Python has a module {name!r} already, which {path} would hide; take another name")
    template = Template((resources.files("fairbench.cli.templates") / f"{kind}.txt").read_text())
    path.write_text(template.substitute(Name=class_name(name)))
    return path
