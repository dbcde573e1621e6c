"""Studies of variants of a program, by the real command."""

import csv
import json
import sys
from pathlib import Path

import pytest

import fairbench as fb
from fairbench.cli.main import main
from fairbench.runner.trainings.program import variant_code
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import Overrides
from fairbench.suites.variants import parsed_variants

TRAIN = """
import json, os, random, sys
seed, steps, out, *words = sys.argv[1:]
noise = random.Random(int(seed))
loss = noise.random() + 0.1 * len(words) + float(os.environ.get("OWN", 0)) + SHIFT
with open(f"{out}/metrics.jsonl", "w") as file:
    file.write(json.dumps({"step": int(steps), "val/loss": loss, "train/loss": loss}) + "\\n")
"""
PROGRAM = f"{sys.executable} -S train.py {{seed}} {{steps}} {{out}}"
OPTIONS = ["--metric", "val/loss:min", "--margin", "0.01", "--steps", "3", "--seeds", "3", "-j", "1", "-o", "out"]


def write_program(folder, shift):
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(TRAIN.replace("SHIFT", str(shift)))


def final_losses(file="out/summary.csv"):
    """The loss of each variant and seed."""
    with Path(file).open() as rows:
        return {(row["variant"], int(row["seed"])): float(row["test"]) for row in csv.DictReader(rows)}


@pytest.mark.slow
def test_variants_by_words_variables_and_folder_end_to_end(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_program(Path(), 0)
    write_program(Path("other"), 0.5)
    variants = ["--variant", "base", "--variant", "env: OWN=2 a b", "--variant", "folder: @./other"]
    command = ["run", "--program", PROGRAM, *variants, *OPTIONS]
    assert main(command) == 0
    losses = final_losses()
    for seed in (1, 2, 3):
        assert losses["env", seed] - losses["base", seed] == pytest.approx(2.2)
        assert losses["folder", seed] - losses["base", seed] == pytest.approx(0.5)
    output = capsys.readouterr()
    assert "ptimizer" not in output.out + output.err
    assert [row["variant"] for row in fb.open("out").verdicts().to_dicts()] == ["env", "folder"]
    assert main(["status", "out", "--json"]) == 0
    assert {arm["variant"] for arm in json.loads(capsys.readouterr().out)["arms"]} == {"base", "env", "folder"}


def test_a_changed_file_is_code_of_its_own_variant_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_program(Path(), 0)
    write_program(Path("other"), 0.5)
    variants = parsed_variants(["base", "folder: @./other"], PROGRAM)
    settings = {"arenas.program.model.program": PROGRAM}
    suite = load_suite("program", Overrides(settings=settings, variants=variants))

    def code(name):
        return variant_code(suite, suite.optimizers[name].variant)

    before = {name: code(name) for name in suite.optimizers}
    write_program(Path("other"), 1)
    assert code("base") == before["base"]
    assert code("folder") != before["folder"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--variant", "base"], "there is no other to compare it with"),
        (["--variant", "a", "--variant", "b", "--optimizers", "AdamW"], "with --variant the variants are compared"),
        (["--variant", "a", "--variant", "b", "--lr-grid", "1:2:3"], "the command has no {lr}"),
        (["--variant", "a", "--variant", "b", "--reference", "c"], "the reference variant 'c' is not in the run"),
    ],
)
def test_wrong_options_of_variants(tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--program", PROGRAM, *options, *OPTIONS]) == 2
    assert message in capsys.readouterr().err
