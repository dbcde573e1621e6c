"""The text of numbers, durations, sizes and lists on pages, in files and on terminals. A dash stands for None."""

from collections.abc import Callable, Iterable, Sequence
from math import isfinite

from fairbench.common.decimals import Notation, exponent, first_decimal, most_places, needs_exponent, notation
from fairbench.common.grouping import grouped

SHOWN = 4
"""The largest number of values that a list shows."""
MOST_DECIMALS = 7
"""The most decimals of an end of an interval that lies near 0."""
NONE = "–"
ALMOST_ALL = "over 99%"
"""The text of a share below 1 that would be rounded to 100%."""
PLUS_MINUS = "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"


def duration(seconds: float) -> str:
    """A duration as m:ss or h:mm:ss; from a hundred hours on, in days."""
    minutes, second = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 100:
        return f"{hours / 24:,.0f} days"
    if hours:
        return f"{hours}:{minutes:02}:{second:02}"
    return f"{minutes}:{second:02}"


def format_bytes(size: int) -> str:
    """A number of bytes in a suitable unit, as "12.3 MB"."""
    amount = float(size)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} GB"


def plain(value: float, spec: str) -> str:
    """A number in a format such as "+.3g". Below ten million it is written out: 3120, and not 3.12e+03."""
    text = format(value, spec)
    if "e+" not in text or abs(value) >= 1e7:
        return text
    sign = "+" if spec.startswith("+") else ""
    return f"{value:{sign}.0f}"


def rate(value: float | None) -> str:
    """A learning rate. It is written in full if it has at most four digits, and otherwise with three digits."""
    if value is None:
        return NONE
    short = f"{value:.4g}"
    if float(short) == value:
        return short
    return f"{value:.3g}"


def percent(share: float | None) -> str:
    """A share in percent with two digits, as 0.24% and 24%. Only a share of 1 is written as 100%."""
    if share is None:
        return NONE
    text = _with_minus(plain(100 * share, ".2g"))
    if text == "100" and share < 1:
        return ALMOST_ALL
    return f"{text}%"


def some(values: Sequence[str], separator: str = ", ") -> str:
    """The first few values, and the number of the remaining ones."""
    text = separator.join(values[:SHOWN])
    remaining = len(values) - SHOWN
    if remaining > 0:
        text += f" and {remaining} more"
    return text


def merged(statements: Iterable[tuple[str, str]]) -> str:
    """Pairs of a place and a statement as text. A statement that holds in several places is written once."""
    places_of = grouped((statement, place) for place, statement in statements)
    lines = [f"{', '.join(places)}: {statement}" for statement, places in places_of.items()]
    return "; ".join(lines)


def plural(n: int, noun: str) -> str:
    """A number with its noun: "1 trial", "2 trials"."""
    if n == 1:
        return f"{n} {noun}"
    return f"{n} {noun}s"


def number(value: float | None, digits: int = 4) -> str:
    """A measured number, with a fixed number of digits."""
    if value is None:
        return NONE
    text = plain(value, f"#.{digits}g")
    return _with_minus(text.rstrip("."))


def signed(value: float | None) -> str:
    """A difference. It has a sign unless it is 0."""
    if value is None:
        return NONE
    if not value:
        return "0"
    text = plain(value, "+#.3g")
    return _with_minus(text.rstrip("."))


def _with_minus(text: str) -> str:
    """The text of a number with a minus in place of each hyphen."""
    return text.replace("-", "−")


def p_value(value: float | None) -> str:
    """A p-value with three decimals."""
    if value is None:
        return NONE
    if value < 1e-3:
        return "< 0.001"
    return f"{value:.3f}"


def confidence_level(level: float | None) -> str:
    """The level of an interval in percent, with at least one decimal, as 95%, 99.6% and 99.95%.

    It has enough decimals for what lies outside to have a digit other than 0.
    """
    if level is None:
        return NONE
    outside = 100 * (1 - level)
    places = 1
    if 0 < outside < 1:
        places = first_decimal(outside)
    text = f"{100 * level:.{places}f}"
    return f"{text.removesuffix('.0')}%"


def interval_name(levels: Iterable[float | None]) -> str:
    """Intervals with their levels, as "99.6% interval" or "95% to 99.6% interval"."""
    known = sorted({level for level in levels if level is not None})
    texts = [confidence_level(level) for level in known]
    if not texts:
        return "interval"
    if texts[0] == texts[-1]:
        return f"{texts[0]} interval"
    return f"{texts[0]} to {texts[-1]} interval"


def exact(value: float | None) -> str:
    """A count, a rank, or a declared number such as a margin, as short as possible."""
    if value is None:
        return NONE
    return plain(value, "g").replace("-", "−", 1)


def interval(middle: float | None, low: float | None, high: float | None) -> str:
    """A difference with its interval, if there is one. Both have the decimals that half of the width supports."""
    if middle is None or low is None or high is None or not isfinite(high - low):
        return signed(middle)
    half_width = (high - low) / 2
    return _with_ends(notation(half_width, max(-low, high)), middle, low, high)


def _with_ends(common: Notation, middle: float, low: float | None, high: float | None) -> str:
    """A difference and the ends of its interval in a common notation."""
    center = common.text(middle, "+")
    mantissa, *_ = center.split("e")
    if not mantissa.strip("+−.0"):
        center = center[1:]  # 0 in these digits has no sign
    ends = [_end(common, end) for end in (low, high) if end is not None]
    if not ends:
        return center
    return f"{center} [{', '.join(ends)}]"


def _end(common: Notation, end: float) -> str:
    """The end of an interval. One that would be written as 0, and is not 0, gets its first digit, which has a sign."""
    text = common.text(end, "+")
    places = first_decimal(abs(end)) if end else 0
    is_zero = not text.strip("+−.0")
    if is_zero and end and places <= MOST_DECIMALS:
        return Notation(places).text(end, "+")
    return text


def mean_and_deviation(mean: float | None, std: float | None) -> str:
    """A mean with its standard deviation, if there is one, in a common notation."""
    if mean is None or std is None or not isfinite(mean + std):
        return number(mean)
    if not std:
        return f"{number(mean)}{PLUS_MINUS}0"
    return _with_deviation(notation(std, abs(mean)), mean, std)


def _with_deviation(common: Notation, mean: float, std: float | None) -> str:
    """A mean and its standard deviation in a common notation."""
    if std is None:
        return common.text(mean)
    deviation = common.text(std) if std else "0"
    return f"{common.text(mean)}{PLUS_MINUS}{deviation}"


def column_of_means(rows: Sequence[tuple[float | None, float | None]]) -> list[str]:
    """Means with their deviations, all with the number of decimals that the median deviation supports."""
    deviations = [std for _, std in rows]
    return _column(rows, deviations, mean_and_deviation, _with_deviation)


def column_of_intervals(rows: Sequence[tuple[float | None, float | None, float | None]]) -> list[str]:
    """Differences with their intervals, all with the number of decimals that the median width supports."""
    half_widths = [_half_width(low, high) for _, low, high in rows]
    return _column(rows, half_widths, interval, _with_ends)


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
