"""The page on own arenas works when pasted: its files and commands run, with fewer steps."""

import re
import shlex
import sys
from importlib import resources
from pathlib import Path

import archives
import pytest

from fairbench.cli.main import main
from fairbench.suites.loader import load_suite

pytestmark = pytest.mark.xdist_group("libraries")  # one worker imports what studies need

PAGE = (Path(__file__).parents[3] / "docs/bring-your-own-arena.md").read_text()
COMMANDS = [shlex.split(line) for line in re.findall(r"^    fairbench (.*)$", PAGE, re.MULTILINE)]
FEWER = [
    (r'"sweep_steps": \d+', '"sweep_steps": 25'),
    (r'"steps": \d+', '"steps": 30'),
    (r"^steps = \d+", "steps = 12"),
    (r"^evaluations = 5", "evaluations = 1"),
    (r"^points = 5", "points = 2"),
    (r"^seeds = \[1, .*\]", "seeds = [1, 2]"),
]


def block(language: str, containing: str) -> str:
    (found,) = [x for x in re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S) if containing in x]
    return str(found)


def fewer(text: str) -> str:
    for pattern, replacement in FEWER:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def command(beginning: str) -> list[str]:
    (found,) = [words for words in COMMANDS if " ".join(words).startswith(beginning)]
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # loading a file adds its folder
    monkeypatch.setattr("fairbench.report.draw_figures", lambda *_: [])  # most of a report's time
    return tmp_path


def test_the_first_file_is_what_new_arena_writes_and_the_suite_runs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command("new-arena")) == 0
    file = Path("noisy_sine.py")
    assert file.read_text() == block("python", "class NoisySine")
    assert f"fairbench {shlex.join(command('run --arenas noisy_sine.py'))}\n" in capsys.readouterr().out
    assert main(command("new-arena")) == 2
    assert "noisy_sine.py exists and stays as it is" in capsys.readouterr().err
    file.write_text(fewer(file.read_text()).replace('"sweep_steps": 25', '"sweep_steps": 10'))
    Path("sines.toml").write_text(fewer(block("toml", "[arenas.sine-wide]")))
    widths = {name: plan.model["width"] for name, plan in load_suite("sines.toml").arenas.items()}
    assert widths == {"sine": 64, "sine-wide": 256, "sine-long": 64}
    words = command("run --suite sines.toml")
    assert main([*words, "--arenas", "sine,sine-long", "--workers", "0"]) == 0
    page = Path("results/sines/report.html").read_text()
    assert "MLP, noisy sine" in page
    assert "the arena’s own" in page


def test_an_own_model_in_a_task_that_is_there(folder: Path) -> None:
    Path("perceptron.py").write_text(fewer(block("python", "class Perceptron")))
    assert main(["plan", *command("run --arenas perceptron.py")[1:], "--workers", "0"]) == 0


def test_own_folders_of_images_and_of_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i, (pixels, label) in enumerate(archives.noise(400, 2, (8, 8), 0)):
        path = folder / "pictures" / ("cat", "dog")[label] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(archives.encoded(pixels, "PNG"))
    (folder / "texts").mkdir()
    for i in range(60):
        (folder / "texts" / f"{i}.txt").write_text(f"{i} " + PAGE)
    narrow = ["--optimizers", "AdamW", "--reference", "AdamW", "--workers", "0"]
    for words in ("run --arenas vit", "run --arenas gpt"):
        assert main(["plan", *command(words)[1:], *narrow]) == 0
    assert "images (path pictures, size 32): prepared in" in capsys.readouterr().out
    suite = (resources.files("fairbench") / "suites" / "mini.toml").read_text()
    for name, data in re.findall(r"\[arenas\.(\w+)\]\n(data = .*)", block("toml", "[arenas.vit]")):
        suite = re.sub(rf"(\[arenas\.{name}\]\n(?:.+\n)*?)data = .*", rf"\1{data}", suite)
    Path("my.toml").write_text(suite.replace("vocabulary = 1024", "vocabulary = 300"))
    assert main(command("data prepare --suite my.toml")) == 0
    shown = capsys.readouterr().out
    assert "images (path pictures, size 64): prepared in" in shown
    assert "text (path texts, vocabulary 300): prepared in" in shown
