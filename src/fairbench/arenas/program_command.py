"""The command of a training program: its words with those of a variant, and the values in place of placeholders."""

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError, nearest

VARIABLE = re.compile(r"[A-Za-z_]\w*=")
"""The beginning of a word that sets an environment variable."""
PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
"""A placeholder in a word of the command, such as `{lr}`, which a value of the trial replaces."""
LAUNCHERS = ("python", "pypy", "torchrun")
"""The beginnings of the names of commands whose first word that is no option is the script that they start."""
OTHER_PROGRAM = ("-m", "-c", "--module")
"""Options after which no script is started."""
SCRIPTS = (".py", ".sh")
"""The ends of the names of scripts."""
VARIANT = "{variant}"
"""The placeholder for the words of a variant. Without it they stand at the end of the command."""


@dataclass(frozen=True)
class ProgramCommand:
    """The command of a program with what a variant adds to it, before any placeholder is replaced.

    Attributes:
        program: the command.
        args: the words of the variant. Where `{variant}` is a part of a word, they are put there as they are.
        env: the environment variables of the variant; a value may have placeholders.
    """

    program: str
    args: str = ""
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        """The words. Variables before the command, as in `LEVEL=1 python train.py`, are set as a shell sets them.

        Raises:
            ValueError: the command cannot be split into words.
        """
        given = shlex.split(self.program)
        own = shlex.split(self.args)
        if given and VARIABLE.match(given[0]):
            given.insert(0, "env")
        if VARIANT not in self.program:
            return [*given, *own]
        words = []
        for word in given:
            if word == VARIANT:
                words += own
            else:
                words.append(word.replace(VARIANT, self.args))
        return words

    @property
    def placeholders(self) -> set[str]:
        """The names of all placeholders in the words and in the values of the variables."""
        texts = [self.program, self.args, *self.env.values()]
        return {name for text in texts for name in PLACEHOLDER.findall(text)}

    @property
    def script(self) -> str:
        """The script of Python that is started; empty if there is none, or if that is not known.

        A word after an option may be the option's value. Where the command goes to another folder, or into a container
        or a shell, the file may be there.
        """
        left = self.words
        if left[:1] == ["env"]:
            left.pop(0)
        while left and VARIABLE.match(left[0]):
            left.pop(0)
        if not left or not Path(left[0]).name.startswith(LAUNCHERS):
            return ""
        for word in left[1:]:
            if word in OTHER_PROGRAM:
                return ""
            if word.startswith("-"):
                continue
            if word.endswith(".py") and "{" not in word:
                return word
            return ""
        return ""

    def filled(
        self, values: Mapping[str, Any], texts: Mapping[str, Any], remedy: str
    ) -> tuple[list[str], dict[str, str]]:
        """The words and the environment variables with values in place of the placeholders.

        Args:
            values: the values of a trial by name; None for a value that the trial does not set.
            texts: options whose texts may be several words, see `with_texts`.
            remedy: what sets further values, for errors.

        Raises:
            UsageError: there is a placeholder that the trial does not set, or a text cannot be split into words.
        """
        variables = dict(zip(self.env, with_values(self.env.values(), values, remedy), strict=True))
        words = with_values(with_texts(self.words, texts), values, remedy)
        return words, variables


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


def with_values(words: Iterable[str], values: Mapping[str, Any], remedy: str) -> list[str]:
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


def is_another_program(command: str, other: str) -> bool:
    """Whether two commands name different scripts or modules. Where one names none, this is not known: False."""
    name = _script_or_module(ProgramCommand(command).words)
    other_name = _script_or_module(ProgramCommand(other).words)
    return bool(name and other_name) and name != other_name


def _script_or_module(words: Sequence[str]) -> str:
    """The script or the module of Python that is named anywhere in a command; empty if none is."""
    for position, word in enumerate(words[:-1]):
        if word == "-m":
            return words[position + 1]
    for word in words:
        if word.endswith(SCRIPTS) and "{" not in word and not word.startswith("-"):
            return os.path.normpath(word)
    return ""
