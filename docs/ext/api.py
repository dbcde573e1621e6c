"""The public names of both packages: the directive `api`, and the check that none of them lacks an entry."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

PACKAGES = ("fairbench", "psilogic")
logger = logging.getLogger(__name__)


class Api(SphinxDirective):
    """Documents public names of a package: `{api} PACKAGE`, a name in each line."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        (package,) = self.arguments
        module = import_module(package)
        entries = []
        for line in self.content:
            name = line.strip()
            if name:
                kind = kind_of(getattr(module, name))
                entries.append(f".. auto{kind}:: {package}.{name}\n")
        return self.parse_text_to_nodes("```{eval-rst}\n" + "\n".join(entries) + "```\n")


def kind_of(value: Any) -> str:
    """The kind of a public name, as autodoc calls it."""
    if not inspect.isclass(value):
        return "function"
    if issubclass(value, Exception):
        return "exception"
    return "class"


def check_names(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of every public name without an entry, which fails the build."""
    entries = env.get_domain("py").objects
    for package in PACKAGES:
        for name in import_module(package).__all__:
            if f"{package}.{name}" not in entries and not name.startswith("__"):
                logger.warning("%s.%s is public and has no entry in the reference", package, name)


def plain_reference(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, text: nodes.Node) -> Any:
    """What has no entry stays text: names of Python and torch, arguments, and code in docstrings."""
    if node.get("refdomain") == "py" and not node.get("refexplicit"):
        return text
    return None


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive and the check."""
    app.add_directive("api", Api)
    app.connect("env-check-consistency", check_names)
    app.connect("missing-reference", plain_reference)
    return {"version": "1", "parallel_read_safe": True}
