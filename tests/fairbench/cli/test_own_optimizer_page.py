"""The page on one's own optimizer, block by block, in the order in which it is read."""

import hashlib
import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from fairbench.cli.main import main
from fairbench.optimizers.resolve import ENTRY_POINTS
from fairbench.suites.loader import load_suite
from fairbench.training.check import CHECKS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = [pytest.mark.xdist_group("libraries"), pytest.mark.slow]
PAGE = (Path(__file__).parents[3] / "docs/bring-your-own-optimizer.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


SUITE = ["--suite", "tiny.toml"]


def tiny(command: str) -> list[str]:
    """A command's words in the tiny suite; the second study is only planned."""
    words = shlex.split(command)[1:]
    if words[0] == "try":
        return [*words, *SUITE]
    if words[0] == "run":
        return ["plan" if "--set" in words else "run", *SUITE, *words[3:], "--workers", "0"]
    return words


def assert_identity(folder: Path, results: Path) -> None:
    """The plan and the records name the file, what is in it, and nothing of this machine."""
    config = (results / "config.json").read_text()
    (plan,) = json.loads(config)["plans"]
    assert plan["study"]["suite"]["optimizers"]["MyRule"]["factory"] == "my_rule.py:MyRule"
    content = hashlib.sha256((folder / "my_rule.py").read_bytes()).hexdigest()
    assert plan["study"]["optimizers"]["MyRule"]["code"]["my_rule_py"] == content[:16]
    specs = [json.loads(path.read_text())["spec"] for path in (results / "trials").glob("*.json")]
    assert {spec["optimizer"]["factory"] for spec in specs if spec["optimizer"]["name"] == "MyRule"} == {
        "my_rule.py:MyRule"
    }
    assert str(folder) not in json.dumps(specs) + config


def test_the_page_works_when_pasted(
    tiny_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tiny_file.parent)
    monkeypatch.setattr("fairbench.report.draw_figures", lambda *_: [])  # nobody looks at them here
    tiny_file.write_text(tiny_file.read_text() + "[optimizers.Lion]\n")
    shown = {}
    for command in "".join(blocks("sh")).splitlines():
        words = tiny(command)
        assert main(words) == 0, command
        shown[words[0]] = capsys.readouterr().out
    assert list(shown) == ["new-optimizer", "check", "try", "run", "plan"]
    assert shown["check"].endswith("0 fail, 0 warn, 3 note, 11 pass\n")
    assert "vit    PsiLogic" in shown["run"]
    assert "vit: 2 optimizers, each 7 sweep trials" in shown["plan"]
    assert_identity(tiny_file.parent, tiny_file.parent / "results/my_rule")
    assert (tiny_file.parent / "my_rule.py").read_text() == blocks("python")[0]

    arms, package = blocks("toml")
    tiny_file.write_text(tiny_file.read_text() + arms)
    assert {"MyRule", "MyRule-slow"} < load_suite("tiny.toml").optimizers.keys()
    assert main(["plan", *SUITE, "--optimizers", "MyRule,MyRule-slow", "--reference", "MyRule"]) == 0
    assert tomllib.loads(package)["project"]["entry-points"][ENTRY_POINTS] == {"MyRule": "my_rule:MyRule"}


def test_every_check_has_a_row() -> None:
    rows = re.findall(r"^\| ([a-z0-9 ]+) \|", PAGE.partition("| check |")[2], re.MULTILINE)
    assert rows == [check.name for check in CHECKS]
