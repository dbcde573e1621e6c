"""The parser of the command line, and the texts of its arguments as values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NoReturn

from fairbench.common.errors import UsageError, nearest
from fairbench.common.installation import version
from fairbench.common.terminal import say

DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+")


class Parser(argparse.ArgumentParser):
    """A parser whose errors look like all others of the command, and suggest the nearest option."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def error(self, message: str) -> NoReturn:
        """Raise a `UsageError` with the message, and with the command that shows the help."""
        ends_with_suggestion = message.endswith("?")
        see = " See" if ends_with_suggestion else "; see"
        raise UsageError(f"{message.removeprefix('argument ')}{see} {self.prog} --help")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments. An unknown argument is an error of this parser, so that its own options are suggested."""
        namespace, others = super().parse_known_args(args, namespace)
        if others:
            self._refuse(others)
        return namespace, others

    def _refuse(self, words: Sequence[str]) -> NoReturn:
        """Raise a `UsageError` for the first unknown option; without one, for the first unknown argument."""
        options = [word for word in words if word.startswith("-")]
        if options:
            kind = "option"
            word = options[0]
        else:
            kind = "argument"
            word = words[0]
        known = [option for action in self._actions for option in action.option_strings]
        name, _, _ = word.partition("=")
        self.error(f"unknown {kind} {word!r}{nearest(name, known)}")


class Version(argparse.Action):
    """Prints the version and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        say(f"fairbench {version()}")
        parser.exit()


def refuse_empty(words: Sequence[str]) -> None:
    """Raise UsageError for an empty argument: an unset variable of a shell leaves one."""
    for before, word in pairwise(["", *words]):
        option, equals, value = word.partition("=")
        if option.startswith("--") and equals and not value.strip():
            name = option
        elif word.strip():
            continue  # it is not empty
        elif before.startswith("-"):
            name = before
        else:
            name = "an argument"
        raise UsageError(f"{name} is empty, as with an unset variable; give a value, or leave it out")


def _number(kind: type, noun: str) -> Callable[[str], Any]:
    """The function that reads a number from an argument. The range of the number is checked elsewhere."""

    def read(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            point = ""
            if kind is float and DECIMAL_COMMA.fullmatch(text):
                point = f"; write {text.replace(',', '.')} with a decimal point"
            if kind is float and text.endswith("%"):
                point = "; write a share as 0.01, and what the metric counts in percent without the sign"
            raise argparse.ArgumentTypeError(f"must be a {noun}, got {text!r}{point}") from None

    return read


whole = _number(int, "whole number")
seconds = _number(float, "number of seconds")
number = _number(float, "number")


def names(option: str, text: str | None) -> list[str] | None:
    """The names in the value of an option, separated by commas; None if the option is not given."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    given = [part for part in parts if part]
    if not given:
        raise UsageError(f"{option} names nothing; leave it out, or give one or more, separated by commas")
    return given


def settings(texts: Iterable[str]) -> dict[str, Any]:
    """The values of all --set options by their dotted keys."""
    from fairbench.suites.settings import parse_setting  # slow to import

    return dict(parse_setting(text) for text in texts)


def seeds(text: str | None) -> int | list[int] | None:
    """The number of seeds, or the seeds themselves; None without the option.

    A text with a comma lists seeds, also a single one as "7,". A text without a comma is a number of seeds.
    """
    words = names("--seeds", text)
    if text is None or words is None:
        return None
    try:
        given = [int(word) for word in words]
    except ValueError:
        raise UsageError(f"--seeds must be a number of seeds, or seeds as 1,2,3; got {text!r}") from None
    if "," in text:
        return given
    (count,) = given
    if count < 1:
        raise UsageError(f"--seeds must be at least 1, got {text}")
    return count


def gpu_numbers(text: str | None) -> list[int]:
    """The numbers of GPUs, each once; the first one without the option."""
    words = names("--gpus", text)
    if words is None:
        return [0]
    for word in words:
        if not word.isdecimal():
            raise UsageError(f"--gpus takes numbers of GPUs, such as 0,1, or all; got {word!r}")
    return [int(word) for word in dict.fromkeys(words)]


def columns(text: str) -> dict[str, str]:
    """The name of each column of a table by its role, from a text such as a=b,c="d, e".

    Raises `UsageError` for a text of another form.
    """
    pairs = re.findall(r'(\w+)=("[^"]*"|[^,"]+)', text)  # skips what has another form
    understood = ",".join(f"{role}={name}" for role, name in pairs)
    if understood != text:
        raise UsageError(f'--columns must be WHAT=NAME,..., such as optimizer=model,value="val/acc", got {text!r}')
    return {role: name.strip('"') for role, name in pairs}


def learning_rates(text: str) -> list[float]:
    """The learning rates in a text such as 3e-4,1e-3. Raises `UsageError` unless they are positive and distinct."""
    words = names("--lr", text) or []
    try:
        rates = [float(word) for word in words]
    except ValueError:
        raise UsageError(f"--lr must be learning rates, such as 3e-4,1e-3; got {text!r}") from None
    are_positive = all(0 < lr < float("inf") for lr in rates)
    if not are_positive or len(set(rates)) < len(rates):
        raise UsageError(f"--lr must be positive and finite, each once; got {text!r}")
    return rates
