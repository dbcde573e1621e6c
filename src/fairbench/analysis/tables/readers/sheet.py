"""A table whose cells are texts, by the names of its columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from fairbench.analysis.tables.readers.content import TextRow, TextRows
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural

MOST_LEVELS = 4
"""The largest number of levels of column names that pandas may have written, one in each line."""


@dataclass(frozen=True)
class Row:
    """The texts of a row by their columns, and the location of the row in its source."""

    cells: Mapping[str, str]
    location: str


@dataclass(frozen=True)
class Sheet:
    """The rows of a table that have any text.

    Attributes:
        notes: messages for the user on how the table was read.
        is_joined: whether several files are one table.
        example: the path of the first file, or the name of the first run, in words, where paths or names tell columns.
        origins: the text of each column that paths or names tell, as the example has it.
    """

    name: str
    columns: Sequence[str]
    rows: Sequence[Row]
    notes: tuple[str, ...] = ()
    is_joined: bool = False
    example: str = ""
    origins: Mapping[str, str] = field(default_factory=dict)

    def with_note(self, note: str) -> "Sheet":
        """The same table with one more note."""
        return replace(self, notes=(*self.notes, note))

    def column(self, name: str) -> list[str]:
        """The texts of a column."""
        return [row.cells[name] for row in self.rows]

    def without_ranges(self) -> "Sheet":
        """The table without the columns that W&B adds for the ranges of other columns.

        A note tells how many are left out, and whether any range is not a single value.
        """
        base_of_range = {}
        for column in self.columns:
            base = column[: -len("__MIN")]
            if column.endswith(("__MIN", "__MAX")) and base in self.columns:
                base_of_range[column] = base
        if not base_of_range:
            return self
        note = f"{plural(len(base_of_range), 'column')} __MIN or __MAX skipped"
        if any(self.column(column) != self.column(base) for column, base in base_of_range.items()):
            note += ", which say that each value is a mean of runs"
        kept = [column for column in self.columns if column not in base_of_range]
        return replace(self, columns=kept).with_note(note)


def sheet_of(table: TextRows) -> Sheet:
    """The table with its columns and its rows by column. Empty rows are left out.

    Raises:
        UsageError: the table has no rows, two columns of one name, or a row of another length.
    """
    filled = [row for row in table.rows if any(row.cells)]
    rows = _with_one_head(filled)
    head = list(rows[0].cells) if rows else []
    longest = max((_filled_length(row.cells) for row in rows), default=0)
    if longest > len(head):  # a row has more cells than there are names
        too_long = next(row for row in rows if any(row.cells[len(head) :]))
        raise UsageError(
            f"{too_long.location}: must have {len(head)} cells, as the first line; quote a cell with the separator"
        )
    # empty cells at the ends of all rows are not columns
    columns = [column or f"column {number}" for number, column in enumerate(head[:longest], 1)]
    check_names(table.name, columns)
    for row in rows:
        if len(row.cells) < len(columns):
            raise UsageError(
                f"{row.location}: must have {len(columns)} cells, as the first line; it has {len(row.cells)}"
            )
    if not rows:
        raise UsageError(f"{table.name} is empty; give a file with results, or leave it out")
    if len(rows) < 2:
        raise UsageError(f"{table.name} has no rows below its columns ({', '.join(columns)})")
    named_rows = []
    for row in rows[1:]:
        cells = dict(zip(columns, row.cells, strict=False))
        named_rows.append(Row(cells, row.location))
    return Sheet(table.name, columns=tuple(columns), rows=named_rows, notes=table.notes)


def check_names(table: str, columns: Sequence[str]) -> None:
    """Refuse a table with two columns of one name."""
    for index, column in enumerate(columns):
        if column in columns[:index]:
            raise UsageError(f"{table} has two columns {column!r}; give each its own name")


def _filled_length(cells: Sequence[str]) -> int:
    """The length of a row without the empty cells at its end."""
    return max((number for number, cell in enumerate(cells, 1) if cell), default=0)


def _with_one_head(rows: Sequence[TextRow]) -> Sequence[TextRow]:
    """The rows with one line of names, in place of the several lines that pandas writes for columns of several levels.

    Below these lines, pandas writes one more line with only the names of the index. Other tables stay as they are.
    """
    if not rows:
        return rows
    first = rows[0]
    if len(set(first.cells)) == len(first.cells):
        return rows  # with several levels, the first one would repeat a name
    index_line = _line_of_index(rows)
    if index_line is None:
        return rows
    index_names = [*takewhile(bool, rows[index_line].cells)]
    width = len(index_names)
    levels = [row.cells for row in rows[:index_line]]
    lengths = {len(row.cells) for row in rows[: index_line + 1]}
    if any(first.cells[:width]) or len(lengths) > 1:
        return rows  # above the names of the index, pandas writes empty cells
    # levels with a first cell come first in the joined names
    levels.sort(key=lambda cells: not cells[0])
    names = []
    for parts in zip(*levels, strict=True):
        names.append("_".join(filter(None, parts)))
    head = TextRow(first.location, [*index_names, *names[width:]])
    return [head, *rows[index_line + 1 :]]


def _line_of_index(rows: Sequence[TextRow]) -> int | None:
    """The number of the line with the names of the index, which are only at its beginning; None without such a line."""
    for number, row in enumerate(rows[1 : MOST_LEVELS + 1], 1):
        if row.cells[0] and not row.cells[-1]:
            return number
    return None
