"""Links of the pages to files of the repository, as they are written for readers of the repository.

A page of the site takes the place of a file that it includes; other files outside `docs` get a page with their text.
"""

import re
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexers import TextLexer
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

SHOWN = (".py", ".toml")
"""Files that are shown as a page; others are downloads."""
INCLUDED = {
    "CHANGELOG.md": "project/changelog",
    "CONTRIBUTING.md": "project/contributing",
    "SECURITY.md": "project/security",
    "tests/README.md": "project/testing",
}
"""Files of the repository that a page of the site includes."""
HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{}</title><style>
:root {{color-scheme: light dark}} h1 {{font: bold 1.2em sans-serif}} :target {{background: #8884}}
</style>"""
logger = logging.getLogger(__name__)


class RepositoryLinks(SphinxTransform):
    """Directs links that leave `docs` to pages of the site."""

    default_priority = 5

    def apply(self, **_: Any) -> None:
        docs = Path(self.env.srcdir)
        for node in list(self.document.findall(_is_link)):
            if node["refdomain"] == "doc":
                path = docs / f"{node['reftarget']}.md"
            else:
                path = (docs / self.env.docname).parent / node["reftarget"]
            path = path.resolve()
            if not path.exists() or path.is_relative_to(docs) or not path.is_relative_to(docs.parent):
                continue
            name = path.relative_to(docs.parent).as_posix()
            if name in INCLUDED:
                node["reftarget"] = INCLUDED[name]
            elif path.is_dir():
                node.replace_self(self._shown(node, path / "__init__.py"))
            elif path.suffix in SHOWN:
                node.replace_self(self._shown(node, path))

    def _shown(self, node: nodes.Element, path: Path) -> nodes.reference:
        """A link to the page of a file; a test's name leads to its line."""
        name = path.relative_to(Path(self.env.srcdir).parent).as_posix()
        self.env.app.shown_files[f"source/{name}"] = path
        uri = self.env.app.builder.get_relative_uri(self.env.docname, f"source/{name}")
        test = node.astext()
        if re.fullmatch(r"test_\w+", test):
            line = _line_of(test, path)
            if line is None:
                logger.warning("no test %s in %s", test, name, location=node)
            uri += f"#line-{line or 1}"
        return nodes.reference("", "", *node.children, refuri=uri, internal=True)


def _is_link(node: nodes.Node) -> bool:
    """Whether a node is a link as MyST reads it, which is not yet resolved."""
    return isinstance(node, nodes.Element) and node.get("reftype") == "myst"


def _line_of(function: str, path: Path) -> int | None:
    """The number of the line in which a function of a file begins; None if it has no such function."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if re.match(rf"\s*def {function}\(", line):
            return number
    return None


def write_files(app: Sphinx, error: Exception | None) -> None:
    """Write a page for each file that a page links to, with an anchor for each line."""
    for page, path in app.shown_files.items():
        file = Path(app.outdir) / f"{page}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        name = page.removeprefix("source/")
        lines = []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            lines.append(f'<span id="line-{number}">{escape(line)}\n</span>')
        file.write_text(f"{HEAD.format(name)}<h1>{name}</h1><pre>{''.join(lines)}</pre>")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the links; files are collected while all pages are read, so the environment is always a new one."""
    app.shown_files = {}
    app.add_lexer("csv", TextLexer)
    app.add_transform(RepositoryLinks)
    app.connect("build-finished", write_files)
    return {"version": "1", "parallel_read_safe": False}
