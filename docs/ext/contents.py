"""The navigation of the site: the lists of links in the index, which readers of the repository use too."""

import re
from typing import Any

from sphinx.application import Sphinx


def add_navigation(app: Sphinx, page: str, source: list[str]) -> None:
    """Add to the index a hidden table of contents for each section that is a list of pages."""
    if page != app.config.root_doc:
        return
    for caption, body in re.findall(r"^## (.*)\n((?:(?!## ).*\n?)*)", source[0], flags=re.MULTILINE):
        pages = re.findall(r"^\* \[.*?\]\((.*?)\.md\)", body, flags=re.MULTILINE)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register it."""
    app.connect("source-read", add_navigation)
    return {"version": "1", "parallel_read_safe": True}
