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
HAS_NUMERIC_CELL = re.compile(r"(?:^|[,;\t|])\s*[-+.]?\d")
"""A line with a cell that begins with a number."""


def read(content: Content) -> TextRows:
    """The rows of any text, which is taken as lines of cells between separators."""
    lines, skipped = _without_comments(content.lines())
    notes = content.notes
    if skipped:
        notes += (f"{plural(skipped, 'line')} of comments skipped",)
    delimiter = _delimiter(lines)
    if delimiter is None:  # spaces, of which several may stand between two cells
        delimiter = "\t"
        lines = ["\t".join(line.split()) + "\n" for line in lines]
    return TextRows(content.name, [*_rows(content.name, lines, delimiter)], notes)


def _without_comments(lines: Sequence[str]) -> tuple[list[str], int]:
    """Replace the comments above the table by empty lines. Also return their number."""
    comments = len([*takewhile(_is_comment, lines)])
    kept = list(lines[comments:])
    if comments and kept and HAS_NUMERIC_CELL.search(kept[0]):
        # a first row of numbers has no names: the last comment has them, as numpy writes it
        comments -= 1
        names = lines[comments].lstrip("# ")
        kept.insert(0, names)
    empty = ["\n" for _ in range(comments)]  # so that the lines below keep their numbers
    return empty + kept, comments


def _is_comment(line: str) -> bool:
    """Whether a line is a comment."""
    return line.startswith("#")


def _delimiter(lines: Sequence[str]) -> str | None:
    """The delimiter that gives most cells in the first line; None for spaces.

    Spaces need the same number of words in all lines.
    """
    filled = [line for line in lines if line.strip()]
    head = filled[0] if filled else ""
    delimiter = max(DELIMITERS, key=lambda candidate: _cell_count(head, candidate))
    word_counts = {len(line.split()) for line in filled}
    if delimiter not in head and len(word_counts) == 1:
        return None
    return delimiter


def _cell_count(line: str, delimiter: str) -> int:
    """The number of cells of a line."""
    cells = next(csv.reader([line], delimiter=delimiter), [])
    return len(cells)


def _rows(name: str, lines: Sequence[str], delimiter: str) -> Iterator[TextRow]:
    """The rows of some lines. The cells have no spaces at their ends."""
    text = io.StringIO("".join(lines), newline="")
    reader = csv.reader(text, delimiter=delimiter)
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            yield TextRow(f"{name}, line {reader.line_num}", cells)
    except csv.Error as error:
        raise UsageError(f"{name}, line {reader.line_num}: is not CSV: {error}") from None
