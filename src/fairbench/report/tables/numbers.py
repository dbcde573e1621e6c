"""Numbers as text for the page, LaTeX and a terminal; a dash stands for None."""

from math import floor, log10

from fairbench.common.formatting import plain

NONE = "–"


def number(value: float | None, digits: int = 4) -> str:
    """A measured number."""
    return NONE if value is None else plain(value, f"#.{digits}g").rstrip(".").replace("-", "−")


def three(value: float | None) -> str:
    """A number with three digits, such as a time."""
    return number(value, 3)


def signed(value: float | None) -> str:
    """A difference, its sign always shown."""
    return NONE if value is None else plain(value, "+#.3g").rstrip(".").replace("-", "−")


def p_value(value: float | None) -> str:
    """A p-value."""
    return NONE if value is None else "< 0.0001" if value < 1e-4 else f"{value:#.2g}"


def rate(value: float | None) -> str:
    """A learning rate or another declared number, such as a target, as short as possible."""
    return NONE if value is None else f"−{-value:g}" if value < 0 else f"{value:g}"


def percent(value: float | None) -> str:
    """A share in percent."""
    return NONE if value is None else f"{number(100 * value, 3)}%"


def interval(middle: float | None, low: float | None, high: float | None) -> str:
    """A difference with its interval, if it has one."""
    return signed(middle) if low is None or high is None else f"{signed(middle)} [{signed(low)}, {signed(high)}]"


def mean_and_deviation(mean: float | None, std: float | None) -> str:
    """A mean with a standard deviation of two digits and as many decimals, on one line."""
    if mean is None or std is None:
        return number(mean)
    decimals = max(1 - floor(log10(std)), 0) if std else 0
    fixed = 0 < decimals <= 6 or (not decimals and std > 0 and abs(mean) < 1e7)
    shown = [f"{x:.{decimals}f}" for x in (mean, std)] if fixed else [number(mean), number(std, 2)]
    return "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}".join(shown).replace("-", "−")
