"""Tables with a separator between the cells of a line: commas, semicolons, tabs, bars or spaces."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from fairbench.analysis.tables.readers.content import Content, TextRow, TextRows
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural

DELIMITERS = ",;\t|"
BEGINS_WITH_A_NUMBER = re.compile(r"(?:^|[,;\t|])\s*[-+.]?\d")
"""A line in which a cell begins as a number does."""


def read(content: Content) -> TextRows:
    """The rows of a text that is in no other form."""
    lines, skipped = _without_comments(content.lines())
    notes = content.notes
    if skipped:
        notes += (f"{plural(skipped, 'line')} of comments skipped",)
    delimiter = _delimiter(lines)
    if delimiter is None:
        delimiter = "\t"
        lines = ["\t".join(line.split()) + "\n" for line in lines]
    return TextRows(content.name, [*_rows(content.name, lines, delimiter)], notes)


def _without_comments(lines: Sequence[str]) -> tuple[list[str], int]:
    """The lines, with empty ones in place of the comments above the table, and how many these were."""
    comments = len([*takewhile(_is_comment, lines)])
    kept = list(lines[comments:])
    if comments and kept and BEGINS_WITH_A_NUMBER.search(kept[0]):
        # the names stand in a comment, as numpy writes them, since numbers are below
        comments -= 1
        names = lines[comments].lstrip("# ")
        kept.insert(0, names)
    empty = ["\n" for _ in range(comments)]  # so that the lines below keep their numbers
    return empty + kept, comments


def _is_comment(line: str) -> bool:
    return line.startswith("#")


def _delimiter(lines: Sequence[str]) -> str | None:
    """What stands between the cells; None for spaces."""
    filled = [line for line in lines if line.strip()]
    head = filled[0] if filled else ""
    delimiter = max(DELIMITERS, key=lambda sign: _width(head, sign))
    widths = {len(line.split()) for line in filled}
    if delimiter not in head and len(widths) == 1:
        return None
    return delimiter


def _width(line: str, delimiter: str) -> int:
    """The number of cells of a line."""
    cells = next(csv.reader([line], delimiter=delimiter), [])
    return len(cells)


def _rows(name: str, lines: Sequence[str], delimiter: str) -> Iterator[TextRow]:
    text = io.StringIO("".join(lines), newline="")
    reader = csv.reader(text, delimiter=delimiter)
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            yield TextRow(f"{name}, line {reader.line_num}", cells)
    except csv.Error as error:
        raise UsageError(f"{name}, line {reader.line_num}: no CSV: {error}") from None
