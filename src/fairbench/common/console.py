"""The console for tables, colors and progress. This module is slow to import."""

import re
from collections.abc import Iterable, Sequence
from copy import copy
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from fairbench.common.terminal import visible, width

BLANKS_AT_ENDS = re.compile(r" +$", re.MULTILINE)


class Terminal(Console):
    """A console that shows names without control characters, square brackets as they are, and numbers in full.

    If a table is too wide for the terminal, whole columns are left out, and a line names them. The width of a pipe or
    a file is not limited.
    """

    def __init__(self, quiet: bool = False, file: IO[str] | None = None) -> None:
        super().__init__(markup=False, quiet=quiet, file=file)
        if not self.is_terminal or self.is_dumb_terminal:
            self.width = width()

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects. A pipe or a file gets lines without the blanks that fill the last column of a table."""
        if self.is_terminal:
            super().print(*objects, **options)
            return
        with self.capture() as captured:
            super().print(*objects, **options)
        without_blanks = BLANKS_AT_ENDS.sub("", captured.get())
        super().print(Text(without_blanks), end="", no_wrap=True, overflow="ignore", crop=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Turn a string into text. The string is made visible first, so that its width is that of what is shown."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of an object to print, with visible characters in place of control characters.

        The control codes of rich itself are marked as such, and stay. If the object is a table that does not fit,
        columns are left out, and a line after the table names them.
        """
        if isinstance(renderable, Text):
            renderable = renderable.copy()
            renderable.plain = visible(renderable.plain)
        left_out: list[str] = []
        if isinstance(renderable, Table):
            renderable, left_out = self._fitting(renderable, options or self.options)
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)
        if left_out:
            note = f"columns left out, since the terminal is narrow: {', '.join(left_out)}"
            yield from self.render(Text(note, "dim"), options)

    def _fitting(self, table: Table, options: ConsoleOptions) -> tuple[Table, list[str]]:
        """Leave out columns until a table fits: first those of numbers, then those whose text would be cut off.

        Of each kind the last column goes first. Text that wraps stays, and so does the first column of text, which
        names the rows.

        Returns:
            The table, and the names of the columns that are left out.
        """
        columns = table.columns
        widths = [self._needed_width(table, column, options) for column in columns]
        kept = list(range(len(columns)))
        left_out: list[int] = []
        while sum(widths[index] for index in kept) > options.max_width:
            numbers = [index for index in kept if columns[index].justify == "right"]
            would_be_cut_off = [index for index in kept[1:] if columns[index].overflow == "crop"]
            candidates = numbers or would_be_cut_off
            if not candidates:
                break  # what is left stays
            kept.remove(candidates[-1])
            left_out.append(candidates[-1])
        if not left_out:
            return table, []
        fitting = copy(table)
        fitting.columns = [copy(columns[index]) for index in kept]
        for index, column in enumerate(fitting.columns):
            column._index = index
        names = [str(columns[index].header) for index in sorted(left_out)]
        return fitting, names

    def _needed_width(self, table: Table, column: Column, options: ConsoleOptions) -> int:
        """The smallest width of a column that cuts off no word and no number."""
        inner = column.min_width or 0
        for cell in (column.header, *column.cells):
            size = Measurement.get(self, options, cell)
            width_of_cell = size.maximum if column.no_wrap else size.minimum
            inner = max(inner, width_of_cell)
        _, right, _, left = table.padding
        return inner + right + left


def text_table(columns: Sequence[tuple[str, bool]], rows: Iterable[Iterable[Any]]) -> Table:
    """A table without lines. Numbers are aligned right. Columns of numbers and the first column are not wrapped.

    Args:
        columns: the title of each column, and whether it holds numbers. Without any title the table has no header.
        rows: the cells of each row.
    """
    header = any(title for title, _ in columns)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_header=header)
    for index, (title, is_number) in enumerate(columns):
        if is_number:
            table.add_column(title, justify="right", no_wrap=True)
        else:
            table.add_column(title, justify="left", no_wrap=index == 0)
    for row in rows:
        table.add_row(*row)
    return table


def unwrapped(text: str, style: str = "") -> Text:
    """A line that only the terminal itself wraps, so that a path in the line can be copied."""
    return Text(text, style, no_wrap=True, overflow="ignore")
