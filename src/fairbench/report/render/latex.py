r"""The report's tables in LaTeX, with booktabs, for `\input`; any engine compiles them, since they are ASCII.

A table is as wide as the text and continues on the next page. Columns that only the HTML page has are left out. A table
with many columns has a small font.
"""

import re
from collections.abc import Mapping, Sequence
from unicodedata import name

from fairbench.report.view import Cell, Emphasized, TableView, TextColumn

SMALL_GREEK = "αβγδεζηθικμνξπρστυφχψω"
CAPITAL_GREEK = "ΓΔΘΞΠΣΥΦΨΩ"
"""The capitals that do not look like Latin ones."""
OTHER_GREEK = {"λ": "lambda", "Λ": "Lambda", "µ": "mu"}
"""Letters whose Unicode name is not that of the command: Unicode writes lamda, and has a separate sign for micro."""
SYMBOLS = {
    "×": "times",
    "±": "pm",
    "↓": "downarrow",
    "↑": "uparrow",
    "→": "rightarrow",
    "≤": "leq",
    "≥": "geq",
    "≈": "approx",
    "∞": "infty",
    "·": "cdot",
}
"""The commands of formulas."""
SPECIAL = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"{\ttfamily\char34}",  # the roman fonts have no such quote in every encoding
    "'": r"{\textquotesingle}",
    "`": r"\textasciigrave{}",
    "\n": " ",
}
"""Characters of ASCII that LaTeX reads as something else."""
TYPOGRAPHY = {
    "\N{NO-BREAK SPACE}": "~",
    "–": "--",
    "−": "$-$",
    "†": r"\dag{}",
    "…": r"\dots{}",
    "’": "'",
    "“": "``",
    "”": "''",
}
SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"
SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"


def _escaped_characters() -> dict[str, str]:
    """The source for each character that LaTeX does not print as it is."""
    escaped = {letter: f"\\{letter}" for letter in "{}$&%#_"}
    escaped |= SPECIAL
    for letter in "[]-":  # an argument of the line break before them; two would be a dash
        escaped[letter] = f"{{{letter}}}"
    escaped |= TYPOGRAPHY
    for letter, command in _commands().items():
        escaped[letter] = rf"$\{command}$"
    for value, digit in enumerate(SUBSCRIPTS):
        escaped[digit] = rf"\textsubscript{{{value}}}"
    for value, digit in enumerate(SUPERSCRIPTS):
        escaped[digit] = rf"\textsuperscript{{{value}}}"
    return escaped


def _commands() -> dict[str, str]:
    """The command of each symbol and Greek letter."""
    commands = dict(SYMBOLS)
    for letter in SMALL_GREEK:
        commands[letter] = _greek_name(letter).lower()
    for letter in CAPITAL_GREEK:
        commands[letter] = _greek_name(letter).capitalize()
    return commands | OTHER_GREEK


def _greek_name(letter: str) -> str:
    """The name of a Greek letter, which is the last word of its Unicode name, as in GREEK SMALL LETTER ALPHA."""
    return name(letter).split()[-1]


ESCAPED = _escaped_characters()
POWER = r"(?<![\w.])(\d(?:\.\d+)?)e([+−-])0*(\d+)(?!\w)"
"""A number with an exponent as Python writes it, 1e-08 or 3.75e−08.

The exponent must have a sign, since a text as 1e5 may be part of a name or a hash.
"""


def escape(text: str) -> str:
    """Text as LaTeX source. A character that LaTeX cannot print is replaced by its code point, such as U+4E2D."""
    source = re.sub(f"{POWER}|.", _escaped, text, flags=re.DOTALL)
    return re.sub(r"(?<!\\)\$\$", "", source)  # adjacent formulas are one


def _escaped(match: re.Match[str]) -> str:
    """The source for a match of `escape`: for a number with an exponent, or for a character."""
    factor, sign, exponent = match.groups()
    if factor:
        return _power(factor, sign, exponent)
    character = match[0]
    if character in ESCAPED:
        return ESCAPED[character]
    if _is_plain(character):
        return character
    return rf"\texttt{{U+{ord(character):04X}}}"


def _is_plain(character: str) -> bool:
    """Whether LaTeX prints a character as it is."""
    return " " <= character <= "~"


def _is_code_point(character: str) -> bool:
    """Whether a character is replaced by its code point."""
    return character not in ESCAPED and not _is_plain(character)


def _power(factor: str, sign: str, exponent: str) -> str:
    """A number with an exponent as a formula."""
    minus = "" if sign == "+" else "-"
    power = f"10^{{{minus}{exponent}}}"
    if factor == "1":
        return f"${power}$"
    return rf"${factor}\times{power}$"


SIZES = {"footnotesize": 72, "scriptsize": 77, "tiny": 90}
"""The number of letters in a line of 345 pt, the text width of an article, for each size of the font."""
LETTER = 0.55
"""The width of a letter in em."""
GAP = 0.9
"""The width of the space between two columns in letters."""
WIDE = frozenset("+−±×→↓↑<>=≥≤≈%@mw&#")
"""Characters that are half as wide again as usual letters, as capitals are too."""
CODE_POINT = 5
"""The letters by which a code point is longer than its character."""
LONGEST = 13
"""The most letters of a word that is not divided."""
WIDEST = 40
"""The most letters of a line in a column."""
BREAK = re.compile(r"(?<= )|(?<=[_/:.=])(?=[^\W\d_])")
"""Where a line may end: at a space, and within names before a letter."""


def to_latex(table: TableView) -> str:
    r"""A table for `\input`. Comments in its first lines say what it shows, and which packages it needs."""
    view = table.narrow
    texts = []
    for index in range(len(view.columns)):
        texts.append([str(row[index].text) for row in view.rows])
    size, widths = _layout(view.columns, texts)
    specs = "".join(_column_spec(column, width) for column, width in zip(view.columns, widths, strict=True))
    head = " & ".join(_in_italics(column.title) for column in view.columns)
    body = "".join(_line(row) for row in view.rows)
    return (
        f"% {_in_italics(table.caption)}\n{_left_out(table)}"
        "% Needs the packages array, booktabs, longtable and textcomp.\n"
        rf"\begingroup\{size}\setlength{{\tabcolsep}}{{{LETTER * GAP / 2:.2f}em}}%"
        f"\n\\begin{{longtable}}{{@{{}}{specs}@{{}}}}\n\\toprule\n{head} \\\\\n\\midrule\n\\endhead\n"
        f"{body}\\bottomrule\n\\end{{longtable}}\\endgroup\n"
    )


def _layout(columns: Sequence[TextColumn], texts: Sequence[Sequence[str]]) -> tuple[str, list[float]]:
    """The size of the font, and the width of each column in letters. `texts` are the cells of each column."""
    space = {size: letters - GAP * len(columns) for size, letters in SIZES.items()}
    least_widths = _least_widths(columns, texts, whole_numbers=True)
    size = _largest_size(space, sum(least_widths))
    if sum(least_widths) > space[size]:  # the interval of a number may then stand in the next line
        least_widths = _least_widths(columns, texts, whole_numbers=False)
    wanted_widths = []
    for least, cells in zip(least_widths, texts, strict=True):
        longest = max((_letters(text[:WIDEST]) for text in cells), default=least)
        wanted_widths.append(max(least, longest))
    # the space that is left is divided in proportion to what each column lacks
    left = max(space[size] - sum(least_widths), 0)
    missing = max(sum(wanted_widths) - sum(least_widths), 1)
    share = min(1, left / missing)
    widths = [least + share * (wanted - least) for least, wanted in zip(least_widths, wanted_widths, strict=True)]
    return size, widths


def _largest_size(space: Mapping[str, float], letters: float) -> str:
    """The largest font with which a number of letters fits into a line, or else the smallest font."""
    for size, most in space.items():
        if letters <= most:
            return size
    return "tiny"


def _least_widths(columns: Sequence[TextColumn], texts: Sequence[Sequence[str]], whole_numbers: bool) -> list[float]:
    """The least width of each column in letters. If `whole_numbers`, numbers stay in one line with their intervals."""
    widths = []
    for column, cells in zip(columns, texts, strict=True):
        is_whole = whole_numbers and column.value is not None
        widths.append(_least(column.title, cells, whole=is_whole))
    return widths


def _column_spec(column: TextColumn, width: float) -> str:
    """The column specification of LaTeX: a paragraph of a width, with numbers at the right."""
    side = "left" if column.value else "right"  # where the line is ragged
    return rf">{{\ragged{side}\arraybackslash}}p{{{LETTER * width:.2f}em}}"


def _left_out(table: TableView) -> str:
    """A comment on the columns that only the page has; empty without any."""
    titles = [escape(column.title) for column in table.columns if not column.narrow]
    if not titles:
        return ""
    return f"% Only in the page: {', '.join(titles)}.\n"


def _line(row: Sequence[Cell]) -> str:
    """A row as LaTeX source."""
    cells = " & ".join(map(_source, row))
    return f"{cells} \\\\\n"


def _least(title: str, texts: Sequence[str], whole: bool) -> float:
    """The least width of a column in letters: that of its longest word, or of its longest cell if `whole`."""
    parts = title.split()
    for text in texts:
        if whole:
            parts.append(text)
        else:
            parts += [piece.rstrip() for piece in _pieces(text)]
    return max(map(_letters, parts))


def _in_italics(text: str) -> str:
    """Text as LaTeX source, in which the statistics g and p are set as variables."""
    return re.sub(r"(?<![\w\\])([gp])(?!\w)", r"$\1$", escape(text))


def _letters(text: str) -> float:
    """An upper bound of the width of a text in usual letters."""
    wide = sum(character in WIDE or character.isupper() for character in text)
    longer = CODE_POINT * sum(map(_is_code_point, text))
    return 0.7 + len(text) + 0.5 * wide + longer


def _pieces(text: str) -> list[str]:
    """The parts of a text between which a line may end. A long word is divided, and one with code points at each."""
    pieces = []
    for part in BREAK.split(text):
        word = part.rstrip(" ")
        longest = 1 if any(map(_is_code_point, word)) else LONGEST
        divided = [word[start : start + longest] for start in range(0, len(word), longest)] or [""]
        divided[-1] += part[len(word) :]
        pieces += divided
    return pieces or [""]


def _source(cell: Cell) -> str:
    """A cell as LaTeX source."""
    pieces = map(escape, _pieces(str(cell.text)))
    source = r"\allowbreak{}".join(pieces).replace(r" \allowbreak{}", " ")
    if isinstance(cell.text, Emphasized):
        return cell.text.latex(source)
    return source
