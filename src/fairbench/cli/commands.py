"""How a command is added to the command line: its help, its example, its exit codes, and the function that runs it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from fairbench.cli.arguments import Parser

Commands = argparse._SubParsersAction
DONE = "0 done; 2 the user must change something"
"""All exit codes of a command that names none itself."""


def _imported_when_called(reference: str) -> Callable[[argparse.Namespace], Any]:
    """A function that imports the `module:function` of `fairbench.cli` when it is called, and calls that one."""
    module, _, name = reference.partition(":")

    def run(options: argparse.Namespace) -> Any:
        function = getattr(import_module(f"fairbench.cli.{module}"), name)
        return function(options)

    return run


def add_command(
    commands: Commands[Parser],
    name: str,
    text: str,
    function: str,
    *,
    example: str = "",
    codes: str = DONE,
    json: bool = False,
) -> Parser:
    """Add a command.

    Args:
        commands: the commands to which the new one is added.
        name: the name of the command.
        text: what the command does.
        function: `module:function` of `fairbench.cli`, which returns what the command shows, see `main`.
        example: the arguments of the example in its help.
        codes: the meaning of its exit codes.
        json: whether it takes --json. The value that it returns then has the method `to_json`.
    """
    call = f"{commands._prog_prefix} {name} {example}".rstrip()
    description = f"{text}\n\nExample:\n  {call}"
    command: Parser = commands.add_parser(name, help=text, description=description, epilog=f"Exit codes: {codes}.")
    command.set_defaults(do=_imported_when_called(function))
    if json:
        command.add_argument("--json", action="store_true", help="print JSON for programs (docs/agents.md)")
    return command


def add_with_study(
    commands: Commands[Parser],
    name: str,
    text: str,
    function: str,
    *,
    example: str = "results/mini",
    codes: str = DONE,
    json: bool = False,
) -> Parser:
    """Add a command whose first argument is the directory of a study. The arguments are those of `add_command`."""
    command = add_command(commands, name, text, function, example=example, codes=codes, json=json)
    command.add_argument("directory", type=Path, metavar="DIR", help="directory of a study, such as results/mini")
    return command
