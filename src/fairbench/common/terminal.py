"""The one place where text for a terminal is made safe: it would obey the control characters in a name."""

import os
import shutil
import sys

BIDIRECTIONAL = (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that change the order in which others are shown."""
LINE_SECONDS = 15.0
"""Seconds between two lines of progress where there is no terminal."""
UNLIMITED = 1_000_000
"""Columns of a pipe or a file, in which nothing is wrapped or left out."""
KEPT = "\t\n"
SHOWN_AS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in KEPT}
SHOWN_AS |= {0x7F: 0x2421, **dict.fromkeys((*range(0x80, 0xA0), *BIDIRECTIONAL), 0xFFFD)}
"""Unicode's picture of each control character, one column wide, or the replacement character where it has none."""


def visible(text: str) -> str:
    """Text with visible characters in place of those that control a terminal; tabs and ends of lines stay."""
    return text.translate(SHOWN_AS)


def say(text: str = "", is_error: bool = False) -> None:
    """Print a line, on standard error if it is an error."""
    stream = sys.stderr if is_error else sys.stdout
    print(visible(text), file=stream, flush=True)


def width() -> int:
    """The columns of standard output: those of the terminal, or of the variable COLUMNS; unlimited without either."""
    is_limited = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    if not is_limited:
        return UNLIMITED
    return shutil.get_terminal_size().columns
