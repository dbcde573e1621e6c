"""Texts of the code as Markdown."""

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

SPECIAL = re.compile(r"(`+[^`]*`+)|([\\*<>\[\]_#])")
"""Code, which stays as it is, or a character that Markdown reads as markup."""


ENTRY = re.compile(r"^    (\w+(?:, \w+)*): (.*(?:\n     +.*)*)", re.MULTILINE)
"""An entry of a section of a docstring: its names, and its text with further lines."""


def escaped(words: str) -> str:
    """Words of which only code in backticks is markup."""
    return SPECIAL.sub(lambda found: found[1] or f"\\{found[2]}", words)


def code(value: Any) -> str:
    """A value as code; nothing for an empty text."""
    return f"`{value}`" if str(value) else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, whose cells are Markdown."""
    yield ""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        cells = [cell.replace("|", r"\|") for cell in row]
        yield f"| {' | '.join(cells)} |"
    yield ""


def meanings(thing: Any, section: str) -> dict[str, str]:
    """The names and texts of a section of a docstring, such as "Args" or "Attributes"."""
    docstring = inspect.getdoc(thing) or ""
    _, _, rest = docstring.partition(f"\n{section}:\n")
    lines, _, _ = rest.partition("\n\n")
    found = {}
    for names, words in ENTRY.findall(lines):
        for name in names.split(", "):
            found[name] = " ".join(words.split())
    return found


def summary(thing: Any) -> str:
    """The first paragraph of a docstring."""
    docstring = inspect.getdoc(thing) or ""
    paragraph, _, _ = docstring.partition("\n\n")
    return " ".join(paragraph.split())
