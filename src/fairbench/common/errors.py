"""Errors that the user can fix: shown as one message, exit code 2."""

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

ValueT = TypeVar("ValueT")


class Preempted(BaseException):
    """A signal stops the driver, as a cluster sends one before it reclaims a machine: exit code 75."""


class Paused(BaseException):
    """A trial was paused, to be resumed later; the message says why its state could not be saved, or is empty."""


class OutOfMemory(Exception):
    """A trial needs more memory than the GPU has; the message says how much, and what to do."""


class FairbenchError(Exception):
    """Any error of fairbench that is not one of its code.

    >>> issubclass(fb.UsageError, fb.FairbenchError)
    True
    """


class UsageError(FairbenchError):
    """Something outside the code is wrong; the message names it, its value, and what to do.

    >>> try:
    ...     fb.Suite.load("minni")
    ... except fb.UsageError as error:
    ...     print(str(error).partition(" (")[0])
    unknown suite 'minni'; did you mean 'mini'?
    """


class CallFailed(UsageError):
    """A call in another process did not return, for a cause in a few words; the message has details, too."""

    def __init__(self, call: str, cause: str, details: str) -> None:
        super().__init__(f"{call}: {cause}\n{details}".rstrip())
        self.cause = cause


def one_line(error: BaseException) -> str:
    """Kind and message of an error of a library, which may have many lines, in at most 300 characters."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def pick(kind: str, name: str, known: Mapping[str, ValueT]) -> ValueT:
    """The entry with a name. Raises `UsageError` if the name is unknown."""
    if name not in known:
        raise unknown(kind, name, known)
    return known[name]


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for an unknown name: it suggests the nearest known name, and lists all of them."""
    names = sorted(known)
    return UsageError(f"unknown {kind} {name!r}{nearest(name, names)} (known: {', '.join(names) or 'none'})")


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message on an unknown name: the nearest known one, if one is near."""
    folded = {candidate.casefold(): candidate for candidate in known}
    found = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    return f"; did you mean {folded[found[0]]!r}?" if found else ""
