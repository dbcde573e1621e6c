"""The numbers that people write in the cells of a table."""

import math
import re
from collections.abc import Iterable
from decimal import Decimal

from fairbench.common.errors import UsageError

DIVERGED = {"diverged", "nan", "inf", "+inf", "-inf", "infinity", "-infinity"}
"""What a run has in place of a value where it diverged."""
NOT_GIVEN = {"", "-", "--", "–", "—", "?", "none", "null", "na", "n/a", "#n/a", "<na>", "nat", "missing"}
BROKEN = {"dnf", "fail", "failed", "failure", "crash", "crashed", "error", "oom", "out of memory"}
STOPPED = {"killed", "timeout", "timed out", "pruned", "canceled", "cancelled", "preempted"}
UNFINISHED = {"running", "pending", "scheduled"}
LOST = DIVERGED | NOT_GIVEN | BROKEN | STOPPED | UNFINISHED
"""What a run has in place of a value for any reason."""
LARGEST = 1e300
"""Larger values count as diverged."""
PAIR = re.compile(r"(.+?)\s*(?:±|\+/-|\+-)\s*(.+)|(.+?)\s*\((.+)\)")
"""A mean with its standard deviation in one cell."""
EMPHASIS = re.compile(r"\\\w+\{([^{}]*)\}")
"""A command of LaTeX with its argument."""
SPACE_IN_NUMBER = re.compile(r"(?<=\d)[\s'’](?=\d{3}(?!\d))")
"""What stands between the thousands of a number."""
EXPONENT = r"(?:e[-+]?\d+)?"
DECIMAL_POINT = re.compile(
    rf"[-+]?(?:\d+|[1-9]\d{{0,2}}(?:,\d{{3}})+)(?:\.\d*)?{EXPONENT}" + "|" + rf"[-+]?\.\d+{EXPONENT}"
)
"""A number with a decimal point, perhaps with commas between thousands."""
DECIMAL_COMMA = re.compile(
    rf"[-+]?(?:\d+|[1-9]\d{{0,2}}(?:\.\d{{3}})+)(?:,\d*)?{EXPONENT}" + "|" + rf"[-+]?,\d+{EXPONENT}"
)
"""A number with a decimal comma, perhaps with points between thousands."""


def words(text: str) -> str:
    """A cell in small letters, without marks of emphasis and spaces between thousands."""
    small = text.casefold().replace("−", "-").replace("\\pm", "±")
    unmarked = EMPHASIS.sub(r"\1", small).strip(" *$")
    return SPACE_IN_NUMBER.sub("", unmarked)


def pair_of(text: str) -> tuple[str, str] | None:
    """Mean and standard deviation of a cell that has both."""
    found = PAIR.fullmatch(words(text))
    if found is None:
        return None
    if found[1]:
        return found[1], found[2]
    return found[3], found[4]


def is_lost(text: str) -> bool:
    """Whether a cell says that there is no value."""
    return words(text) in LOST


def atoms(text: str) -> list[str]:
    """The numbers of a cell, without their percent signs; none if it has no value."""
    if is_lost(text):
        return []
    parts = pair_of(text) or (text,)
    return [words(part).removesuffix("%").rstrip() for part in parts]


def is_number(text: str) -> bool:
    """Whether a cell may be a number, two of them, or a word in place of one."""
    return all(DECIMAL_POINT.fullmatch(atom) or DECIMAL_COMMA.fullmatch(atom) for atom in atoms(text))


def seed_of(text: str) -> str:
    """A seed in one spelling: 1 and 1.0 are the same."""
    try:
        number = Decimal(text)
        if number == number.to_integral_value():
            return str(int(number))
    except (ArithmeticError, ValueError):
        pass  # a name, which is a seed, too
    return text


def decimal_sign(cells: Iterable[tuple[str, str]]) -> str:
    """The decimal sign of the numbers of a table, "." or ",", by their texts and locations.

    Raises:
        UsageError: a text is no number, or some may be two numbers, as "1,510" alone.
    """
    numbers = [(atom, location) for text, location in cells for atom in atoms(text)]
    without_point: list[tuple[str, str]] = []
    without_comma: list[tuple[str, str]] = []
    for atom, location in numbers:
        has_point = DECIMAL_POINT.fullmatch(atom)
        has_comma = DECIMAL_COMMA.fullmatch(atom)
        if not has_point and not has_comma:
            ways = "must be a number, or say why there is none, as diverged, failed or NA"
            raise UsageError(f"{location}: {ways}; got {atom!r}")
        if not has_point:
            without_point.append((atom, location))
        if not has_comma:
            without_comma.append((atom, location))
    if without_point and without_comma:
        comma, here = without_point[0]
        point, there = without_comma[0]
        raise UsageError(
            f"{here}: {comma} has a decimal comma, but {there}: {point} has a decimal point; write all alike"
        )
    if without_point:
        return ","
    if without_comma:
        return "."
    for atom, location in numbers:
        if "," in atom:
            one = _float(atom, ".")
            other = _float(atom, ",")
            raise UsageError(
                f"{location}: {atom} can be {one:g} or {other:g}; write all numbers with a decimal point only"
            )
    return "."


def value_of(text: str, sign: str) -> float | None:
    """The number of a cell with a decimal sign; NaN if it diverged, None for another run without a value."""
    if words(text) in DIVERGED:
        return math.nan
    if is_lost(text):
        return None
    value = _float(atoms(text)[0], sign)
    return value if abs(value) <= LARGEST else math.nan


def _float(atom: str, sign: str) -> float:
    between_thousands = "," if sign == "." else "."
    return float(atom.replace(between_thousands, "").replace(sign, "."))
