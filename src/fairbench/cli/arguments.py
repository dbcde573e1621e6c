"""The parser of the `fairbench` command: its errors, its help, and the types of its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NoReturn

from fairbench.common.errors import UsageError, nearest
from fairbench.common.installation import version
from fairbench.common.terminal import say


class Parser(argparse.ArgumentParser):
    """A parser whose errors look like all others of the command, and suggest the nearest option."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def error(self, message: str) -> NoReturn:
        see = " See" if message.endswith("?") else "; see"
        raise UsageError(f"{message.removeprefix('argument ')}{see} {self.prog} --help")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The namespace; what is left over is an error of this parser, not of the one that called it.

        Raises:
            UsageError: an argument is unknown or wrong.
        """
        namespace, others = super().parse_known_args(args, namespace)
        if others:
            unknown = next((word for word in others if word.startswith("-")), others[0])
            kind = "option" if unknown.startswith("-") else "argument"
            known = [option for action in self._actions for option in action.option_strings]
            self.error(f"unknown {kind} {unknown!r}{nearest(unknown.partition('=')[0], known)}")
        return namespace, others


class Version(argparse.Action):
    """Prints the version and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        say(f"fairbench {version()}")
        parser.exit()


def refuse_empty(words: Sequence[str]) -> None:
    """Raise UsageError for an empty argument, as an unset variable of a shell gives one."""
    for before, word in pairwise(["", *words]):
        option, equals, value = word.partition("=")
        if word.strip() and not (option.startswith("--") and equals and not value.strip()):
            continue
        name = option if equals else before if before.startswith("-") else "an argument"
        raise UsageError(f"{name} is empty, as with an unset variable; give a value, or leave it out")


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None


def seconds(text: str) -> float:
    """A number of seconds, whose range is checked elsewhere."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, got {text!r}") from None


def names(option: str, text: str | None) -> list[str] | None:
    """The names of an option that takes several, separated by commas; None without the option.

    Raises:
        UsageError: there is no name in the text.
    """
    if text is None:
        return None
    if not (found := [part.strip() for part in text.split(",") if part.strip()]):
        raise UsageError(f"{option} names nothing; leave it out, or give one or more, separated by commas")
    return found
