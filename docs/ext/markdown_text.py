"""Texts of the code as Markdown."""

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

SPECIAL = re.compile(r"(`+[^`]*`+)|([\\*<>\[\]_#])")
"""Code, which stays as it is, or a character that Markdown reads as markup."""


def escaped(words: str) -> str:
    """Words of which only code in backticks is markup."""
    return SPECIAL.sub(lambda found: found[1] or f"\\{found[2]}", words)


def code(value: Any) -> str:
    """A value as code; nothing for an empty text."""
    return f"`{value}`" if str(value) else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, whose cells are Markdown."""
    yield from ("", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}")
    for row in rows:
        cells = [cell.replace("|", r"\|") for cell in row]
        yield f"| {' | '.join(cells)} |"
    yield ""


def meanings(thing: Any, section: str) -> dict[str, str]:
    """The names and texts of a section of a docstring, such as "Args" or "Attributes"."""
    lines = (inspect.getdoc(thing) or "").partition(f"\n{section}:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+(?:, \w+)*): (.*(?:\n     +.*)*)", lines, flags=re.MULTILINE)
    return {name: " ".join(words.split()) for names, words in entries for name in names.split(", ")}


def summary(thing: Any) -> str:
    """The first paragraph of a docstring."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())
