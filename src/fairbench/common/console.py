"""The console for tables, colors and progress; slow to import."""

from collections.abc import Iterable, Sequence
from copy import copy
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from fairbench.common.terminal import visible, width


class Terminal(Console):
    """A console on which names have no control characters, square brackets are no markup, and no number is cut off.

    Where a table is too wide for a terminal, whole columns are left out and named. A pipe or a file has any width.
    """

    def __init__(self, quiet: bool = False, file: IO[str] | None = None) -> None:
        super().__init__(markup=False, quiet=quiet, file=file)
        if not self.is_terminal or self.is_dumb_terminal:
            self.width = width()

    def render_str(self, text: str, **options: Any) -> Text:
        """A string as text; it is measured as it is shown."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of something to print; rich's own control codes are segments of another kind."""
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
        """A table without its last columns that do not fit, numbers first, and their names; prose wraps instead."""
        columns = table.columns
        needed = [self._needed(table, column, options) for column in columns]
        kept = list(range(len(columns)))
        left_out: list[int] = []
        while sum(needed[index] for index in kept) > options.max_width:
            numbers = [index for index in kept if columns[index].justify == "right"]
            uncut = [index for index in kept[1:] if columns[index].overflow == "crop"]
            candidates = numbers or uncut
            if not candidates:
                break
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

    def _needed(self, table: Table, column: Column, options: ConsoleOptions) -> int:
        """The narrowest width of a column in which no word or number is cut off."""
        inner = column.min_width or 0
        for cell in (column.header, *column.cells):
            size = Measurement.get(self, options, cell)
            width_of_cell = size.maximum if column.no_wrap else size.minimum
            inner = max(inner, width_of_cell)
        _, right, _, left = table.padding
        return inner + right + left


def text_table(columns: Sequence[tuple[str, bool]], rows: Iterable[Iterable[Any]]) -> Table:
    """A table without lines; each column has a title, and whether it holds numbers. Without any title it has no header.

    Numbers are aligned right, and neither they nor the first column are wrapped.
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


def whole(text: str, style: str = "") -> Text:
    """A line that only the terminal itself wraps, so that a path in it can be copied."""
    return Text(text, style, no_wrap=True, overflow="ignore")
