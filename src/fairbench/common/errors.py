"""Errors that the user can fix: shown as one message, exit code 2."""

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

ValueT = TypeVar("ValueT")


class Preempted(BaseException):
    """The driver was asked to stop by a signal, as a cluster does before it takes a machine away: exit code 75."""


class Paused(BaseException):
    """A trial was asked to stop and is to be continued; the message says what could not be saved, if anything."""


class OutOfMemory(Exception):
    """A trial needs more of a GPU than there is; the message says how much, and the way out."""


class UsageError(Exception):
    """Something outside the code is wrong; the message names it, its value and the way out."""


def pick(kind: str, name: str, known: Mapping[str, ValueT]) -> ValueT:
    """The entry of that name.

    Raises:
        UsageError: the name is unknown.
    """
    if name not in known:
        raise unknown(kind, name, known)
    return known[name]


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that does not exist: it offers the nearest right one, and all of them."""
    names = sorted(known)
    folded = {candidate.casefold(): candidate for candidate in names}
    nearest = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    hint = f"; did you mean {folded[nearest[0]]!r}?" if nearest else ""
    return UsageError(f"unknown {kind} {name!r}{hint} (known: {', '.join(names)})")
