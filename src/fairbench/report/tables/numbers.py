"""Numbers as text for the page, LaTeX and a terminal; a dash stands for None."""

from collections.abc import Callable
from math import isfinite

from fairbench.common import formatting
from fairbench.common.formatting import plain

NONE = "–"
DIGITS = 9
"""The largest number of digits of a number, however narrow its interval is."""


def number(value: float | None, digits: int = 4) -> str:
    """A measured number."""
    return NONE if value is None else plain(value, f"#.{digits}g").rstrip(".").replace("-", "−")


def three(value: float | None) -> str:
    """A number with three digits, such as a time."""
    return number(value, 3)


def signed(value: float | None) -> str:
    """A difference, with its sign unless it is 0."""
    return NONE if value is None else plain(value, "+#.3g").rstrip(".").replace("-", "−") if value else "0"


def p_value(value: float | None) -> str:
    """A p-value."""
    return NONE if value is None else "< 0.0001" if value < 1e-4 else f"{value:#.2g}"


def rate(value: float | None) -> str:
    """A learning rate."""
    return NONE if value is None else formatting.rate(value)


def exact(value: float | None) -> str:
    """A count, a rank, or a declared number such as a margin, as short as possible."""
    return NONE if value is None else plain(value, "g").replace("-", "−", 1)


def percent(share: float | None) -> str:
    """A share in percent."""
    return NONE if share is None else formatting.percent(share).replace("-", "−")


def interval(middle: float | None, low: float | None, high: float | None) -> str:
    """A difference with its interval, if it has one, in one notation and the digits that half of its width supports."""
    if middle is None or low is None or high is None or not isfinite(high - low):
        return signed(middle)
    write = _notation((high - low) / 2, max(-low, high))
    center, *ends = (write(x, "+") for x in (middle, low, high))
    center = center if center.strip("+−.0") else center[1:]  # 0 in these digits has no sign
    return f"{center} [{', '.join(ends)}]"


def measured(mean: float | None, std: float | None) -> str:
    """A mean with the digits that its standard deviation supports."""
    return _notation(std, abs(mean))(mean) if mean is not None and std else number(mean)


def mean_and_deviation(mean: float | None, std: float | None) -> str:
    """A mean with its standard deviation, if it has one, in one notation."""
    if mean is None or std is None:
        return number(mean)
    spread = _notation(std, abs(mean))(std) if std else "0"
    return f"{measured(mean, std)}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{spread}"


def _notation(spread: float, largest: float) -> Callable[..., str]:
    """How to write numbers up to the largest so that the last place is between a 20th and a 200th of their spread."""
    (leading, exponent), at = f"{spread:.1e}".split("e"), int(f"{largest:.0e}".split("e")[1])
    power = 0 if -4 <= at < 7 else at
    places = min((2 if leading < "2" else 1) - int(exponent), DIGITS - 1 - at) + power

    def write(value: float, sign: str = "") -> str:
        text = f"{value / 10.0**power:{sign}.{max(places, 0)}f}" + (f"e{power:+03d}" if power else "")
        return text.replace("-", "−")

    return write
