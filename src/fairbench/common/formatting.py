"""Durations, sizes, counts, shares, rates and lists as text."""

from collections.abc import Iterable, Sequence

SHOWN = 4
"""The largest number of values that a list shows."""


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


def rate(value: float) -> str:
    """A learning rate: as it is if that has at most four digits, otherwise with three."""
    short = f"{value:.4g}"
    return short if float(short) == value else f"{value:.3g}"


def percent(share: float) -> str:
    """A share in percent with two digits, as 0.24% and 24%; 100% is all."""
    text = plain(100 * share, ".2g")
    return "over 99%" if text == "100" and share < 1 else f"{text}%"


def some(values: Sequence[str], separator: str = ", ") -> str:
    """The first few values, and the number of the remaining ones."""
    more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return separator.join(values[:SHOWN]) + more


def merged(statements: Iterable[tuple[str, str]]) -> str:
    """Statements, given as place and statement, as text; a statement that holds in several places is written once."""
    places: dict[str, list[str]] = {}
    for place, statement in statements:
        places.setdefault(statement, []).append(place)
    return "; ".join(f"{', '.join(where)}: {statement}" for statement, where in places.items())


def plural(n: int, noun: str) -> str:
    """A number with its noun: "1 trial", "2 trials"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
