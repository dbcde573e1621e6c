"""Studies of variants of a program, by the real command."""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import stdev

import disturbed
import programs
import psutil
import pytest
from disturbed import TO_BE_CONTINUED, Disturbed, results, tables

import fairbench as fb
from fairbench.cli.main import main
from fairbench.runner.adopted_noise import adopt_noise
from fairbench.runner.executors.starting import LOADED
from fairbench.runner.preload import preload
from fairbench.study.plan import arms
from fairbench.study.record import Record
from fairbench.study.records import Store
from fairbench.study.snapshot import open_study
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import Overrides
from fairbench.suites.program_files import variant_files
from fairbench.suites.variants import parsed_variants

pytestmark = pytest.mark.usefixtures("no_figures")

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
        return {(row["variant"], int(row["seed"])): float(row["val"]) for row in csv.DictReader(rows)}


def is_loaded(module, by):
    """Whether the modules that the processes of a suite load import another one."""
    modules = [*preload(by), LOADED]
    load = f"import sys; from importlib import import_module; [import_module(name) for name in {modules}]"
    code = f"{load}; print({module!r} in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return printed == "True\n"


@pytest.mark.soak
def test_processes_of_programs_load_nothing_that_only_a_step_of_torch_needs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    programs.write_program(tmp_path)
    assert not is_loaded("torch._dynamo", by=load_suite("mine.toml"))


def test_processes_of_variants_load_no_torch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path, 0)
    variants = load_suite("program", Overrides(variants=parsed_variants(["base", "more: 1"], PROGRAM)))
    assert not is_loaded("torch", by=variants)


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
    assert main(["verdicts", "out", "--require", "no-worse"]) == 1
    assert "no-worse is required, and does not hold" in capsys.readouterr().err
    assert main(["status", "out", "--json"]) == 0
    assert {arm["variant"] for arm in json.loads(capsys.readouterr().out)["arms"]} == {"base", "env", "folder"}


@pytest.mark.slow
def test_trials_of_changed_code_are_said_before_the_first_check_and_count_again_when_it_is_restored(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    command = ["run", "--program", PROGRAM, "--variant", "base", "--variant", "new: a", *OPTIONS, "--seeds", "2"]
    texts = []
    for shift in (0, 1, 0):
        write_program(Path(), shift)
        assert main(command) == 0
        texts.append(capsys.readouterr().out)
    assert "changed since" not in texts[0]
    for text in texts[1:]:
        said = "train.py changed since this study ran; not counted are 4 finished trials of the former code (they are"
        assert text.index(said) < text.index("measuring program")
        assert "the plan was changed" not in text
    assert len(list(Path("out/trials").glob("*.json*"))) == 8, "the first trials were not trained again"


RESUMING = """
import json, random, sys, time
from pathlib import Path
seed, steps, out, *words = sys.argv[1:]
checkpoint = Path(out, "checkpoint")
done = int(checkpoint.read_text()) if checkpoint.exists() else 0
for step in range(done + 1, int(steps) + 1):
    if not Path("quick").exists():
        time.sleep(0.03)
    loss = random.Random(f"{seed} {step}").random() + len(words)
    with open(f"{out}/metrics.jsonl", "a") as file:
        file.write(json.dumps({"step": step, "val/loss": loss, "train/loss": loss}) + "\\n")
    checkpoint.with_suffix(".new").write_text(str(step))
    checkpoint.with_suffix(".new").replace(checkpoint)
"""


def program_of(driver):
    """The process of the program that a driver runs."""
    below = psutil.Process(driver.process.pid).children(recursive=True)
    (process,) = [each for each in below if "train.py" in each.cmdline()]
    return process


@pytest.mark.slow
def test_a_study_of_programs_that_is_killed_and_stopped_ends_like_an_undisturbed_one(tmp_path):
    """First a program is killed, then a driver; the next driver gets SIGTERM. No process loads torch."""
    words = ("run", "--program", PROGRAM, "--variant", "base", "--variant", "more: 1", *OPTIONS)
    words = (*words, "--steps", "20", "--seeds", "2")
    studies = {}
    for name in ("calm", "disturbed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(RESUMING)
        studies[name] = Disturbed(tmp_path / name, random.Random(0), words=words)
    calm = studies["calm"]
    study = studies["disturbed"]

    def checkpoints():
        return {(path, path.stat().st_mtime_ns) for path in study.out.glob("checkpoints/*/checkpoint")}

    def wait_for_checkpoint():
        before = checkpoints()
        study.wait_for(lambda: checkpoints() - before)

    (calm.folder / "quick").touch()
    calm.end_here()
    driver = study.start()
    wait_for_checkpoint()
    program_of(driver).kill()
    wait_for_checkpoint()
    study.kill_driver(driver)
    driver = study.start()
    wait_for_checkpoint()
    study.stop(driver, signal.SIGTERM)
    assert driver.process.returncode == TO_BE_CONTINUED
    (study.folder / "quick").touch()
    study.end_here()
    assert results(study.out) == results(calm.out)
    assert tables(study.out) == tables(calm.out)


@pytest.mark.slow
def test_noise_says_what_a_study_can_show_and_its_runs_are_the_first_of_a_study(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_program(Path(), 0)
    options = ["--metric", "val/loss:min", "--steps", "3", "-j", "1", "-o", "out", "--runs", "5", "--json"]
    assert main(["noise", "--program", PROGRAM, *options]) == 0
    output = capsys.readouterr().out
    found = json.loads(output[output.index("{") :])
    by_hand = [random.Random(seed).random() for seed in (1, 2, 3)]
    assert found["std_seeds"] == pytest.approx(stdev(by_hand))
    assert (found["runs"], found["std_repeated"]) == (5, 0)
    study = open_study(Path("out/noise"))[0].study
    store = Store(Path("out"))
    store.prepare()
    assert adopt_noise(study, store) == 5
    assert {store.read(spec, Record).plan for arm in arms(study, lambda spec: None) for spec in arm.final[:2]} == {""}
    assert adopt_noise(study, store) == 0


def test_a_changed_file_is_code_of_its_own_variant_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_program(Path(), 0)
    write_program(Path("other"), 0.5)
    variants = parsed_variants(["base", "folder: @./other"], PROGRAM)
    settings = {"arenas.program.model.program": PROGRAM}
    suite = load_suite("program", Overrides(settings=settings, variants=variants))

    def code(name):
        return variant_files(suite, suite.optimizers[name].variant)

    before = {name: code(name) for name in suite.optimizers}
    write_program(Path("other"), 1)
    assert code("base") == before["base"]
    assert code("folder") != before["folder"]


@pytest.mark.soak
@pytest.mark.timeout(3600)  # a loaded machine takes a quarter of an hour
def test_two_revisions_are_not_mixed_by_commits_edits_and_kills(tmp_path, monkeypatch):
    seed = int(os.environ.get("SOAK_SEED", time.time_ns() % 10_000))
    chance = random.Random(seed)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(disturbed, "OUTSIDE_OF_GIT", dict(os.environ))
    subprocess.run(["git", "init", "-q", "-b", "main"], check=True)

    def commit(shift):
        write_program(Path(), shift)
        slow = Path("train.py").read_text() + "\nimport time; time.sleep(0.5)\n"
        Path("train.py").write_text(slow)
        Path(".gitignore").write_text("calm\nout\n")
        identity = ["-c", "user.name=me", "-c", "user.email=me@localhost"]
        subprocess.run(["git", "add", "-A"], check=True)
        subprocess.run(["git", *identity, "commit", "-qm", f"shift {shift}"], check=True)

    commit(0)
    commit(0.5)
    options = OPTIONS[: OPTIONS.index("--seeds")]
    words = ("run", "--program", PROGRAM, "--variant", "old: @main~1", "--variant", "new: @main", *options)
    words = (*words, "--seeds", "40")
    began = time.monotonic()
    Disturbed(tmp_path, chance, words=words, output="calm").end()
    whole = time.monotonic() - began  # a loaded machine needs longer between two kills
    study = Disturbed(tmp_path, chance, words=words, output="out")
    study.start()
    study.wait_for(Path("out/revisions/commits.json").exists)  # from now on the study has begun
    kinds = ("kill -9 of a driver", "kill -9 of a worker", "kill -9 of all", "SIGTERM", "Ctrl-C")
    while len(study.done) < 20:
        if not study.keep_running(chance.choice((1, 2)), chance.uniform(0.02, 0.12) * whole):
            assert len(study.ended_records()) < 2 * 40, f"the study was too short for 20 kills: {study.done}"
            continue  # the kill of a worker has ended its driver, too
        study.disturb(chance.choice(kinds))
        if chance.random() < 0.5:
            commit(len(study.done))
        else:
            write_program(Path(), 1000 + len(study.done))
    study.end()
    assert results(tmp_path / "out") == results(tmp_path / "calm"), f"SOAK_SEED={seed}: {study.done}"
    assert tables(tmp_path / "out") == tables(tmp_path / "calm"), f"SOAK_SEED={seed}: {study.done}"
    assert not Path("out/revisions").exists()


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


def test_a_file_with_results_where_the_program_runs_is_named_by_its_option(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(
        "from pathlib import Path\n"
        "Path('runs/12-30').mkdir(parents=True)\n"
        "Path('runs/12-30/args.json').write_text('{}')\n"
        "Path('runs/12-30/metrics.csv').write_text('epoch,val_loss\\n1,0.5\\n')\n"
    )
    command = ["run", "--program", f"{sys.executable} -S train.py", "--variant", "base", "--variant", "x: 1"]
    assert main([*command, "--metric", "val/loss:min", "--margin", "1", "-o", "out"]) == 2
    assert "It has written where it runs: --results './runs/*/metrics.csv' reads that" in capsys.readouterr().err
