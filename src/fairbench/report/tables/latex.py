r"""The report's tables in LaTeX, with booktabs, for `\input`; any engine compiles them, since they are ASCII.

Each fits the text width of an article or, if it is narrow, a column: heads and text are set in lines, a table with too
many columns is continued below itself, and one that is higher than a page has parts between which a page may end.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from fairbench.report.tables.model import Cell, Column, TableView
from fairbench.report.tables.tex import escape
from fairbench.report.tables.verdict_text import Emphasized
from fairbench.report.tables.widths import COLUMN, GAP, TEXT, breakable, least, lines, shared, width

PAGE = 40
"""The number of lines of a part, such that it fits a page together with a caption."""
BOLD = 1.17
"""The width of bold text in that of other text."""

Row = Sequence[Cell]


@dataclass(frozen=True)
class _Column:
    """A column as it is printed; `width` is None where it is as wide as its cells."""

    title: str
    is_number: bool
    narrow: float
    natural: float
    width: float | None = None

    @property
    def spec(self) -> str:
        if self.width is None:
            return "r" if self.is_number else "l"
        ragged = r"\raggedleft" if self.is_number else r"\raggedright"
        return rf">{{{ragged}\arraybackslash}}p{{{self.width / TEXT:.4f}\linewidth}}"

    def source(self, cell: Cell) -> str:
        text = (escape if self.width is None else breakable)(str(cell.text))
        return cell.text.latex(text) if isinstance(cell.text, Emphasized) else text

    def lines(self, cell: Cell) -> int:
        return 1 if self.width is None else len(lines(str(cell.text), self.width))

    @property
    def head(self) -> str:
        """The title, in lines that are no longer than the cells or its longest word."""
        found = [_in_italics(line) for line in lines(self.title, self.width or self.natural)]
        if len(found) == 1:
            return found[0]
        side, text = "r" if self.is_number else "l", r"\\".join(found)
        return rf"\begin{{tabular}}[b]{{@{{}}{side}@{{}}}}{text}\end{{tabular}}"


def to_latex(table: TableView) -> str:
    r"""A table for `\input`; its first lines say what it shows, the packages that it needs, and where it fits."""
    shown = [i for i, column in enumerate(table.columns) if column.in_latex]
    left_out = [escape(column.title) for column in table.columns if not column.in_latex]
    columns = [_measured(table.columns[i], [row[i] for row in table.rows]) for i in shown]
    rows = [[row[i] for i in shown] for row in table.rows]
    limit = COLUMN if _total([x.natural for x in columns]) <= COLUMN else TEXT
    parts = []
    panels = list(_panels(columns, rows))
    for chosen in panels:
        fitted = _fitted([columns[i] for i in chosen], limit)
        panel = [[row[i] for i in chosen] for row in rows]
        parts += [_tabular(fitted, part) for part in _pages(fitted, panel, table.grouped)]
    place = "a column" if limit == COLUMN else "the text width"
    comments = [
        _in_italics(table.caption),
        *([f"Only in the page: {', '.join(left_out)}."] if left_out else []),
        "Needs the packages array, booktabs and textcomp.",
        rf"Fits {place} of {limit:g} pt or more, in \footnotesize: 8 pt where the text has 10.",
        *([f"In {len(panels)} parts, each with some of the columns."] if len(panels) > 1 else []),
        *(["Outside of floats a page may end between its parts."] if len(parts) > 1 else []),
    ]
    head = "".join(f"% {comment}\n" for comment in comments)
    body = "\\par\\medskip\n".join(parts)
    return rf"{head}\begingroup\footnotesize\setlength{{\tabcolsep}}{{{GAP / 2:g}pt}}%" + f"\n{body}\\endgroup\n"


def _in_italics(text: str) -> str:
    """Text in which the letters of statistics are variables."""
    return re.sub(r"(?<![\w\\])([gp])(?!\w)", r"$\1$", escape(text))


def _measured(column: Column, cells: Sequence[Cell]) -> _Column:
    def largest(of: Callable[[str], float]) -> float:
        bold = ((x.text, x.text.bold if isinstance(x.text, Emphasized) else "") for x in cells)
        return max(of(str(text)) + (BOLD - 1) * of(part) for text, part in bold)

    word = least(column.title)
    return _Column(column.title, column.value is not None, max(word, largest(least)), max(word, largest(width)))


def _total(widths: Sequence[float]) -> float:
    return sum(widths) + GAP * (len(widths) - 1)


def _panels(columns: Sequence[_Column], rows: Sequence[Row]) -> Iterator[list[int]]:
    """The columns of each part, as many as fit; all parts begin with those that identify a row."""
    names = [tuple(str(cell.text) for cell in row) for row in rows]
    keys = next((n for n in range(1, len(columns)) if len({name[:n] for name in names}) == len(rows)), len(columns))
    chosen = list(range(keys))
    for i in range(keys, len(columns)):
        if len(chosen) > keys and _total([columns[k].narrow for k in (*chosen, i)]) > TEXT:
            yield chosen
            chosen = list(range(keys))
        chosen.append(i)
    yield chosen


def _fitted(columns: Sequence[_Column], limit: float) -> list[_Column]:
    """Columns that wrap their text where they would be too wide together."""
    available = limit - GAP * (len(columns) - 1)
    widths = shared([(column.narrow, column.natural) for column in columns], available)
    return [replace(x, width=w) if w < x.natural else x for x, w in zip(columns, widths, strict=True)]


def _pages(columns: Sequence[_Column], rows: Sequence[Row], grouped: bool) -> Iterator[list[list[Row]]]:
    """The rows of each part in groups of one subject; a group is divided only if it is higher than a page."""
    sized = [(row, max(map(_Column.lines, columns, row))) for row in rows]
    part: list[list[Row]] = []
    used = 0
    for _, group in groupby(sized, lambda x: str(x[0][0].text) if grouped else ""):
        members = list(group)
        if part and used + sum(height for _, height in members) > PAGE:
            yield part
            part, used = [], 0
        part.append([])
        for row, height in members:
            if part[-1] and used + height > PAGE:
                yield part
                part, used = [[]], 0
            part[-1].append(row)
            used += height
    yield part


def _tabular(columns: Sequence[_Column], groups: Sequence[Sequence[Row]]) -> str:
    end = r"\\" if all(x.width is None for x in columns) else r"\\[2pt]"
    bodies = ("".join(f"{' & '.join(map(_Column.source, columns, row))} {end}\n" for row in group) for group in groups)
    return (
        rf"\noindent\begin{{tabular}}{{@{{}}{''.join(x.spec for x in columns)}@{{}}}}"
        f"\n\\toprule\n{' & '.join(x.head for x in columns)} \\\\\n\\midrule\n"
        + "\\midrule\n".join(bodies)
        + "\\bottomrule\n\\end{tabular}\n"
    )
