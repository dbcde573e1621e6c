r"""The report's tables in LaTeX, with booktabs, for `\input`; any engine compiles them, since they are ASCII.

A table is as wide as the text and continues on the next page. Columns that only the page has are left out, and one with
many columns is set small.
"""

import re
from collections.abc import Sequence
from unicodedata import name

from fairbench.report.view import Cell, Emphasized, TableView

GREEK = {
    **{letter: name(letter).split()[-1].lower() for letter in "αβγδεζηθικμνξπρστυφχψω"},
    **{letter: name(letter).split()[-1].capitalize() for letter in "ΓΔΘΞΠΣΥΦΨΩ"},
    **{"λ": "lambda", "Λ": "Lambda", "µ": "mu"},  # Unicode writes lamda, and has a sign of its own for micro
}
SYMBOLS = {"×": "times", "±": "pm", "↓": "downarrow", "↑": "uparrow", "→": "rightarrow", "≤": "leq", "≥": "geq"}
SYMBOLS |= {"≈": "approx", "∞": "infty", "·": "cdot"}
ESCAPED = {
    **{letter: f"\\{letter}" for letter in "{}$&%#_"},
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"{\ttfamily\char34}",  # the roman fonts have no such quote in every encoding
    **{letter: f"{{{letter}}}" for letter in "[]-"},  # an argument of the line break before them; two would be a dash
    "'": r"{\textquotesingle}",
    "`": r"\textasciigrave{}",
    "\n": " ",
    "\N{NO-BREAK SPACE}": "~",
    "–": "--",
    "−": "$-$",
    "†": r"\dag{}",
    "…": r"\dots{}",
    "’": "'",
    "“": "``",
    "”": "''",
    **{letter: rf"$\{command}$" for letter, command in (SYMBOLS | GREEK).items()},
    **{digit: rf"\textsubscript{{{i}}}" for i, digit in enumerate("₀₁₂₃₄₅₆₇₈₉")},
    **{digit: rf"\textsuperscript{{{i}}}" for i, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
}
POWER = r"(?<![\w.])(\d(?:\.\d+)?)e([+−-])0*(\d+)(?!\w)"
"""A number with an exponent as Python writes it, 1e-08 or 3.75e−08; one such as 1e5 may be part of a name or a hash."""


def escape(text: str) -> str:
    """Text as LaTeX source; a character that LaTeX cannot print becomes its code point, U+4E2D."""
    source = re.sub(f"{POWER}|.", _escaped, text, flags=re.DOTALL)
    return re.sub(r"(?<!\\)\$\$", "", source)  # adjacent formulas are one


def _escaped(found: re.Match[str]) -> str:
    """A number with an exponent, or a character."""
    (factor, sign, exponent), c = found.groups(), found[0]
    if factor:
        power = f"10^{{{'' if sign == '+' else '-'}{exponent}}}"
        return f"${power}$" if factor == "1" else rf"${factor}\times{power}$"
    return ESCAPED.get(c) or (c if " " <= c <= "~" else rf"\texttt{{U+{ord(c):04X}}}")


SIZES = {"footnotesize": 72, "scriptsize": 77, "tiny": 90}
"""How many letters fit a line of 345 pt, the text width of an article, by the size of the font."""
LETTER, GAP = 0.55, 0.9
"""The width of a letter in em, and of the space between two columns in letters."""
WIDE = frozenset("+−±×→↓↑<>=≥≤≈%@mw&#")
"""Characters that are half as wide again, as capitals are."""
LONGEST, WIDEST = 13, 40
"""The most letters of a word that is not divided, and of a line in a column."""
BREAK = re.compile(r"(?<= )|(?<=[_/:.=])(?=[^\W\d_])")
"""Where a line may end: at a space, and within names before a letter."""


def to_latex(table: TableView) -> str:
    r"""A table for `\input`; its first lines say what it shows, and the packages that it needs."""
    view = table.narrow
    cells = [[str(cell.text) for cell in column] for column in zip(*view.rows, strict=True)]
    columns = list(zip(view.columns, cells, strict=True))
    space = {size: letters - GAP * len(columns) for size, letters in SIZES.items()}
    least = [_least(column.title, texts, whole=column.value is not None) for column, texts in columns]
    size = next((size for size, letters in space.items() if sum(least) <= letters), "tiny")
    if sum(least) > space[size]:  # numbers leave their intervals to the next line
        least = [_least(column.title, texts, whole=False) for column, texts in columns]
    wanted = [max([low, *(_letters(text[:WIDEST]) for text in texts)]) for low, texts in zip(least, cells, strict=True)]
    share = min(1, max(space[size] - sum(least), 0) / max(sum(wanted) - sum(least), 1))
    specs = "".join(
        rf">{{\ragged{'left' if column.value else 'right'}\arraybackslash}}"
        rf"p{{{LETTER * (low + share * (high - low)):.2f}em}}"
        for column, low, high in zip(view.columns, least, wanted, strict=True)
    )
    left_out = [escape(column.title) for column in table.columns if not column.narrow]
    only = f"% Only in the page: {', '.join(left_out)}.\n" if left_out else ""
    head = " & ".join(_in_italics(column.title) for column in view.columns)
    body = "".join(f"{' & '.join(map(_source, row))} \\\\\n" for row in view.rows)
    return (
        f"% {_in_italics(table.caption)}\n{only}% Needs the packages array, booktabs, longtable and textcomp.\n"
        rf"\begingroup\{size}\setlength{{\tabcolsep}}{{{LETTER * GAP / 2:.2f}em}}%"
        f"\n\\begin{{longtable}}{{@{{}}{specs}@{{}}}}\n\\toprule\n{head} \\\\\n\\midrule\n\\endhead\n"
        f"{body}\\bottomrule\n\\end{{longtable}}\\endgroup\n"
    )


def _least(title: str, texts: Sequence[str], whole: bool) -> float:
    """The letters of the longest part of a column that stays in one line: a word, or a whole cell."""
    parts = texts if whole else [piece.rstrip() for text in texts for piece in _pieces(text)]
    return max(map(_letters, [*title.split(), *parts]))


def _in_italics(text: str) -> str:
    """Text in which the letters of statistics are variables."""
    return re.sub(r"(?<![\w\\])([gp])(?!\w)", r"$\1$", escape(text))


def _letters(text: str) -> float:
    """An upper bound of the width of a text in usual letters."""
    return 0.7 + len(text) + 0.5 * sum(c in WIDE or c.isupper() for c in text)


def _pieces(text: str) -> list[str]:
    """The parts of a text between which a line may end; a long word is divided."""
    return [part[i : i + LONGEST] for part in BREAK.split(text) for i in range(0, len(part), LONGEST)] or [""]


def _source(cell: Cell) -> str:
    """A cell as LaTeX source."""
    source = r"\allowbreak{}".join(map(escape, _pieces(str(cell.text)))).replace(r" \allowbreak{}", " ")
    return cell.text.latex(source) if isinstance(cell.text, Emphasized) else source
