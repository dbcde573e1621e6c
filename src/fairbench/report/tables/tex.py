"""Text as LaTeX source."""

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
    "†": r"\dag{}",
    "…": r"\dots{}",
    "’": "'",
    "“": "``",
    "”": "''",
}


def escape(text: str) -> str:
    """Text as LaTeX source; a character that LaTeX cannot print becomes its code point, U+4E2D."""
    return "".join(ESCAPED.get(c) or (c if " " <= c <= "~" else rf"\texttt{{U+{ord(c):04X}}}") for c in text)
