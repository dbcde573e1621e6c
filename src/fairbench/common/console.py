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
        needed = [self._needed(table, column, options) for column in table.columns]
        kept, left_out = list(range(len(needed))), list[int]()
        while sum(needed[i] for i in kept) > options.max_width:
            numbers = [i for i in kept if table.columns[i].justify == "right"]
            whole = [i for i in kept[1:] if table.columns[i].overflow == "crop"]
            if not (numbers or whole):
                break
            last = (numbers or whole)[-1]
            kept.remove(last)
            left_out.append(last)
        if not left_out:
            return table, []
        fitting = copy(table)
        fitting.columns = [copy(table.columns[i]) for i in kept]
        for index, column in enumerate(fitting.columns):
            column._index = index
        return fitting, [str(table.columns[i].header) for i in sorted(left_out)]

    def _needed(self, table: Table, column: Column, options: ConsoleOptions) -> int:
        """The narrowest width of a column in which no word or number is cut off."""
        sizes = [Measurement.get(self, options, cell) for cell in (column.header, *column.cells)]
        inner = max((size.maximum if column.no_wrap else size.minimum for size in sizes), default=0)
        return max(inner, column.min_width or 0) + sum(table.padding[1::2])


def text_table(columns: Sequence[tuple[str, bool]], rows: Iterable[Iterable[Any]]) -> Table:
    """A table without lines; each column has a title, and whether it holds numbers. Without any title it has no header.

    Numbers are aligned right, and neither they nor the first column are wrapped.
    """
    header = any(title for title, _ in columns)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_header=header)
    for i, (title, is_number) in enumerate(columns):
        table.add_column(title, justify="right" if is_number else "left", no_wrap=i == 0 or is_number)
    for row in rows:
        table.add_row(*row)
    return table


def whole(text: str, style: str = "") -> Text:
    """A line that only the terminal itself wraps, so that a path in it can be copied."""
    return Text(text, style, no_wrap=True, overflow="ignore")
