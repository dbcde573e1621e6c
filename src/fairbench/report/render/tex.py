"""Text as LaTeX source."""

import re
from unicodedata import name

GREEK = {
    **{letter: name(letter).split()[-1].lower() for letter in "αβγδεζηθικμνξπρστυφχψω"},
    **{letter: name(letter).split()[-1].capitalize() for letter in "ΓΔΘΞΠΣΥΦΨΩ"},
    **{"λ": "lambda", "Λ": "Lambda", "µ": "mu"},  # Unicode writes lamda, and has a sign of its own for micro
}
ESCAPED = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"{\ttfamily\char34}",  # the roman fonts have no such quote in every encoding
    "[": "{[}",  # at the start of a row it would be an argument of the line break before it
    "]": "{]}",
    "-": "{-}",  # two of them would be a dash
    "'": r"{\textquotesingle}",
    "`": r"\textasciigrave{}",
    "\n": " ",
    "\N{NO-BREAK SPACE}": "~",
    "–": "--",
    "−": "$-$",
    "×": r"$\times$",
    "±": r"$\pm$",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "→": r"$\rightarrow$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≈": r"$\approx$",
    "∞": r"$\infty$",
    "·": r"$\cdot$",
    "†": r"\dag{}",
    "…": r"\dots{}",
    "’": "'",
    "“": "``",
    "”": "''",
    **{letter: rf"$\{command}$" for letter, command in GREEK.items()},
    **{digit: rf"\textsubscript{{{i}}}" for i, digit in enumerate("₀₁₂₃₄₅₆₇₈₉")},
    **{digit: rf"\textsuperscript{{{i}}}" for i, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
}
POWER = re.compile(r"(?<![\w.])(\d(?:\.\d+)?)e([+−-])0*(\d+)(?!\w)")
"""A number with an exponent as Python writes it, 1e-08 or 3.75e−08; one such as 1e5 may be part of a name or a hash."""


def escape(text: str) -> str:
    """Text as LaTeX source; a character that LaTeX cannot print becomes its code point, U+4E2D."""
    found, end = "", 0
    for power in POWER.finditer(text):
        found += _escaped(text[end : power.start()]) + _power(*power.groups())
        end = power.end()
    found += _escaped(text[end:])
    return re.sub(r"(?<!\\)\$\$", "", found)  # adjacent formulas are one


def _escaped(text: str) -> str:
    return "".join(ESCAPED.get(c) or (c if " " <= c <= "~" else rf"\texttt{{U+{ord(c):04X}}}") for c in text)


def _power(factor: str, sign: str, exponent: str) -> str:
    power = f"10^{{{'' if sign == '+' else '-'}{exponent}}}"
    return f"${power}$" if factor == "1" else rf"${factor}\times{power}$"
