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
SPACES = re.compile(r"\s+")
WIDE_SPACES = re.compile(r"\s{2,}|\t")
RULE = re.compile(r"[\s=+-]*[=-]{3}[\s=+-]*")
"""A line below the names of a table that is aligned by spaces."""
LATEX = re.compile(r"\\begin\{(?:tabular|table|longtable|document)")
"""The beginning of a table in LaTeX."""
HAS_NUMERIC_CELL = re.compile(r"(?:^|[,;\t|])\s*[-+.]?\d")
"""A line with a cell that begins with a number."""


def read(content: Content) -> TextRows:
    """The rows of any text, which is taken as lines of cells between separators.

    Raises:
        UsageError: it is the source of LaTeX, or no table.
    """
    if LATEX.search(content.text or ""):
        raise UsageError(f"{content.name} is LaTeX; save its table as CSV or Markdown, with the commands left out")
    lines, skipped = _without_comments(content.lines())
    notes = content.notes
    if skipped:
        notes += (f"{plural(skipped, 'line')} of comments skipped",)
    delimiter = _delimiter(lines)
    if delimiter is None:
        delimiter = "\t"
        lines = _split_at_spaces(content.name, lines)
    return TextRows(content.name, [*_rows(content.name, lines, delimiter)], notes)


def _without_comments(lines: Sequence[str]) -> tuple[list[str], int]:
    """The lines with empty ones in place of the comments above the table, and the number of these comments."""
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
    """The delimiter that gives most cells in the first line with text; None for spaces."""
    head = next((line for line in lines if line.strip()), "")
    delimiter = max(DELIMITERS, key=lambda candidate: _cell_count(head, candidate))
    if delimiter in head:
        return delimiter
    return None


def _split_at_spaces(name: str, lines: Sequence[str]) -> list[str]:
    """The lines of a table that is aligned by spaces, with tabs between its cells.

    All lines must have the same number of words, or of cells that two or more spaces separate. Pandas writes the
    numbers of the rows, which have no name, before the first column.

    Raises:
        UsageError: the lines have different numbers of words and of cells.
    """
    filled = {number: line for number, line in enumerate(lines) if line.strip() and not RULE.fullmatch(line)}
    for spaces in (SPACES, WIDE_SPACES):
        rows = {number: spaces.split(line.strip()) for number, line in filled.items()}
        counts = [len(cells) for cells in rows.values()]
        if spaces is WIDE_SPACES and _have_row_numbers(counts):
            head = min(rows)
            rows[head] = ["", *rows[head]]
            counts[0] += 1
        have_equal_counts = len(set(counts)) <= 1
        if have_equal_counts:
            # the lines that are left out become empty, so that the others keep their numbers
            return ["\t".join(rows.get(number, [])) + "\n" for number in range(len(lines))]
    raise UsageError(
        f"{name} has no table: its lines have neither commas, semicolons, tabs or bars, nor equal numbers of cells "
        "between spaces; give a file with the table alone"
    )


def _have_row_numbers(counts: Sequence[int]) -> bool:
    """Whether the rows below the head have a cell more than the head, by the number of cells of each line."""
    if len(counts) < 2:
        return False
    fewest_below = min(counts[1:])
    return fewest_below == counts[0] + 1


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
