"""Columns of tables, made from attributes of the rows: names, numbers, shares, intervals."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from fairbench.common.column_formatting import (
    column_of_intervals,
    column_of_means,
    column_of_numbers,
    column_of_percents,
)
from fairbench.common.formatting import NONE
from fairbench.report.view import Row, TextColumn

WITH_INTERVAL = " [95% CI]"
"""The end of the title of a column with usual intervals, which are not corrected."""


def words(title: str, attribute: str) -> TextColumn:
    """A column that shows an attribute of each row as text."""

    def text(row: Row) -> str:
        return str(getattr(row, attribute))

    return TextColumn(title, text)


def numbers(title: str, attribute: str, form: Callable[[Any], str]) -> TextColumn:
    """A column of an attribute that is a number or None. `form` writes each value."""

    def text(row: Row) -> str:
        return form(getattr(row, attribute))

    return TextColumn(title, text, value=attrgetter(attribute))


def integers(title: str, attribute: str) -> TextColumn:
    """A column of whole numbers."""
    return numbers(title, attribute, str)


def aligned(
    title: str, attribute: str, form: Callable[[Sequence[float | None]], Sequence[str]] = column_of_numbers
) -> TextColumn:
    """A column of an attribute that is a number or None. `form` writes all rows together, with the same decimals."""
    value = attrgetter(attribute)

    def texts(rows: Sequence[Row]) -> Sequence[str]:
        return form([value(row) for row in rows])

    return TextColumn(title, str, value=value, together=texts)


def values(title: str, attribute: str) -> TextColumn:
    """A column of an attribute that is a value of a metric."""

    def with_four_digits(numbers: Sequence[float | None]) -> list[str]:
        return column_of_numbers(numbers, 4)

    return aligned(title, attribute, with_four_digits)


def differences(title: str, attribute: str) -> TextColumn:
    """A column of an attribute that is a difference without an interval. Positive ones have a plus sign."""

    def signed(values: Sequence[float | None]) -> list[str]:
        texts = column_of_numbers(values)
        for i, value in enumerate(values):
            if value and value > 0:
                texts[i] = f"+{texts[i]}"
        return texts

    return aligned(title, attribute, signed)


def percents(title: str, attribute: str) -> TextColumn:
    """A column of an attribute that is a share."""
    return aligned(title, attribute, column_of_percents)


def answers(title: str, attribute: str, yes: str = "yes", no: str = "no", unknown: str = NONE) -> TextColumn:
    """A column of an attribute that is a boolean or None, in words."""

    def text(row: Row) -> str:
        answer = getattr(row, attribute)
        if answer is None:
            return unknown
        return yes if answer else no

    return TextColumn(title, text)


def intervals(title: str, middle: str, low: str = "ci_low", high: str = "ci_high") -> TextColumn:
    """A column of an attribute that is a difference, with its 95% interval from the attributes `low` and `high`."""
    interval = attrgetter(middle, low, high)

    def texts(rows: Sequence[Row]) -> list[str]:
        return column_of_intervals([interval(row) for row in rows])

    return TextColumn(
        title=f"{title}{WITH_INTERVAL}",
        show=str,
        value=attrgetter(middle),
        more={"low": attrgetter(low), "high": attrgetter(high)},
        together=texts,
    )


def ratios(title: str, middle: str, low: str, high: str, digits: int = 2) -> TextColumn:
    """A column of an attribute that is a ratio, with its interval. An end of the interval may be open.

    The title names the interval where it is the usual one, see `WITH_INTERVAL`.
    """
    attributes = attrgetter(middle, low, high)

    def text(row: Row) -> str:
        ratio, lower_end, upper_end = attributes(row)
        if ratio is None:
            return NONE
        ends = ["open" if end is None else f"{end:.{digits}f}" for end in (lower_end, upper_end)]
        return f"{ratio:.{digits}f} [{', '.join(ends)}]"

    return replace(intervals(title, middle, low, high), title=title, show=text, together=None)


def means(title: str, mean: str, std: str) -> TextColumn:
    """A column of an attribute that is a mean, with its standard deviation. Each metric has its own decimals."""
    mean_and_std = attrgetter(mean, std)
    arena_and_metric = attrgetter("arena", "metric")

    def texts(rows: Sequence[Row]) -> list[str]:
        cells: list[str] = []
        for _, alike in groupby(rows, arena_and_metric):
            cells += column_of_means([mean_and_std(row) for row in alike])
        return cells

    return TextColumn(
        title=title,
        show=str,
        value=attrgetter(mean),
        more={"std": attrgetter(std)},
        together=texts,
    )


def page_only(*columns: TextColumn) -> tuple[TextColumn, ...]:
    """The same columns, which LaTeX and terminals leave out."""
    return tuple(replace(column, narrow=False) for column in columns)


ARM = (words("Arena", "arena"), words("Optimizer", "optimizer"))
"""The columns that name the arm of a row."""
