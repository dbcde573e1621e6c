"""Every command on the pages does what it says; those that train are followed to where the training begins."""

import argparse
import re
import shlex
import shutil
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tiny import Finished

from fairbench.cli.arguments import refuse_empty
from fairbench.cli.main import main
from fairbench.cli.parser import command_names, parser
from fairbench.cli.running import chosen_run_options, output_directory
from fairbench.cli.suite_options import chosen_suite, preview_suite
from fairbench.suites.loader import suite_text

pytestmark = pytest.mark.xdist_group("studies")  # one worker has the study that some of them share

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "Makefile", *sorted((ROOT / "docs").rglob("*.md"))]
IN_LINE = re.compile(r"`(?:\.venv/bin/|python -m )?fairbench ([^`]*)`", re.DOTALL)
ALONE = re.compile(
    r"^(?:\s+)?(?:until |\$ )?(?:\.venv/bin/|\$\(VENV\)/bin/|python -m )?fairbench ((?:.*\\\n)*.*)$", re.MULTILINE
)
STUDIES = ("mini", "full", "again")
"""The studies in results/ that the pages read."""
NAMES = {"DIR": "results/mini", "A": "results/mini", "B": "results/again", "FILE.csv": "my_table.csv"}
"""What stands for a name that the user chooses."""
BLOCKS = {
    "my_table.csv": ("verdicts.md", "arena,optimizer,seed,value,better"),
    "perceptron.py": ("bring-your-own-arena.md", "class Perceptron"),
    "sines.toml": ("bring-your-own-arena.md", "[arenas.sine-wide]"),
    "my_suite.toml": ("bring-your-own-optimizer.md", "[optimizers.MyRule-slow]"),
}
"""The files that the pages show: the page, and a text of the block."""


def run_options(options: argparse.Namespace) -> None:
    """Everything that `run`, `plan` and `slurm` do before they read data and begin to train."""
    options.device = options.device or "cuda"  # implied by slurm's --gres
    directory = output_directory(options, chosen_suite(options))
    chosen_run_options(argparse.Namespace(**{**vars(parser().parse_args(["run"])), **vars(options)}), directory)


FOLLOWED: dict[str, tuple[Callable[[argparse.Namespace], Any], str]] = {
    "run": (run_options, "trains for minutes to days, and some need a GPU or a cluster"),
    "plan": (run_options, "a rehearsal of `mini` takes 20 seconds"),
    "slurm": (run_options, "wants the paper's data; test_slurm.py runs it"),
    "try": (preview_suite, "trains; test_user_optimizer.py runs it as it stands"),
    "check": (lambda options: options, "trains; test_user_optimizer.py runs it as it stands"),
    "data download": (lambda options: options, "needs the network"),
    "data prepare": (lambda options: options, "without a suite it needs the archives of all datasets"),
}
"""Commands that are not run, as a page has them: how far they are followed, and why no further."""


def commands(page: Path) -> list[str]:
    text = page.read_text()
    blocks = "\n".join(re.findall(r"^(?:    |\t)[^\n]*$|^```sh\n.*?^```", text, re.MULTILINE | re.DOTALL))
    return [*IN_LINE.findall(text), *ALONE.findall(blocks)]


def words_of(line: str) -> tuple[tuple[str, ...], str]:
    """The arguments of a line, and the file that gets its output."""
    line, _, target = line.replace("\\\n", " ").partition("> ")
    words = shlex.split(re.split("[|;]", line)[0], comments=True)
    return (*words,), target.split(";")[0].split()[0] if target else ""


def only_named(words: Sequence[str]) -> bool:
    """Whether a text speaks of a command, as in "`fairbench run` resumes"."""
    needs_nothing = ("list", "env")
    return words[0] == "COMMAND" or words[-1] == "--help" or (len(words) == 1 and words[0] not in needs_nothing)


def followed(words: Sequence[str]) -> Callable[[argparse.Namespace], Any] | None:
    """What a command does that is not run; None for one that is run."""
    two = " ".join(words[:2])
    if two == "data prepare" and len(words) > 2:
        return None
    found = FOLLOWED.get(two) or FOLLOWED.get(words[0])
    return found and found[0]


@pytest.fixture(scope="module")
def users_folder(tmp_path_factory: pytest.TempPathFactory, finished: Finished) -> Iterator[Path]:
    """A folder with the studies and files that the pages speak of, as working directory."""
    folder = tmp_path_factory.mktemp("user")
    for name in STUDIES:
        shutil.copytree(finished.output, folder / "results" / name)
    (folder / "shared").symlink_to("results")
    for name, (page, text) in BLOCKS.items():
        blocks = re.findall(r"^```\w+\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL)
        (folder / name).write_text(next(block for block in blocks if text in block))
    mini = suite_text("mini")
    (folder / "my_suite.toml").write_text(mini + (folder / "my_suite.toml").read_text())
    text = re.search(r'`(data = \{ source = "text".*?\})`', (ROOT / "docs/paper-study.md").read_text())
    assert text is not None
    (folder / "book.txt").write_text("\n".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.py"))))
    for name in ("my.toml", "mine.toml"):
        (folder / name).write_text(re.sub('data = { source = "stdlib".*', text[1], mini))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        patch.setattr("fairbench.report.draw_figures", lambda *_: [])  # it takes most of a report's time
        patch.setattr("fairbench.report.paper_figures", lambda *_: {})
        patch.setattr(webbrowser, "open", lambda address: Path(address.removeprefix("file://")).is_file())
        assert main(["data", "prepare", "--suite", "mine.toml"]) == 0
        yield folder


def test_every_command_on_a_page_works(
    users_folder: Path, finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the order of the pages: later ones use what earlier ones have made."""
    ids = [path.stem for path in (finished.output / "trials").glob("*.json")]
    stand_ins = {**NAMES, "ID": f"results/mini/trials/{ids[0]}.json", "[ID]": f"results/mini/trials/{ids[1]}.json"}
    for words, target in dict.fromkeys(words_of(line) for page in PAGES for line in commands(page)):
        refuse_empty(words)
        if only_named(words):
            assert words[0] in ("COMMAND", *command_names(parser())), words
            continue
        given = [stand_ins.get(word, word).replace("/shared/", "shared/") for word in words]
        given = given if given[0] in command_names(parser()) else ["run", *given]
        if follow := followed(given):
            follow(parser().parse_args(given))
            continue
        assert main(given) == 0, f"{given}: {capsys.readouterr().err}"
        shown = capsys.readouterr().out
        if target and not target.startswith("/"):
            (users_folder / target).write_text(shown)
    assert main(["explain", ids[0]]) == 2
    assert "again/trials" in (said := capsys.readouterr().err)
    assert said.endswith("give one of these files\n")


def test_the_pages_have_many_commands() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 80
