"""The numbers that people write in the cells of a table."""

import math
import re
from collections.abc import Iterable
from decimal import Decimal

from fairbench.common.errors import UsageError

DIVERGED = {"diverged", "nan", "inf", "+inf", "-inf", "infinity", "-infinity"}
FAILED = {
    *("", "-", "--", "–", "—", "?", "none", "null", "na", "n/a", "#n/a", "<na>", "nat", "missing", "dnf"),
    *("fail", "failed", "failure", "crash", "crashed", "error", "oom", "out of memory", "killed", "timeout"),
    *("timed out", "pruned", "canceled", "cancelled", "preempted", "running", "pending", "scheduled"),
}
"""What a run has in place of a value where it diverged, and where it did not finish for another reason."""
LARGEST = 1e300
"""Larger values count as diverged."""
PAIR = re.compile(r"(.+?)\s*(?:±|\+/-|\+-)\s*(.+)|(.+?)\s*\((.+)\)")
"""A mean with its standard deviation in one cell."""
FORM = r"[-+]?(?:\d+|[1-9]\d{{0,2}}(?:{group}\d{{3}})+)(?:{point}\d*)?(?:e[-+]?\d+)?|[-+]?{point}\d+(?:e[-+]?\d+)?"
FORMS = {
    point: re.compile(FORM.format(point=re.escape(point), group=re.escape(group))) for point, group in (".,", ",.")
}
"""A number with a decimal point, perhaps with commas between thousands; and the other way around."""


def words(text: str) -> str:
    """A cell in small letters, without marks of emphasis and spaces between thousands."""
    text = re.sub(r"\\\w+\{([^{}]*)\}", r"\1", text.casefold().replace("−", "-").replace("\\pm", "±")).strip(" *$")
    return re.sub(r"(?<=\d)[\s'’](?=\d{3}(?!\d))", "", text)


def pair_of(text: str) -> tuple[str, str] | None:
    """Mean and standard deviation of a cell that has both."""
    found = PAIR.fullmatch(words(text))
    return (found[1] or found[3], found[2] or found[4]) if found else None


def is_lost(text: str) -> bool:
    """Whether a cell says that there is no value."""
    return words(text) in DIVERGED | FAILED


def atoms(text: str) -> list[str]:
    """The numbers of a cell, without their percent signs; none if it has no value."""
    return [] if is_lost(text) else [words(x).removesuffix("%").rstrip() for x in pair_of(text) or (text,)]


def is_number(text: str) -> bool:
    """Whether a cell may be a number, two of them, or a word in place of one."""
    return all(any(form.fullmatch(x) for form in FORMS.values()) for x in atoms(text))


def seed_of(text: str) -> str:
    """A seed in one spelling: 1 and 1.0 are the same."""
    try:
        number = Decimal(text)
        return str(int(number)) if number == number.to_integral_value() else text
    except (ArithmeticError, ValueError):
        return text


def decimal_sign(cells: Iterable[tuple[str, str]]) -> str:
    """The decimal sign of the numbers of a table, "." or ",", by their texts and places.

    Raises:
        UsageError: a text is no number, or some may be two numbers, as "1,510" alone.
    """
    numbers = [(atom, place) for text, place in cells for atom in atoms(text)]
    for atom, place in numbers:
        if not any(form.fullmatch(atom) for form in FORMS.values()):
            ways = "must be a number, or say why there is none, as diverged, failed or NA"
            raise UsageError(f"{place}: {ways}; got {atom!r}")
    unfit = {sign: [x for x in numbers if not form.fullmatch(x[0])] for sign, form in FORMS.items()}
    if all(unfit.values()):
        (a, here), (b, there) = unfit["."][0], unfit[","][0]
        raise UsageError(f"{here}: {a} has a decimal comma, but {there}: {b} has a decimal point; write all alike")
    if any(unfit.values()):
        return "," if unfit["."] else "."
    for atom, place in numbers:
        if "," in atom:
            one, other = (f"{_float(atom, sign):g}" for sign in ".,")
            raise UsageError(f"{place}: {atom} can be {one} or {other}; write all numbers with a decimal point only")
    return "."


def value_of(text: str, sign: str) -> float | None:
    """The number of a cell with a decimal sign; NaN if it diverged, None for another run without a value."""
    if is_lost(text):
        return math.nan if words(text) in DIVERGED else None
    value = _float(atoms(text)[0], sign)
    return value if abs(value) <= LARGEST else math.nan


def _float(atom: str, sign: str) -> float:
    return float(atom.replace("," if sign == "." else ".", "").replace(sign, "."))
