"""Programs that write the same files in the folder in which they run, with several trials at the same time."""

import csv
import os
import random
import sys
from pathlib import Path

import pytest

from fairbench.cli.main import main
from fairbench.runner.trainings.written_files import file_times, written

pytestmark = pytest.mark.usefixtures("no_figures")

CHECKPOINT = """
import random, sys, time
from pathlib import Path
seed = int(sys.argv[1])
folder = Path(sys.argv[2])
checkpoint = folder / "model.bin"
checkpoint.write_text(str(random.Random(seed).random()))
time.sleep(0.2)
print("val loss 5.0")
print("step 0: train loss 5.1 (took 4.18 ms)")
print("val loss", float(checkpoint.read_text()) + 0.1 * len(sys.argv))
"""
"""As llm.c's train_gpt2.c, whose checkpoint has a fixed name; here a seed makes it."""
OPTIONS = ["--metric", "val/loss:min", "--margin", "0.01", "--seeds", "4", "-j", "4", "-o", "out"]


def run(program):
    """The exit code of a study of the program with and without a word."""
    variants = ["--variant", "base", "--variant", "word: word"]
    return main(["run", "--program", f"{sys.executable} -S {program}", *variants, *OPTIONS])


def losses():
    """The final loss of each variant and seed."""
    with Path("out/summary.csv").open() as rows:
        return {(row["variant"], int(row["seed"])): float(row["val"]) for row in csv.DictReader(rows)}


@pytest.mark.slow
@pytest.mark.parametrize("folder", [".", "{out}"])
def test_trials_that_write_the_same_file_do_not_read_each_other_s(tmp_path, monkeypatch, capsys, folder):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(CHECKPOINT)
    assert run(f"train.py {{seed}} {folder}") == 0
    expected = {}
    for seed in range(1, 5):
        alone = random.Random(seed).random()
        expected["base", seed] = pytest.approx(alone + 0.3)
        expected["word", seed] = pytest.approx(alone + 0.4)
    assert losses() == expected
    output = capsys.readouterr()
    waits = "each run writes model.bin in the folder in which the program runs" in output.out + output.err
    assert waits == (folder == ".")


def test_the_files_that_a_program_writes(tmp_path):
    study = tmp_path / "results" / "program"
    for name in ("trials", "claims", "drivers"):
        (study / name).mkdir(parents=True)
    for name in (".git", "__pycache__", "out"):
        (tmp_path / name).mkdir()
    kept = tmp_path / "out" / "kept.bin"
    again = tmp_path / "out" / "again.bin"
    kept.touch()
    again.touch()
    (tmp_path / "latest").symlink_to(again)
    before = file_times(tmp_path)
    assert before.keys() == {"out/kept.bin", "out/again.bin"}
    os.utime(again, ns=(1, 1))
    for new in (
        tmp_path / "new.bin",
        study / "driver.json",
        tmp_path / ".git" / "index",
        tmp_path / "__pycache__" / "a",
    ):
        new.touch()
    assert written(before, file_times(tmp_path)) == {"new.bin", "out/again.bin"}


def test_a_log_of_the_study_is_not_a_file_of_the_program(tmp_path, monkeypatch):
    with (tmp_path / "log.txt").open("w") as log:
        monkeypatch.setattr(sys, "__stdout__", log)
        assert file_times(tmp_path) == {}


def test_a_folder_with_very_many_files_is_not_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr("fairbench.runner.trainings.written_files.MOST_FILES", 2)
    for number in range(3):
        (tmp_path / str(number)).touch()
    assert file_times(tmp_path) == {}
