"""The examples on the pages of the documentation, and a user who runs them."""

import argparse
import doctest
import io
import linecache
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Collection, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from fairbench.cli.arguments import refuse_empty
from fairbench.cli.main import main
from fairbench.cli.parser import command_names, parser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLE = re.compile(
    r"^```(?P<language>\w+)\n(?P<block>.*?)^```$"
    r"|(?P<shell>(?:^(?: {4}|\t)[^\n]*\n)+)"
    r"|`(?:\.venv/bin/|python -m )?(?P<inline>fairbench [^`]*)`",
    re.MULTILINE | re.DOTALL,
)

COMMAND = re.compile(r"(?:until )?(?:\.venv/bin/|\$\(VENV\)/bin/|python -m )?fairbench (.*)")


@dataclass(frozen=True)
class Example:
    """A block, or a command within a sentence.

    Attributes:
        place: the page and the line.
        kind: the language of a block, "sh" for an indented one, "inline" for a command within a sentence.
        text: what it says.
    """

    page: Path
    place: str
    kind: str
    text: str

    def commands(self):
        """The commands of a shell block, each with the output that the page shows."""
        text = self.text.replace("\\\n", " ")
        if text.startswith("$ "):
            yield from (tuple(part.split("\n", 1)) for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:])
        elif self.kind == "inline":
            yield text.replace("\n", " "), ""
        elif self.kind == "sh":
            yield from ((line, "") for line in text.splitlines() if line.strip())


def examples(page):
    """The examples of a page in its order."""
    text = re.sub("<!--.*?-->", lambda comment: "\n" * comment[0].count("\n"), page.read_text(), flags=re.DOTALL)
    for found in EXAMPLE.finditer(text):
        place = f"{page.name}:{text.count(chr(10), 0, found.start()) + 1}"
        if found["language"]:
            yield Example(page, place, found["language"], found["block"])
        else:
            shell = found["shell"]
            given = textwrap.dedent(shell) if shell else found["inline"]
            yield Example(page, place, "sh" if shell else "inline", given)


def every_command(command):
    """The parsers of all commands, also of `suite show`."""
    for action in command._actions:
        for each in action.choices.values() if isinstance(action.choices, dict) else ():
            yield each
            yield from every_command(each)


def listed(heading):
    """The pages under a heading of the index."""
    part = (DOCS / "index.md").read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [DOCS / name for name in re.findall(r"^\* \[.*?\]\((.*?)\)", part, re.MULTILINE)]


def block(page, containing):
    """The text of the one block of a page that contains something."""
    (text,) = (x.text for x in examples(DOCS / page) if x.kind not in ("sh", "inline") and containing in x.text)
    return text


@dataclass
class User:
    """Who reads the pages from top to bottom and runs what they have.

    Attributes:
        followed: patterns of commands that are not run, and what is done with their options instead.
        not_run: patterns of lines in shell blocks that call another program.
        guides: pages with no other line in a shell block.
        shown: what each command has printed; one that several pages have runs once, unless they show what it prints.
        wrong: for each page what did not work.
        written: the files that a command has added.
    """

    followed: Mapping[str, tuple[Callable[[argparse.Namespace], Any], str]]
    not_run: Collection[str]
    guides: Collection[Path]
    shown: dict[str, str] = field(default_factory=dict)
    wrong: dict[Path, list[str]] = field(default_factory=dict)
    written: dict[str, set[Path]] = field(default_factory=dict)

    def read(self, page):
        module = ModuleType("__main__")
        vars(module).update(model=torch.nn.Linear(4, 2))  # the reader's
        self.wrong[page] = []
        for example in examples(page):
            try:
                if example.kind in ("python", "pycon"):
                    run_python(example, module)
                for line, output in example.commands():
                    self.run(line, output, known=example.kind == "sh" and page in self.guides)
            except (Exception, SystemExit) as error:
                self.wrong[page].append(f"{example.place}: {type(error).__name__}: {error}")

    def run(self, line, output, known):
        """Run a command as a shell does, or as far as it is followed, and compare what it prints with the page."""
        if not (command := COMMAND.fullmatch(line.strip())):
            assert not known or any(re.match(other, line) for other in self.not_run), f"what is this? {line}"
            return
        text, _, target = command[1].partition("> ")
        words = self.words(text)
        follow = [x for pattern, (x, _) in self.followed.items() if re.match(pattern, shlex.join(words))]
        if only_named(words):
            assert words[0] in ("COMMAND", *command_names(parser())), words
        elif follow:
            follow[0](parser().parse_args(words))
        elif target or output or shlex.join(words) not in self.shown:
            shown = self.call(words)
            if output:
                assert [x.rstrip() for x in shown.splitlines()] == output.strip().splitlines()
            if target and not target.startswith("/"):
                Path(target.split(";")[0].split()[0]).write_text(shown)

    def printed(self, beginning):
        """What the one command with this beginning has printed."""
        (text,) = (shown for command, shown in self.shown.items() if command.startswith(beginning))
        return text

    def words(self, text):
        words = shlex.split(re.split("[|;]", text)[0], comments=True)
        refuse_empty(words)
        ids = [f"results/mini/trials/{path.name}" for path in sorted(Path("results/mini/trials").glob("*.json"))]
        stand_ins = dict(zip(("ID", "[ID]"), ids, strict=False))
        words = [stand_ins.get(word, word).replace("/shared/", "shared/") for word in words]
        return words if words[0] in ("COMMAND", *command_names(parser())) else ["run", *words]

    def call(self, words):
        shown, said, before = io.StringIO(), io.StringIO(), {*Path().rglob("*")}
        with redirect_stdout(shown), redirect_stderr(said):
            code = main(words)
        self.shown[shlex.join(words)] = shown.getvalue()
        self.written[shlex.join(words)] = {x for x in {*Path().rglob("*")} - before if "__pycache__" not in x.parts}
        assert code == 0, f"{shlex.join(words)} ends with {code}:\n{shown.getvalue()}\n{said.getvalue()}"
        return shown.getvalue()


def only_named(words):
    """Whether a text speaks of a command, as in "`fairbench run` resumes"."""
    needs_nothing = ("list", "env")
    return words[0] == "COMMAND" or words[-1] == "--help" or (len(words) == 1 and words[0] not in needs_nothing)


def run_python(example, module):
    """As a cell of a notebook, in which the earlier blocks of the page have run."""
    names = vars(module)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()):
        patch.setitem(sys.modules, "__main__", module)
        if ">>>" in example.text:
            test = doctest.DocTestParser().get_doctest(example.text, names, example.place, None, None)
            failures = []
            doctest.DocTestRunner().run(test, out=failures.append, clear_globs=False)
            names.update(test.globs)
            assert not failures, "\n".join(failures)
        else:
            linecache.cache[example.place] = (0, None, example.text.splitlines(keepends=True), example.place)
            exec(compile(example.text, example.place, "exec"), names)
