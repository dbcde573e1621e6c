"""Links of the pages to files of the repository, as they are written for readers of the repository.

A page of the site takes the place of a file that it includes; other files outside `docs` get a page with their text.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
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
logger = logging.getLogger(__name__)


class RepositoryLinks(SphinxTransform):
    """Directs links that leave `docs` to pages of the site."""

    default_priority = 5

    def apply(self, **_: Any) -> None:
        docs = Path(self.env.srcdir)
        for node in list(self.document.findall(lambda x: x.get("reftype") == "myst" if hasattr(x, "get") else False)):
            target = node["reftarget"] + ".md" * (node["refdomain"] == "doc")
            base = docs if node["refdomain"] == "doc" else (docs / self.env.docname).parent
            path = (base / target).resolve()
            if not path.exists() or path.is_relative_to(docs) or not path.is_relative_to(docs.parent):
                continue
            name = path.relative_to(docs.parent).as_posix()
            if name in INCLUDED:
                node["reftarget"] = INCLUDED[name]
            elif path.is_dir() or path.suffix in SHOWN:
                node.replace_self(self._shown(node, path / "__init__.py" if path.is_dir() else path))

    def _shown(self, node: nodes.Element, path: Path) -> nodes.reference:
        """A link to the page of a file; a test's name leads to its line."""
        name = path.relative_to(Path(self.env.srcdir).parent).as_posix()
        self.env.app.shown_files[f"source/{name}"] = path
        uri = self.env.app.builder.get_relative_uri(self.env.docname, f"source/{name}")
        if re.fullmatch(r"test_\w+", node.astext()):
            lines = path.read_text().splitlines()
            found = [i for i, line in enumerate(lines, 1) if re.match(rf"\s*def {node.astext()}\(", line)]
            if not found:
                logger.warning("no test %s in %s", node.astext(), name, location=node)
            uri += f"#line-{[*found, 1][0]}"
        return nodes.reference("", "", *node.children, refuri=uri, internal=True)


def pages_of_files(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for each file that a page links to, with an anchor for each line."""
    style = HtmlFormatter(lineanchors="line")
    for page, path in sorted(app.shown_files.items()):
        name = page.removeprefix("source/")
        text = highlight(path.read_text(), get_lexer_for_filename(path.name), style)
        yield page, {"title": name, "body": f"<h1>{name}</h1>{text}"}, "page.html"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the links; files are collected while all pages are read, so the environment is always a new one."""
    app.shown_files = {}
    app.add_lexer("csv", TextLexer)
    app.add_transform(RepositoryLinks)
    app.connect("html-collect-pages", pages_of_files)
    return {"version": "1", "parallel_read_safe": False}
