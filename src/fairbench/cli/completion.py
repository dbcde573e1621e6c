"""What a shell completes: names and files as the values of options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import argcomplete
from argcomplete.completers import FilesCompleter

from fairbench.arenas.registry import ARENAS
from fairbench.data.dataset_config import PREPARED
from fairbench.optimizers.registry import known_optimizers
from fairbench.suites.loader import suite_names

Completer = Callable[..., Iterable[str]]


def complete(top: argparse.ArgumentParser) -> None:
    """Answer the shell that asks for the completion of a command, and exit."""
    for action in _actions(top):
        if completer := COMPLETERS.get(action.dest):
            action.completer = completer  # type: ignore[attr-defined]  # argcomplete reads it
    argcomplete.autocomplete(top)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)


def _one(known: Callable[[], Iterable[str]], ending: str) -> Completer:
    """Completes a name, or a file with an ending."""
    return lambda prefix, **_: [*known(), *FilesCompleter((ending,))(prefix)]


def _several(known: Callable[[], Iterable[str]]) -> Completer:
    """Completes the last one of several names, separated by commas."""

    def completer(prefix: str, **_: Any) -> list[str]:
        before, comma, _last = prefix.rpartition(",")
        return [f"{before}{comma}{name}" for name in known() if name not in before.split(",")]

    return completer


COMPLETERS: dict[str, Completer] = {
    **dict.fromkeys(("suite", "chosen"), _one(suite_names, "toml")),
    **dict.fromkeys(("optimizer", "add_optimizer"), _one(known_optimizers, "py")),
    **dict.fromkeys(("optimizers", "against"), _several(known_optimizers)),
    "reference": lambda **_: known_optimizers(),
    "arenas": _several(lambda: ARENAS),
    "arena": _one(lambda: ARENAS, "py"),
    "dataset": lambda **_: PREPARED,
}
"""By the name of the argument, in every command."""
