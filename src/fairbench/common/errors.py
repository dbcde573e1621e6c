"""Errors that the user can fix. They are shown as one message, and end the command with exit code 2."""

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

ValueT = TypeVar("ValueT")
LIBRARIES = (str(Path(__file__).parents[1]), str(Path(os.__file__).parent), "<")
"""The beginnings of the names of files whose code is not a user's."""


class Preempted(BaseException):
    """A signal stops the driver, such as that of a cluster before it reclaims a machine. The exit code is 75."""


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


class ProgramError(UsageError):
    """A training program of the user failed, or is wrong, before its study has begun."""


class CallFailed(UsageError):
    """A call in another process did not return, for a cause in a few words; the message has details, too."""

    def __init__(self, call: str, cause: str, details: str) -> None:
        super().__init__(f"{call}: {cause}\n{details}".rstrip())
        self.call = call
        self.cause = cause
        self.details = details

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        """The class and its arguments, so that the error can be sent to another process."""
        return CallFailed, (self.call, self.cause, self.details)


def one_line(error: BaseException) -> str:
    """The type, the message and the place of an error in one line.

    The message is cut at 300 characters. The place is the last line of a user's code that the error passed.
    """
    text = type(error).__name__
    message = " ".join(str(error).split())
    if message:
        text += f": {message[:300]}"
    place = raised_at(error)
    if place:
        text += f" ({place})"
    return text


@contextmanager
def explained(message: Callable[[BaseException], str]) -> Iterator[None]:
    """Turn any exception of the block, and SystemExit, into a `UsageError` with a message made from the exception."""
    try:
        yield
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(message(error)) from error


def attempted(make: Callable[[], ValueT], instead: Callable[[str], ValueT]) -> ValueT:
    """The result of `make`. If it cannot compute with its numbers, the result of `instead` for the reason."""
    try:
        return make()
    except (ArithmeticError, ValueError) as error:
        return instead(one_line(error))


def raised_at(error: BaseException) -> str:
    """The last line of a user's code that an error passed, as file, number and text; empty if there is none."""
    from traceback import extract_tb  # slow to import

    for frame in reversed(extract_tb(error.__traceback__)):
        is_library = frame.filename.startswith(LIBRARIES) or "-packages" in frame.filename
        if not is_library:
            return f"{os.path.relpath(frame.filename)}, line {frame.lineno}: {frame.line}"
    return ""


def pick(kind: str, name: str, known: Mapping[str, ValueT]) -> ValueT:
    """The entry with a name. Raises `UsageError` if the name is unknown."""
    if name not in known:
        raise unknown(kind, name, known)
    return known[name]


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for an unknown name. It suggests the nearest known name, and lists all known names."""
    names = sorted(known)
    listed = ", ".join(names) or "none"
    return UsageError(f"unknown {kind} {name!r}{nearest(name, names)} (known: {listed})")


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message on an unknown name: a question with the nearest known name; empty if no name is near."""
    folded = {_folded(candidate): candidate for candidate in known}
    word = _folded(name)
    matches = _abbreviated(word, folded) or difflib.get_close_matches(word, folded, n=1, cutoff=0.5)
    if not matches:
        return ""
    return f"; did you mean {folded[matches[0]]!r}?"


def _folded(name: str) -> str:
    """A name without differences of case, and of hyphens and underscores."""
    return name.casefold().replace("-", "_")


def _abbreviated(word: str, known: Iterable[str]) -> list[str]:
    """The one known name that a word abbreviates or spells out, such as "weight_decay" for "wd"; otherwise empty."""
    matches = []
    for candidate in known:
        is_initials = candidate == _initials(word) or word == _initials(candidate)
        if is_initials or (len(word) > 1 and candidate.startswith(word)):
            matches.append(candidate)
    return matches if len(matches) == 1 else []


def _initials(name: str) -> str:
    """The first letters of the words of a name with several words; empty for one word."""
    words = [word for word in name.split("_") if word]
    if len(words) < 2:
        return ""
    return "".join(word[0] for word in words)
