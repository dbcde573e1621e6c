"""The option `--json`: it chooses the function of `json_output.py` that does a command for programs."""

import argparse

COMMANDS = {
    "list": "list_",
    "plan": "plan",
    "status": "status",
    "audit": "audit",
    "verdicts": "verdicts",
    "check": "check",
    "explain": "explain",
    "data list": "data_list",
}
"""The commands that have the option, and their functions."""


def add_json(command: argparse.ArgumentParser) -> None:
    """Add the option to a command that has it."""
    if function := COMMANDS.get(command.prog.removeprefix("fairbench ")):
        text = "print JSON for programs (docs/json.md)"
        command.add_argument("--json", dest="do", action="store_const", const=f"json_output:{function}", help=text)
