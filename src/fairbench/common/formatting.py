"""Numbers, durations, sizes and lists as text for pages, files and terminals; a dash stands for None."""

from collections.abc import Callable, Iterable, Sequence
from math import isfinite

from fairbench.common.grouping import grouped

SHOWN = 4
"""The largest number of values that a list shows."""
NONE = "–"
PLUS_MINUS = "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"
DIGITS = 9
"""The largest number of digits of a number, however narrow its interval is."""


def duration(seconds: float) -> str:
    """Seconds as m:ss, h:mm:ss, or from a hundred hours on in days."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 100:
        return f"{hours / 24:,.0f} days"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_bytes(size: int) -> str:
    """A number of bytes in the unit that fits it, as "12.3 MB"."""
    amount = float(size)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} GB"


def plain(value: float, spec: str) -> str:
    """A number in a format such as "+.3g", but written out below ten million: 3120, not 3.12e+03."""
    text = format(value, spec)
    return format(value, f"{'+' * spec.startswith('+')}.0f") if "e+" in text and abs(value) < 1e7 else text


def rate(value: float | None) -> str:
    """A learning rate: as it is if that has at most four digits, otherwise with three."""
    if value is None:
        return NONE
    short = f"{value:.4g}"
    return short if float(short) == value else f"{value:.3g}"


def percent(share: float | None) -> str:
    """A share in percent with two digits, as 0.24% and 24%; 100% is all."""
    if share is None:
        return NONE
    text = plain(100 * share, ".2g").replace("-", "−")
    return "over 99%" if text == "100" and share < 1 else f"{text}%"


def some(values: Sequence[str], separator: str = ", ") -> str:
    """The first few values, and the number of the remaining ones."""
    more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return separator.join(values[:SHOWN]) + more


def merged(statements: Iterable[tuple[str, str]]) -> str:
    """Pairs of place and statement as text; a statement that holds in several places is written once."""
    places = grouped((statement, place) for place, statement in statements)
    return "; ".join(f"{', '.join(where)}: {statement}" for statement, where in places.items())


def plural(n: int, noun: str) -> str:
    """A number with its noun: "1 trial", "2 trials"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def number(value: float | None, digits: int = 4) -> str:
    """A measured number."""
    return NONE if value is None else plain(value, f"#.{digits}g").rstrip(".").replace("-", "−")


def signed(value: float | None) -> str:
    """A difference, with its sign unless it is 0."""
    return NONE if value is None else plain(value, "+#.3g").rstrip(".").replace("-", "−") if value else "0"


def p_value(value: float | None) -> str:
    """A p-value with three decimals."""
    return NONE if value is None else "< 0.001" if value < 1e-3 else f"{value:.3f}"


def exact(value: float | None) -> str:
    """A count, a rank, or a declared number such as a margin, as short as possible."""
    return NONE if value is None else plain(value, "g").replace("-", "−", 1)


def interval(middle: float | None, low: float | None, high: float | None) -> str:
    """A difference with its interval, if it has one, in one notation and the digits that half of its width supports."""
    if middle is None or low is None or high is None or not isfinite(high - low):
        return signed(middle)
    return _with_ends(_notation((high - low) / 2, max(-low, high)), middle, low, high)


def _with_ends(write: Callable[..., str], middle: float, low: float | None, high: float | None) -> str:
    center, *ends = (write(x, "+") for x in (middle, low, high) if x is not None)
    center = center if center.split("e")[0].strip("+−.0") else center[1:]  # 0 in these digits has no sign
    return f"{center} [{', '.join(ends)}]" if ends else center


def mean_and_deviation(mean: float | None, std: float | None) -> str:
    """A mean with its standard deviation, if it has one, in one notation."""
    if mean is None or std is None or not isfinite(mean + std):
        return number(mean)
    return _with_deviation(_notation(std, abs(mean)) if std else number, mean, std)


def _with_deviation(write: Callable[..., str], mean: float, std: float | None) -> str:
    return write(mean) if std is None else f"{write(mean)}{PLUS_MINUS}{write(std) if std else '0'}"


def column_of_means(rows: Sequence[tuple[float | None, float | None]]) -> list[str]:
    """Means with their deviations, all with the number of decimals that the median deviation supports."""
    return _column(rows, [std for _, std in rows], mean_and_deviation, _with_deviation)


def column_of_intervals(rows: Sequence[tuple[float | None, float | None, float | None]]) -> list[str]:
    """Differences with their intervals, all with the number of decimals that the median width supports."""
    halves = [None if low is None or high is None else (high - low) / 2 for _, low, high in rows]
    return _column(rows, halves, interval, _with_ends)


def _column(
    rows: Sequence[tuple[float | None, ...]],
    spreads: Sequence[float | None],
    alone: Callable[..., str],
    together: Callable[..., str],
) -> list[str]:
    """The texts of a column whose numbers all have the same number of decimals.

    The decimals are those with which the median spread has two digits, and one more where a smaller one would be 0.
    A row that needs more, or an exponent, is written as if it were alone.
    """
    from statistics import median  # here, since a command needs no numbers to start

    finite = [[abs(x) for x in row if x is not None and isfinite(x)] for row in rows]
    largest = max((x for row in finite for x in row), default=0.0)
    known = [x for x in spreads if x and isfinite(x)] or [
        median(row[0] for row in finite if row) / 100 if largest else 0.0
    ]
    if not all(known) or not -4 <= _exponent(largest) < 7:
        return [alone(*row) for row in rows]
    usual = min(1 + _first_decimal(median(known)), DIGITS - 1 - _exponent(largest))
    places = max(0, usual, *(first for first in map(_first_decimal, known) if first <= usual + 1))
    write = _decimals(places, 0)

    def fits(row: tuple[float | None, ...], spread: float | None) -> bool:
        finite = row[0] is not None and all(x is None or isfinite(x) for x in (*row, spread))
        return finite and not (spread and _first_decimal(spread) > places)

    return [(together(write, *row) if fits(row, x) else alone(*row)) for row, x in zip(rows, spreads, strict=True)]


def column_of_numbers(values: Sequence[float | None], digits: int = 3) -> list[str]:
    """Numbers with one number of decimals, with which the median has these digits.

    A number that would be 0 so, or that needs an exponent, is written as if it were alone.
    """
    from statistics import median

    known = [abs(value) for value in values if value and 1e-4 <= abs(value) < 1e7]
    places = max(digits - 1 - _exponent(median(known)), 0) if known else 0
    write = _decimals(places, 0)

    def text(value: float | None) -> str:
        alone = value is None or not isfinite(value) or abs(value) >= 1e7
        return number(value, digits) if alone or (value and _first_decimal(abs(value)) > places) else write(value)

    return [text(value) for value in values]


def column_of_percents(shares: Sequence[float | None]) -> list[str]:
    """Shares in percent with one number of decimals, with which the median has two digits; 100% is all."""
    texts = column_of_numbers([None if share is None else 100 * share for share in shares], 2)
    shown = zip(shares, texts, strict=True)
    return [NONE if x is None else "over 99%" if x < 1 and text.startswith("100") else f"{text}%" for x, text in shown]


def _first_decimal(value: float) -> int:
    """The decimals with which a value is not 0."""
    return -_exponent(value)


def _exponent(value: float) -> int:
    return int(f"{value:.0e}".split("e")[1])


def _places(spread: float, largest: float) -> int:
    """The decimals with which the last place is between a 20th and a 200th of a spread."""
    leading, exponent = f"{spread:.1e}".split("e")
    return min((2 if leading < "2" else 1) - int(exponent), DIGITS - 1 - _exponent(largest))


def _notation(spread: float, largest: float) -> Callable[..., str]:
    """How to write numbers up to the largest with the decimals that their spread supports."""
    power = 0 if -4 <= _exponent(largest) < 7 else _exponent(largest)
    return _decimals(_places(spread, largest) + power, power)


def _decimals(places: int, power: int) -> Callable[..., str]:
    """How to write numbers with some decimals, as multiples of a power of ten."""

    def write(value: float, sign: str = "") -> str:
        mantissa = value / 10.0 ** (power // 2) / 10.0 ** (power - power // 2)  # since 10.0**-324 is 0
        text = f"{mantissa:{sign}.{max(places, 0)}f}" + (f"e{power:+03d}" if power else "")
        return text.replace("-", "−")

    return write
