"""Text for a terminal, which is made safe only here: a terminal would obey the control characters in a name."""

import os
import shutil
import sys

BIDIRECTIONAL = (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that change the order in which other characters are shown."""
LINE_SECONDS = 15.0
"""The seconds between two lines of progress if there is no terminal."""
UNLIMITED = 1_000_000
"""The width of a pipe or a file: nothing is wrapped or left out."""
KEPT = "\t\n"
SHOWN_AS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in KEPT}
SHOWN_AS |= {0x7F: 0x2421, **dict.fromkeys((*range(0x80, 0xA0), *BIDIRECTIONAL), 0xFFFD)}
"""The visible character for each control character: its picture in Unicode, or else the replacement character."""


def visible(text: str) -> str:
    """Replace the characters that control a terminal by visible characters. Tabs and line ends stay."""
    return text.translate(SHOWN_AS)


def say(text: str = "", is_error: bool = False) -> None:
    """Print a line, on standard error if it is an error."""
    stream = sys.stderr if is_error else sys.stdout
    print(visible(text), file=stream, flush=True)


def width() -> int:
    """The width of standard output, by the terminal or the variable COLUMNS; unlimited without either."""
    is_limited = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    if not is_limited:
        return UNLIMITED
    return shutil.get_terminal_size().columns
