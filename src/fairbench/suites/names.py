"""Names of arenas and optimizers, which tables, figures and other programs must be able to hold unchanged."""

import re

from fairbench.common.coercion import KeyPath, Wrong

ALL_ARENAS = "all arenas"
"""The place of an arena's name in rows over all of them."""
MISSING = {"na", "n/a", "#na", "#n/a", "#n/a n/a", "<na>", "nan", "-nan", "null", "none"}
MISSING |= {f"{sign}1.#{word}" for sign in ("", "-") for word in ("ind", "qnan")}
"""What pandas or R read as a missing value, in lower case."""


def check_name(path: KeyPath, name: str) -> None:
    """Raise `Wrong` unless the name of an arena, an optimizer or a metric stays what it is in every file."""
    if not name.isprintable() or " ".join(name.split()) != name or not name:
        raise Wrong(path, f"must be printable and not blank, without spaces at its ends or in a row, got {name!r}")
    if name[0] in "=@":
        raise Wrong(path, f"must not begin with '=' or '@', which spreadsheets compute; rename {name!r}")
    if name.lower() in MISSING:
        raise Wrong(path, f"must not be a word that programs read as a missing value; rename {name!r}")


def check_arena_name(path: KeyPath, name: str) -> None:
    """Raise `Wrong` unless the name of an arena can be written in a command."""
    if not re.fullmatch(r"[\w.\- ]+", name):
        raise Wrong(path, f"must be made of letters, digits, spaces, '_', '-' and '.', got {name!r}")
    if name == ALL_ARENAS:
        raise Wrong(path, f"must not be {ALL_ARENAS!r}, which stands for all of them in tables; rename it")
    check_name(path, name)
