"""The texts of a column of numbers, all with the same number of decimals."""

from collections.abc import Callable, Sequence
from math import isfinite

from fairbench.common.decimals import Notation, exponent, first_decimal, most_places, needs_exponent
from fairbench.common.formatting import (
    ALMOST_ALL,
    NONE,
    interval,
    mean_and_deviation,
    number,
    with_deviation,
    with_ends,
)


def column_of_means(rows: Sequence[tuple[float | None, float | None]]) -> list[str]:
    """Means with their deviations, all with the number of decimals that the median deviation supports."""
    deviations = [std for _, std in rows]
    return _column(rows, deviations, mean_and_deviation, with_deviation)


def column_of_intervals(rows: Sequence[tuple[float | None, float | None, float | None]]) -> list[str]:
    """Differences with their intervals, all with the number of decimals that the median width supports."""
    half_widths = [_half_width(low, high) for _, low, high in rows]
    return _column(rows, half_widths, interval, with_ends)


def _half_width(low: float | None, high: float | None) -> float | None:
    """Half of the width of an interval; None without an interval."""
    if low is None or high is None:
        return None
    return (high - low) / 2


def _column(
    rows: Sequence[tuple[float | None, ...]],
    spreads: Sequence[float | None],
    alone: Callable[..., str],
    together: Callable[..., str],
) -> list[str]:
    """The texts of a column whose numbers all have the same number of decimals.

    A row that needs more decimals, or an exponent, is written as if it were the only row.

    Args:
        rows: each row is a number and further numbers that are written with it.
        spreads: the spread of the numbers of each row.
        alone: returns the text of a row in a notation of its own.
        together: returns the text of a row in the notation of the column.
    """
    common = _notation_of_column(rows, spreads)
    texts = []
    for row, spread in zip(rows, spreads, strict=True):
        if common is not None and _fits(row, spread, common.places):
            texts.append(together(common, *row))
        else:
            texts.append(alone(*row))
    return texts


def _notation_of_column(rows: Sequence[tuple[float | None, ...]], spreads: Sequence[float | None]) -> Notation | None:
    """The notation in which the median spread of a column has two digits.

    It has one more decimal if a smaller spread would otherwise be written as 0. It is None if the column needs an
    exponent, or has no number other than 0.
    """
    from statistics import median  # imported here, since a command starts without numbers

    largest = 0.0
    middles = []
    for row in rows:
        finite = [abs(value) for value in row if value is not None and isfinite(value)]
        largest = max([largest, *finite])
        middles += finite[:1]
    if not largest or needs_exponent(largest):
        return None
    known = [spread for spread in spreads if spread and isfinite(spread)]
    if not known:
        known = [median(middles) / 100]
    if not all(known):
        return None
    usual = min(1 + first_decimal(median(known)), most_places(largest))
    places = max(0, usual)
    for spread in known:
        if first_decimal(spread) <= usual + 1:
            places = max(places, first_decimal(spread))
    return Notation(places)


def _fits(row: tuple[float | None, ...], spread: float | None, places: int) -> bool:
    """Whether all numbers of a row are finite, and its spread is not written as 0 with a number of decimals."""
    if row[0] is None:
        return False
    if not all(value is None or isfinite(value) for value in (*row, spread)):
        return False
    return not spread or first_decimal(spread) <= places


def column_of_numbers(values: Sequence[float | None], digits: int = 3) -> list[str]:
    """The texts of numbers with a common number of decimals, with which the median has some digits.

    A number that would be written as 0, or that needs an exponent, is written as if it were the only one.
    """
    from statistics import median

    known = [abs(value) for value in values if value and 1e-4 <= abs(value) < 1e7]
    places = 0
    if known:
        places = max(digits - 1 - exponent(median(known)), 0)
    common = Notation(places)
    texts = []
    for value in values:
        if value is not None and _has_places(value, places):
            texts.append(common.text(value))
        else:
            texts.append(number(value, digits))
    return texts


def _has_places(value: float, places: int) -> bool:
    """Whether a number can be written with some decimals: it needs no exponent, and is not rounded to 0."""
    if not isfinite(value) or abs(value) >= 1e7:
        return False
    return not value or first_decimal(abs(value)) <= places


def column_of_percents(shares: Sequence[float | None]) -> list[str]:
    """The texts of shares in percent with a common number of decimals, with which the median has two digits.

    Only a share of 1 is written as 100%.
    """
    percents = [None if share is None else 100 * share for share in shares]
    texts = []
    for share, text in zip(shares, column_of_numbers(percents, 2), strict=True):
        if share is None:
            texts.append(NONE)
        elif share < 1 and text.startswith("100"):
            texts.append(ALMOST_ALL)
        else:
            texts.append(f"{text}%")
    return texts
