"""The numbers in what a program prints: a number is read as a whole, or it is unclear and no result."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fairbench.common.number_texts import DECIMAL_COMMA, DECIMAL_POINT, EXPONENT, number_of

NOT_FINITE = r"(?:nan|inf(?:inity)?)\b"
NUMBER = rf"[-+]?(?:\d+\.?\d*{EXPONENT}|\.\d+{EXPONENT}|{NOT_FINITE})"
"""A number in its usual form."""
WRITTEN = rf"[-+–]?(?:(?:\d|[.,]\d)(?:[\w%#]|[.,'’\u00a0\u202f/:*×^+-](?=[-\d^#]))*|{NOT_FINITE})"
"""A number with all that stands behind it without a space, as in 97/100, 1,234.5, 85%, 2.5k and 12:30."""
WHOLE = re.compile(WRITTEN, re.IGNORECASE)
INFINITE = re.compile(rf"[-+]?{NOT_FINITE}", re.IGNORECASE)
SECOND = r"\([ \t]*[-+]?[\d.,]+[ \t]*%?[ \t]*\)"
"""A second number in parentheses."""
BEHIND = re.compile(
    rf"[ \t]*%(?:[ \t]*{SECOND})?|[ \t]*/[ \t]*\d+|[ \t]+(?:out[ \t]+)?of[ \t]+\d+|[ \t]*{SECOND}"
    r"|[ \t]+[-+]?\d[\d.,]*(?![^\s,;)])|[ \t]*[|│┃][ \t]*[-+]?\d[\d.,]*(?=[ \t]*[|│┃])"
    r"|[ \t]*(?:-+>|=>|→|vs\.?)[ \t]*[-+]?\d[\d.,]*"
)
"""What may belong to a number, behind a space: percent, its total, or a second number, also in a table."""
SEPARATOR = re.compile(r"(?<=\d)(?:_(?=\d)|['’\u00a0\u202f](?=\d{3}(?!\d)))")
"""A sign that stands only between the digits of one number."""
PARTS = re.compile(
    rf"(?P<number>[-+]?(?:[\d.,]+{EXPONENT}|{NOT_FINITE}))(?P<unit>[ \t]*%|[^\W\d_]*)(?P<second>[ \t]*{SECOND})?",
    re.IGNORECASE,
)
"""A number with its unit and a second number."""


@dataclass(frozen=True)
class Unclear:
    """A text that is no number, or that may be several.

    Attributes:
        text: what the program has printed.
        reason: why it is unclear, in words; empty where the text shows it.
    """

    text: str
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"{self.text!r:.80} ({self.reason})"
        return f"{self.text!r:.80}"


def whole_text(line: str, begin: int) -> str:
    """The text of the number at a position in a line, with what belongs to it."""
    written = WHOLE.match(line, begin)
    assert written
    behind = BEHIND.match(line, written.end())
    return line[begin : (behind or written).end()]


def step_of(text: str) -> float | None:
    """The number of a step, which may have its total behind it, as in 250/5,100. None for any other text."""
    alone = re.split(r"[/:( ]", text)[0]
    if DECIMAL_POINT.fullmatch(alone):
        return number_of(alone, ".")
    if DECIMAL_COMMA.fullmatch(alone):
        return number_of(alone, ",")
    return None


def read_numbers(texts: Sequence[str]) -> list[float | Unclear]:
    """The numbers of all texts that a program has printed for one name.

    One text may show how another is meant: after 999.5, the number 1,234 has a comma between its thousands.
    """
    parts = [_parts(text) for text in texts]
    clear = [part for part in parts if not isinstance(part, Unclear)]
    finite = [(number, unit) for number, unit in clear if not INFINITE.fullmatch(number)]
    sign = _decimal_sign([number for number, _ in finite])
    examples = {unit: number + unit for number, unit in finite}
    numbers: list[float | Unclear] = []
    for text, part in zip(texts, parts, strict=True):
        if isinstance(part, Unclear):
            numbers.append(part)
        elif INFINITE.fullmatch(part[0]):
            numbers.append(float(part[0]))
        elif len(examples) > 1:
            numbers.append(Unclear(text, f"other lines have another unit: {' and '.join(examples.values())}"))
        elif sign is None and "," in part[0]:
            numbers.append(Unclear(text, "its comma may stand before decimals or between thousands"))
        else:
            numbers.append(number_of(part[0], sign or "."))
    return numbers


def _parts(text: str) -> tuple[str, str] | Unclear:
    """The number and the unit in a text. A unit of one letter may multiply the number, as in 2.5k."""
    match = PARTS.fullmatch(SEPARATOR.sub("", text.strip().replace("–", "-")))
    if match is None:
        return Unclear(text)
    unit = match["unit"].strip()
    if match["second"] and (unit == "%") == ("%" in match["second"]):
        return Unclear(text, "it may be either of the two numbers")
    if len(unit) == 1 and unit not in "%s":
        return Unclear(text)
    number = match["number"]
    is_number = DECIMAL_POINT.fullmatch(number) or DECIMAL_COMMA.fullmatch(number)
    if not is_number and not INFINITE.fullmatch(number):
        return Unclear(text)
    return number, unit


def _decimal_sign(numbers: Sequence[str]) -> str | None:
    """The decimal sign of some numbers, if they have one; None if they may have both, or contradict each other."""
    if not any("," in number for number in numbers):
        return "."
    all_point = all(DECIMAL_POINT.fullmatch(number) for number in numbers)
    all_comma = all(DECIMAL_COMMA.fullmatch(number) for number in numbers)
    if all_point and not all_comma:
        return "."
    if all_comma and not all_point:
        return ","
    return None
