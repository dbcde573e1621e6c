"""The text of numbers, durations, sizes and lists on pages, in files and on terminals. A dash stands for None."""

import re
from collections.abc import Iterable, Sequence
from math import isfinite

from fairbench.common.decimals import Notation, first_decimal, notation
from fairbench.common.grouping import grouped

SHOWN = 4
"""The largest number of values that a list shows."""
SHOWN_DIGITS = 12
"""The digits of a hash that are shown."""
MOST_DECIMALS = 7
"""The most decimals of an end of an interval that lies near 0."""
NEGATIVE = re.compile(r"(?<![\w.)\]-])-(?=\.?\d)")
"""The hyphen before a negative number, but not one in a name, a date or an exponent."""
ALMOST_ALL = "over 99%"
"""The text of a share below 1 that would be rounded to 100%."""
NONE = "–"
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
    """A number of bytes in a suitable unit, such as "12.3 MB"."""
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
    """A share in percent with two digits, such as 0.24% and 24%. Only a share of 1 is written as 100%."""
    if share is None:
        return NONE
    text = _with_minus(plain(100 * share, ".2g"))
    if text == "100" and share < 1:
        return ALMOST_ALL
    return f"{text}%"


def with_arrow(metric: str, direction: str) -> str:
    """A metric with an arrow, which says whether lower ("min") or higher values are better."""
    arrow = "↑"
    if direction == "min":
        arrow = "↓"
    return f"{metric}\N{NO-BREAK SPACE}{arrow}"


def short_hash(text: str) -> str:
    """The beginning of a commit or another hash, as texts show it."""
    return text[:SHOWN_DIGITS]


def some(values: Sequence[str], separator: str = ", ") -> str:
    """The first few values, and the number of the remaining ones. A single remaining one is shown too."""
    remaining = len(values) - SHOWN
    if remaining == 1:
        return separator.join(values)
    text = separator.join(values[:SHOWN])
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


def with_minus_signs(text: str) -> str:
    """A text with a minus in place of the hyphen before each negative number."""
    return NEGATIVE.sub("−", text)


def p_value(value: float | None) -> str:
    """A p-value with three decimals."""
    if value is None:
        return NONE
    if value < 1e-3:
        return "< 0.001"
    return f"{value:.3f}"


def confidence_level(level: float | None) -> str:
    """The level of an interval in percent, with at least one decimal, such as 95%, 99.6% and 99.95%.

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
    """Intervals with their levels, such as "99.6% interval" or "95% to 99.6% interval"."""
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
    return with_ends(notation(half_width, max(-low, high)), middle, low, high)


def with_ends(common: Notation, middle: float, low: float | None, high: float | None) -> str:
    """A difference and the ends of its interval in a common notation."""
    center = common.text(middle, "+")
    mantissa = center.partition("e")[0]
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
    return with_deviation(notation(std, abs(mean)), mean, std)


def with_deviation(common: Notation, mean: float, std: float | None) -> str:
    """A mean and its standard deviation in a common notation."""
    if std is None:
        return common.text(mean)
    deviation = common.text(std) if std else "0"
    return f"{common.text(mean)}{PLUS_MINUS}{deviation}"
