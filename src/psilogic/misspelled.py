"""Names that are nearly those of options: torch ignores an unknown key of a parameter group without a word."""

import difflib
import re
import warnings
from collections.abc import Collection, Iterable

from psilogic.options import OPTIONS

NEAR = 0.8
"""Names of which this share is equal count as misspelled in a group, which may have any keys of its own."""
SOMEHOW_NEAR = 0.6
"""Names of which this share is equal are suggested where no other name is allowed."""
OF_LIBRARIES = re.compile(r"(\w+_)?(lr|eps|weight_decay)(\d+|_\w+)?|betas\d|(\w+_)?grad_norm|adaptive")
"""Keys that libraries set in addition to AdamW's options, such as weight_decay_mult, and SAM's adaptive."""


def refuse_unknown(optimizer: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise TypeError for a name that no argument of a constructor has, with the name of the nearest argument.

    Args:
        optimizer: the class that is constructed, for the message.
        names: the names of a call.
        known: the names that the constructor takes.
    """
    for name in names:
        if name in known:
            continue
        message = f"{optimizer} has no argument {name!r}"
        near = difflib.get_close_matches(name, known, n=1, cutoff=SOMEHOW_NEAR)
        if near:
            message += f"; did you mean {near[0]!r}?"
        raise TypeError(message)


def warn_of_misspelled(keys: Iterable[str], stacklevel: int) -> None:
    """Warn of each key of a parameter group that is nearly the name of an option; see `warnings.warn`."""
    for key in keys:
        if key in OPTIONS or OF_LIBRARIES.fullmatch(str(key)):
            continue
        near = difflib.get_close_matches(str(key), OPTIONS, n=1, cutoff=NEAR)
        if near:
            message = f"a parameter group has the key {key!r}, which does nothing; did you mean {near[0]!r}?"
            warnings.warn(message, stacklevel=stacklevel)
