"""`--json` prints the keys that docs/agents.md has, with the exit code of the command."""

import json
import re
from pathlib import Path

import pytest
from documented import every_command

from fairbench.cli.main import main
from fairbench.cli.parser import parser

pytestmark = pytest.mark.xdist_group("studies")  # one worker has the study that some of them share

PAGE = Path(__file__).parents[3] / "docs/agents.md"


def documented_keys():
    """The keys of each command; those of rows are in brackets, or behind a colon."""
    keys_of = {}
    for command, text in re.findall(r"^\| `((?!fairbench )[\w ]+)` \| (.*) \|$", PAGE.read_text(), flags=re.MULTILINE):
        without_rows = re.sub(r"\(.*?\)", "", text)
        keys_of[command] = re.findall(r"`(\w+)`", without_rows)
    return keys_of


KEYS = documented_keys()
WORDS = {  # gate/test_commands.py has the commands of a session
    "list": [],
    "plan": ["tiny.toml", "-o", "out", "--workers", "1"],
    "noise": ["--program", "python -S noisy.py {{seed}}", "--metric", "val/loss:min", "--steps", "3", "-o", "noise"],
    "status": ["out"],
    "audit": ["out"],
    "verdicts": ["paper"],
    "check": ["own_optimizers:Raises"],  # its first training ends the checks
    "explain": ["{trial}", "-o", "out"],
    "data list": [],
}


def test_the_page_has_every_command():
    having = []
    for command in every_command(parser()):
        if "--json" in command.format_help():
            having.append(command.prog)
    assert sorted(having) == sorted(f"fairbench {command}" for command in KEYS)
    assert {command for command in KEYS if not command.startswith("gate ")} == WORDS.keys()


@pytest.mark.parametrize("command", WORDS)
def test_a_command_prints_the_keys_of_the_page(command, finished, monkeypatch, capsys):
    monkeypatch.chdir(finished.folder)
    Path("noisy.py").write_text("import sys\nprint('val/loss:', int(sys.argv[1]) % 3)\n")
    trial = next((finished.output / "trials").glob("*.json")).stem
    words = [word.format(trial=trial) for word in WORDS[command]]
    code = main([*command.split(), *words, "--json"])
    printed = json.loads(capsys.readouterr().out)
    documented = KEYS[command]
    if command == "list":
        documented = documented[:-1]
    assert printed.keys() == {"schema", "command", *documented}
    assert printed["schema"] == 1
    assert printed["command"] == command
    succeeded = printed.get("ok", True)
    assert code == (0 if succeeded else 1)
    for value in printed.values():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            for row in value:
                assert row.keys() == value[0].keys()
