"""Files to start an own arena or optimizer from: each runs as it is."""

import importlib.util
from importlib import resources
from pathlib import Path

from jinja2 import Template

from fairbench.errors import UsageError


def write_start(kind: str, name: str) -> tuple[Path, str]:
    """Write NAME.py into the working directory.

    Args:
        kind: what it is, the name of its template: "arena".
        name: its name, as half_moons, whose class is HalfMoons.

    Returns:
        The file and the class.

    Raises:
        UsageError: the name is none that Python could import, or is taken.
    """
    file = Path(f"{name}.py")
    if not name.isidentifier():
        raise UsageError(f"new-{kind} takes a name as half_moons, of letters, digits and '_', got {name!r}")
    if file.exists():
        raise UsageError(f"{file} exists already and is left as it is; take another name, or move it away")
    if importlib.util.find_spec(name):
        raise UsageError(f"Python has a module {name!r} already, which {file} would hide; take another name")
    cls = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    text = (resources.files("fairbench") / "starts" / f"{kind}.py.j2").read_text()
    file.write_text(Template(text, keep_trailing_newline=True).render(cls=cls))
    return file, cls
