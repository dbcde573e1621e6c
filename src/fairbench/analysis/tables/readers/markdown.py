"""Tables of a page in Markdown."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fairbench.analysis.tables.column_names import plain_name
from fairbench.analysis.tables.readers.content import Content, TextRow, TextRows
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural

RULE = re.compile(r"(?=.*\|)[\s|:-]*-[\s|:-]*")
"""The line of a table between its head and its rows."""
BAR = re.compile(r"(?<!\\)\|")
"""The mark between two cells. A bar after a backslash is a part of a cell."""


@dataclass(frozen=True)
class MarkdownTable:
    """A table of a page: the heading above it, its columns, and its other rows with the numbers of their lines."""

    heading: str
    head_line: int
    columns: list[str]
    rows: Sequence[tuple[int, list[str]]]


def read(content: Content) -> TextRows | None:
    """The rows of the tables of a page. None if the text has no table.

    Only the tables with a column of the metric count, if there are any. If there are several tables, each row has the
    heading above its table in a first column.

    Raises:
        UsageError: the tables have different columns.
    """
    if content.text is None:
        return None
    tables = _tables(content.lines())
    if not tables:
        return None
    judged = [table for table in tables if _has_column(table, content.metric)] or tables
    notes = content.notes
    if len(judged) < len(tables):
        skipped = len(tables) - len(judged)
        notes += (f"{plural(skipped, 'table')} without a column {content.metric} skipped",)
    tables = judged
    first = tables[0]
    if any(table.columns != first.columns for table in tables):
        lines = " and ".join(str(table.head_line) for table in tables)
        raise UsageError(
            f"{content.name} has tables with different columns, in lines {lines}; give --metric with a column that "
            "only one of them has, or a file with one of them"
        )
    are_several = len(tables) > 1
    columns = ["table", *first.columns] if are_several else first.columns
    rows = [TextRow(f"{content.name}, line {first.head_line}", columns)]
    for table in tables:
        for number, cells in table.rows:
            texts = [table.heading, *cells] if are_several else cells
            rows.append(TextRow(f"{content.name}, line {number}", texts))
    return TextRows(content.name, rows, notes)


def _has_column(table: MarkdownTable, metric: str) -> bool:
    """Whether a table has a column with the name of a metric."""
    return bool(metric) and plain_name(metric) in map(plain_name, table.columns)


def _tables(lines: Sequence[str]) -> list[MarkdownTable]:
    """The tables of a page in its order."""
    tables: list[MarkdownTable] = []
    heading = ""
    for index, line in enumerate(lines):
        if line.startswith("#"):
            heading = line.strip("# \n")
        if index and RULE.fullmatch(line):
            columns = _cells(lines[index - 1])
            rows = _rows_below(lines, index)
            # lines are counted from 1, so the head above the rule has the number of the rule's index
            tables.append(MarkdownTable(heading=heading, head_line=index, columns=columns, rows=rows))
    return tables


def _rows_below(lines: Sequence[str], rule: int) -> list[tuple[int, list[str]]]:
    """The rows below a rule, each with the number of its line."""
    rows = []
    for number, line in enumerate(lines[rule + 1 :], rule + 2):
        if "|" not in line:
            break  # the table ends here
        rows.append((number, _cells(line)))
    return rows


def _cells(line: str) -> list[str]:
    """The cells of a line, without marks of emphasis."""
    inner = line.strip().strip("|")
    return [cell.strip(" *`") for cell in BAR.split(inner)]
