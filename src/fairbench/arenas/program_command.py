"""The command of a training program: its words with those of a variant, and the values in place of placeholders."""

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from fairbench.common.errors import UsageError, nearest

VARIABLE = re.compile(r"[A-Za-z_]\w*=")
"""The beginning of a word that sets an environment variable."""
PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
"""A placeholder in a word of the command, such as `{lr}`, which a value of the trial replaces."""
SCRIPTS = (".py", ".sh")
"""The ends of the names of scripts."""
VARIANT = "{variant}"
"""The placeholder for the words of a variant. Without it they stand at the end of the command."""


def words_of(program: str, args: str = "") -> list[str]:
    """The words of a command with those of a variant, before any placeholder is replaced.

    Variables before the command, as in `LEVEL=1 python train.py`, are set as a shell sets them.

    Args:
        program: the command.
        args: the words of the variant. Where `{variant}` is a part of a word, they are put there as they are.
    """
    given = shlex.split(program)
    own = shlex.split(args)
    if given and VARIABLE.match(given[0]):
        given.insert(0, "env")
    if VARIANT not in program:
        return [*given, *own]
    words = []
    for word in given:
        if word == VARIANT:
            words += own
        else:
            words.append(word.replace(VARIANT, args))
    return words


def is_another_program(command: str, other: str) -> bool:
    """Whether two commands start different scripts or modules. Where one names none, this is not known: False."""
    script = _script(command)
    other_script = _script(other)
    return bool(script and other_script) and script != other_script


def _script(command: str) -> str:
    """The script or the module of Python that a command starts; empty if it names none."""
    words = words_of(command)
    for position, word in enumerate(words[:-1]):
        if word == "-m":
            return words[position + 1]
    for word in words:
        if word.endswith(SCRIPTS) and "{" not in word and not word.startswith("-"):
            return os.path.normpath(word)
    return ""


def with_texts(words: Iterable[str], options: Mapping[str, Any]) -> list[str]:
    """The words of a command, where a word `{name}` of an option with a text is replaced by the words of that text.

    The text may so be empty, or several flags. `{name}` within a longer word stays, and is replaced by the whole text.

    Raises:
        UsageError: the text cannot be split into words.
    """
    replaced: list[str] = []
    for word in words:
        placeholder = PLACEHOLDER.fullmatch(word)
        value = options.get(placeholder[1]) if placeholder else None
        if not isinstance(value, str):
            replaced.append(word)
            continue
        try:
            replaced += shlex.split(value)
        except ValueError as error:
            raise UsageError(f"the value of {word} must be words of a command: {error}; got {value!r}") from error
    return replaced


def command(words: Iterable[str], values: Mapping[str, Any], remedy: str) -> list[str]:
    """The words of a command, with values in place of the placeholders.

    Args:
        words: the words of the command.
        values: the values of a trial by name; None for a value that the trial does not set.
        remedy: what sets further values, for errors.

    Raises:
        UsageError: the command has a placeholder that the trial does not set.
    """

    def value_of(placeholder: re.Match[str]) -> str:
        name = placeholder[1]
        value = values.get(name)
        if value is None:
            known = [other for other, each in values.items() if each is not None]
            reason = f"the command has {placeholder[0]}, which this trial does not set"
            suggestion = nearest(name, known)
            if suggestion:
                raise UsageError(f"{reason}{suggestion}")
            raise UsageError(f"{reason} (known: {', '.join(known)}); correct it, or give it a value: {remedy}")
        return str(value)

    return [PLACEHOLDER.sub(value_of, word) for word in words]
