"""The forms in which people and programs write numbers, with a decimal point or a decimal comma."""

import re

SPACE_IN_NUMBER = re.compile(r"(?<=\d)[\s'’](?=\d{3}(?!\d))")
"""A space or an apostrophe between the thousands of a number."""
EXPONENT = r"(?:e[-+]?\d+)?"
DECIMAL_POINT = re.compile(
    rf"[-+]?(?:\d+|[1-9]\d{{0,2}}(?:,\d{{3}})+)(?:\.\d*)?{EXPONENT}" + "|" + rf"[-+]?\.\d+{EXPONENT}", re.IGNORECASE
)
"""A number with a decimal point, perhaps with commas between thousands."""
DECIMAL_COMMA = re.compile(
    rf"[-+]?(?:\d+|[1-9]\d{{0,2}}(?:\.\d{{3}})+)(?:,\d*)?{EXPONENT}" + "|" + rf"[-+]?,\d+{EXPONENT}", re.IGNORECASE
)
"""A number with a decimal comma, perhaps with points between thousands."""


def number_of(text: str, sign: str) -> float:
    """The number of a text with a decimal sign, "." or ",". The other sign stands between thousands."""
    between_thousands = "," if sign == "." else "."
    return float(text.replace(between_thousands, "").replace(sign, "."))
