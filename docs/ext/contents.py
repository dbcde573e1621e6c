"""The navigation of the site: the lists of links in the index, which readers of the repository use too."""

import re
from typing import Any

from sphinx.application import Sphinx

SECTION = re.compile(r"^## (.*)\n((?:(?!## ).*\n?)*)", re.MULTILINE)
"""A heading, and the text below it."""
LINKED_PAGE = re.compile(r"^\* \[(.*?)\]\((.*?)\.md\)", re.MULTILINE)
"""An item of a list that is a link to a page: its title and the page."""


def add_navigation(app: Sphinx, page: str, source: list[str]) -> None:
    """Add to the index a hidden table of contents for each section that is a list of pages."""
    if page != app.config.root_doc:
        return
    sections = SECTION.findall(source[0])
    for caption, body in sections:
        pages = "\n".join(f"{title} <{page}>" for title, page in LINKED_PAGE.findall(body))
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```\n"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register it."""
    app.connect("source-read", add_navigation)
    return {"version": "1", "parallel_read_safe": True}
