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

COMMENT = re.compile("<!--.*?-->", re.DOTALL)
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
            _, *parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
            for part in parts:
                command, output = part.split("\n", 1)
                yield command, output
        elif self.kind == "inline":
            yield text.replace("\n", " "), ""
        elif self.kind == "sh":
            for line in text.splitlines():
                if line.strip():
                    yield line, ""


def examples(page):
    """The examples of a page in its order."""
    text = COMMENT.sub(line_ends, page.read_text())
    for found in EXAMPLE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        place = f"{page.name}:{line}"
        if found["language"]:
            yield Example(page, place, kind=found["language"], text=found["block"])
        elif found["shell"]:
            yield Example(page, place, kind="sh", text=textwrap.dedent(found["shell"]))
        else:
            yield Example(page, place, kind="inline", text=found["inline"])


def line_ends(comment):
    """The line ends of a comment, so that what comes after it stays in its line."""
    return "\n" * comment[0].count("\n")


def every_command(command):
    """The parsers of all commands, also of `suite show`."""
    for action in command._actions:
        if isinstance(action.choices, dict):
            for each in action.choices.values():
                yield each
                yield from every_command(each)


def listed(heading):
    """The pages under a heading of the index."""
    _, _, rest = (DOCS / "index.md").read_text().partition(f"\n## {heading}\n")
    section, _, _ = rest.partition("\n## ")
    return [DOCS / name for name in re.findall(r"^\* \[.*?\]\((.*?)\)", section, re.MULTILINE)]


def block(page, containing):
    """The text of the one block of a page that contains something."""
    found = []
    for example in examples(DOCS / page):
        if example.kind not in ("sh", "inline") and containing in example.text:
            found.append(example.text)
    (text,) = found
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
        command = COMMAND.fullmatch(line.strip())
        if command is None:
            if known:
                assert any(re.match(other, line) for other in self.not_run), f"what is this? {line}"
            return
        text, _, target = command[1].partition("> ")
        words = self.words(text)
        follow = self.how_to_follow(words)
        if only_named(words):
            assert words[0] in ("COMMAND", *command_names(parser())), words
        elif follow:
            follow(parser().parse_args(words))
        elif target or output or shlex.join(words) not in self.shown:
            shown = self.call(words)
            if output:
                assert [line.rstrip() for line in shown.splitlines()] == output.strip().splitlines()
            if target and not target.startswith("/"):
                file = target.split(";")[0].split()[0]
                Path(file).write_text(shown)

    def how_to_follow(self, words):
        """What is done with the options of a command that is not run; None if it is run."""
        for pattern, (follow, _) in self.followed.items():
            if re.match(pattern, shlex.join(words)):
                return follow
        return None

    def printed(self, beginning):
        """What the one command with this beginning has printed."""
        (text,) = [shown for command, shown in self.shown.items() if command.startswith(beginning)]
        return text

    def words(self, text):
        words = shlex.split(re.split("[|;]", text)[0], comments=True)
        refuse_empty(words)
        trials = sorted(Path("results/mini/trials").glob("*.json"))
        ids = [f"results/mini/trials/{path.name}" for path in trials]
        stand_ins = dict(zip(("ID", "[ID]"), ids, strict=False))
        words = [stand_ins.get(word, word).replace("/shared/", "shared/") for word in words]
        if words[0] not in ("COMMAND", *command_names(parser())):
            words.insert(0, "run")
        return words

    def call(self, words):
        command = shlex.join(words)
        before = set(Path().rglob("*"))
        output = io.StringIO()
        errors = io.StringIO()
        with redirect_stdout(output), redirect_stderr(errors):
            code = main(words)
        shown = output.getvalue()
        self.shown[command] = shown
        added = set(Path().rglob("*")) - before
        self.written[command] = {path for path in added if "__pycache__" not in path.parts}
        assert code == 0, f"{command} ends with {code}:\n{shown}\n{errors.getvalue()}"
        return shown


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
