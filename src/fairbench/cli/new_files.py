"""Templates for a user's optimizer or arena; each works unchanged."""

import argparse
import importlib.util
import keyword
from importlib import resources
from pathlib import Path
from string import Template

from fairbench.common.errors import UsageError

NEXT = {
    "optimizer": [
        "check {reference}",
        "try {reference}",
        "run mini --add-optimizer {reference} -o results/{name}",
    ],
    "arena": ["run --arenas {reference} --optimizers AdamW,PsiLogic -o results/{name}"],
}
"""The commands for the new file, by its kind."""


def new(options: argparse.Namespace) -> str:
    """`fairbench new-optimizer` and `fairbench new-arena`: write a template, and return the commands for it."""
    kind = options.command.removeprefix("new-")
    name = options.name
    class_name = "".join(part[:1].upper() + part[1:] for part in name.split("_"))  # my_rule contains MyRule
    if not name.isidentifier() or keyword.iskeyword(name) or not class_name.isidentifier():
        raise UsageError(f"{name!r} is no valid name in Python; use letters, digits and _, as in my_rule")
    path = Path(f"{name}.py")
    if path.exists():
        raise UsageError(f"{path} exists and is not changed; choose a different name")
    if importlib.util.find_spec(name) is not None:
        raise UsageError(f"{path} would hide the module {name!r}, which Python already has; choose a different name")
    file = resources.files("fairbench.cli.templates") / f"{kind}.txt"
    template = Template(file.read_text())
    path.write_text(template.substitute(Name=class_name))
    lines = [f"wrote {path}, a working {kind}. Adapt it, then", ""]
    for command in NEXT[kind]:
        arguments = command.format(reference=f"{path}:{class_name}", name=name)
        lines.append(f"    fairbench {arguments}")
    return "\n".join(lines)
