"""Every command on the pages is one that the parser takes."""

import re
import shlex
from pathlib import Path

import pytest

from fairbench.cli.arguments import refuse_empty
from fairbench.cli.parser import command_names, parser

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "Makefile", *sorted((ROOT / "docs").rglob("*.md"))]
IN_LINE = re.compile(r"`(?:\.venv/bin/|python -m )?fairbench ([^`]*)`", re.DOTALL)
ALONE = re.compile(
    r"^(?:\s+)?(?:until |\$ )?(?:\.venv/bin/|\$\(VENV\)/bin/|python -m )?fairbench ((?:.*\\\n)*.*)$", re.MULTILINE
)


def commands(page: Path) -> list[str]:
    text = page.read_text()
    blocks = "\n".join(re.findall(r"^(?:    |\t)[^\n]*$|^```sh\n.*?^```", text, re.MULTILINE | re.DOTALL))
    return [*IN_LINE.findall(text), *ALONE.findall(blocks)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_on_a_page_can_be_parsed(page: Path) -> None:
    for line in commands(page):
        words = shlex.split(re.split(r"[|>;]", line.replace("\\\n", " "))[0], comments=True)
        refuse_empty(words)
        if words[0] == "COMMAND" or len(words) == 1 or words[-1] == "--help":  # the name of a command alone
            assert words[0] in ("COMMAND", *command_names(parser())), line
            continue
        parser().parse_args(words if words[0] in command_names(parser()) else ["run", *words])


def test_the_pages_have_many_commands() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 80
