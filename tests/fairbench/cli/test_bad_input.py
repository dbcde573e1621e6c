"""Mistakes that people make with the command: each message names the thing, its value and the way out."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import write_tiny
from torch.nn import Module

from fairbench.cli.main import main
from fairbench.common.installation import EXTRAS
from fairbench.common.toml import tomllib
from fairbench.optimizers.building import build_optimizer
from fairbench.optimizers.spec import OptimizerSpec


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    text = write_tiny(folder).read_text()
    (folder / "my suite.toml").write_text(text)
    (folder / "broken.toml").write_text(f"{text}\nalpha = = 1")
    (folder / "table.toml").write_text(f"{text}\n[trainign]\nclip_norm = 1")
    (folder / "file.txt").write_text("no study")
    (folder / "empty").mkdir()
    (folder / "results/study/trials").mkdir(parents=True)
    for trial in ("abc1", "abc2"):
        (folder / f"results/study/trials/{trial}.json").write_text("{}")
    return folder


@pytest.fixture
def inside(place, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setattr("fairbench.runner.devices.DRIVERS", ())  # as on a machine without a GPU
    return place


def test_mistakes_are_named_with_the_way_out(inside, capsys, check_messages):
    before = sorted(inside.rglob("*"))

    def message_of(command):
        assert main(shlex.split(command.replace("\\n", "\n"))) == 2, command
        out, message = capsys.readouterr()
        assert out == "", command
        assert message.count("\n") == 1, command
        assert sorted(inside.rglob("*")) == before, command
        message = message.removeprefix("fairbench: ").replace(str(inside), "HERE")
        known = r"(known:|choose from|one of: ablation,) [^)\n]*"
        return re.sub(known, r"\1 ...", message)

    check_messages("commands.txt", message_of)


def test_a_folder_without_images_is_named_with_its_option(inside, capsys):
    assert main(["run", "tiny.toml", "--images", "results"]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("fairbench: --images results: results contains no images, and no class")
    assert shown.out == ""


def test_without_arguments_there_is_help_and_an_error(command):
    assert command(code=2).startswith("usage: fairbench")


def test_a_factory_that_returns_no_optimizer_is_named():
    with pytest.raises(TypeError, match=r"it returned \[\], which is no optimizer; it must return one"):
        build_optimizer(OptimizerSpec("nothing", "builtins:list", {}, "", {}), Module())


BLOCKED = """
import sys
sys.modules |= dict.fromkeys({modules!r})
from fairbench.cli.main import main
for words in {commands!r}:
    print(main(words.split()))
"""
NEED = ("run mini -j 1", "plan mini", "status .", "watch .", "audit .", "report .", "compare .", "verdicts",
        "check AdamW", "try AdamW")  # fmt: skip
NEED_NOTHING = ("list", "suite show mini", "suite check mini", "env", "new-optimizer my_rule")


def test_without_the_extra_every_command_names_it(tmp_path):
    code = BLOCKED.format(modules=EXTRAS["bench"], commands=[*NEED, "data list", *NEED_NOTHING])
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    *complaints, of_data = done.stderr.splitlines()
    install = "which is not installed; in the folder of the repository, run: pip install "
    assert len(complaints) == len(NEED)
    for complaint in complaints:
        assert complaint.startswith("fairbench: this needs ")
        assert complaint.endswith(f"{install}'.[bench]'")
    assert of_data.endswith(f"{install}'.[data]'")
    codes = [line for line in done.stdout.splitlines() if line in ("0", "1", "2")]
    assert codes == ["2"] * (len(NEED) + 1) + ["0"] * len(NEED_NOTHING)


def test_the_modules_of_the_extras_are_those_that_are_declared():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    modules = {"pillow": "PIL", "scikit-learn": "sklearn"}
    for extra in ("bench", "data", "zoo", "ray"):
        declared = []
        for requirement in project["optional-dependencies"][extra]:
            name = requirement.partition(">")[0]
            declared.append(modules.get(name, name.replace("-", "_")))
        assert sorted(EXTRAS[extra]) == sorted(declared)
