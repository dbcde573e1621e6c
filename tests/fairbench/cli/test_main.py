"""The command line: whole commands, their output and their exit codes."""

import ast
import csv
import json
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from documented import every_command
from fabricated import sealed, stored
from tiny import TINY

from fairbench.cli.choices import StudyChoice
from fairbench.cli.chosen import chosen_suite, target_of
from fairbench.cli.main import main
from fairbench.cli.parser import command_names, parser
from fairbench.cli.slots import chosen_slots
from fairbench.common.errors import UsageError
from fairbench.runner.devices import device_kind
from fairbench.study.history import read_history
from fairbench.suites.loader import load_suite
from fairbench.training.device_slot import DeviceSlot

pytestmark = [
    pytest.mark.xdist_group("studies"),  # one worker has the study that some of them share
    pytest.mark.usefixtures("no_figures"),  # only the study `finished` has them
]


HERE = ["run", "--suite", "tiny.toml", "--output-dir", "out", "--workers", "1"]
"""The tiny suite, one trial at a time."""


def test_a_whole_study_with_a_user_optimizer(finished, tmp_path):
    assert "Signs" in finished.stdout
    names = {path.name for path in finished.output.iterdir()}
    tables = {"lr_sweep.csv", "steps.csv", "summary.csv", "aggregate.csv", "significance.csv", "cost.csv"}
    assert {"config.json", "trials", "figures", "report.html", *tables} <= names

    copy = tmp_path / "copy"  # other tests use the same study
    shutil.copytree(finished.output, copy, ignore=shutil.ignore_patterns("*.csv"))
    assert main(["report", str(copy)]) == 0
    for path in finished.output.glob("*.csv"):
        assert (copy / path.name).read_bytes() == path.read_bytes()


def test_a_failed_trial_sets_the_exit_code_and_is_run_again_and_names_are_no_markup(tiny_folder, command):
    own = "[optimizers.'R[fast][/x]']\nfactory = 'own_optimizers:Raises'\n"
    (tiny_folder / "tiny.toml").write_text(f"{TINY.partition('[optimizers.PsiLogic]')[0]}{own}")
    for _ in range(2):
        shown = command(*HERE, "-v", code=1)
        assert "failed: vit R[fast][/x] lr=0.01 sweep seed 0, " in shown
        assert "failed: vit R[fast][/x] lr=0.01 sweep seed 0: ArithmeticError: this optimizer cannot continue" in shown
        assert "incomplete" in shown
    command("report", "out", code=1)


def test_damaged_files_are_named_and_the_rest_continues(tiny_run, tiny_folder, command):
    shutil.copytree(tiny_run / "results/mine", tiny_folder / "out")
    config = tiny_folder / "out" / "config.json"
    good = config.read_text()
    for bad in (good[:99], "[]", json.dumps({"study": None}), good.replace('"fingerprint"', '"fingerprints"')):
        config.write_text(bad)
        assert "damaged configuration out/config.json" in command("report", "out", code=2)
    config.write_text(good)
    records = sorted((tiny_folder / "out" / "trials").glob("*.json"))
    # Final trials: those of an arm whose sweep has a damaged record are not run.
    broken, missing, *_ = (path for path in records if stored(path)["stage"] == "final")
    broken.write_text(broken.read_text()[:100])
    missing.unlink()
    for words, code in {(*HERE,): 1, ("report", "out"): 1, ("audit", "out"): 1, ("status", "out"): 0}.items():
        assert f"damaged record out/trials/{broken.name}" in " ".join(command(*words, code=code).split())
    assert broken.stat().st_size == 100
    assert missing.exists()
    broken.unlink()
    assert command(*HERE, "-q") == "everything in out, the report in out/report.html\n"
    command("status", "out", "--exit-code")


SMOKE = ["--smoke-test", "--device", "cpu", "--output-dir", "out", "--workers", "1"]


@pytest.mark.soak
def test_timing_trials_of_a_command(tiny_folder, command):
    command(*SMOKE, "--timing")
    costs = list(csv.DictReader((tiny_folder / "out" / "cost.csv").open()))
    assert [(row["optimizer"], row["trials"]) for row in costs] == [("AdamW", "5"), ("PsiLogic", "5")]


def test_the_command_of_the_papers_authors(tiny_folder, command):
    """An output directory is not used for two suites."""
    command(*SMOKE)
    assert (tiny_folder / "out" / "report.html").exists()
    assert "out holds suite 'smoke', not 'tiny'; choose another --output-dir" in command(*HERE, code=2)
    shown = command("--data-root", "./data", "--output-dir", "results/full", code=2)
    datasets = ("tinystories", "cifar100", "tiny-imagenet", "celeba")
    for line, begin, dataset in zip(shown.splitlines(), ("fairbench:", " ", " ", " "), datasets, strict=True):
        assert line.startswith(f"{begin} there is no data/prepared/")
        assert f"fairbench data download --data-root data --dataset {dataset}" in line
    assert not (tiny_folder / "results").exists()


def test_impossible_suites_are_refused_before_any_trial(tiny_folder, command, check_messages):
    suite = tiny_folder / "tiny.toml"
    text = suite.read_text()

    def message_of(case):
        ((old, new),) = ast.literal_eval(f"{{{case}}}").items()
        assert old in text
        suite.write_text(text.replace(old, new))
        return re.sub(r"known: [^)]*", "known: ...", command(*HERE, code=2))

    check_messages("impossible.txt", message_of)
    assert list((tiny_folder / "out" / "trials").iterdir()) == []


def test_trials_use_the_requested_gpus():
    words = ["run", "--device", "cuda", "--gpus", "0,2", "--trials-per-gpu", "2", "--data-root", "d"]

    def slots(words):
        choice = StudyChoice(parser().parse_args(words))
        return chosen_slots(choice.location, target_of(choice, chosen_suite(choice)))[0]

    assert slots(words) == [DeviceSlot(device, "d", alone=False) for device in ("cuda:0", "cuda:2") * 2]
    assert slots(words[:5]) == [DeviceSlot(device) for device in ("cuda:0", "cuda:2")]


def test_list_shows_suites_arenas_and_optimizers(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = command("list")
    assert max(map(len, shown.splitlines())) <= 80
    for name in ("mini", "smoke", "gpt", "vit", "resnet", "ddpm", "Adam", "AdamW", "Lion", "PsiLogic"):
        assert f"  {name} " in shown


def test_a_copy_of_a_suite_is_the_suite(tmp_path, command):
    copy = tmp_path / "my.toml"
    copy.write_text(command("suite", "show", "mini"))
    assert load_suite(str(copy)) == replace(load_suite("mini"), name="my")
    assert command("suite", "check", str(copy)) == (
        f"{copy} is valid: gpt, vit, resnet, ddpm with Adam, AdamW, Lion, PsiLogic; 8 seeds, "
        "PsiLogic against AdamW, Adam, Lion\n"
    )


def test_env_shows_the_versions_of_a_record(finished, command, capsys):
    shown = dict(line.split(":", 1) for line in command("env").splitlines())
    record = stored(next((finished.output / "trials").glob("*.json")))
    facts = {key: value for key, value in record["environment"].items() if key not in ("git", "data")}
    assert facts.items() <= {key: value.strip() for key, value in shown.items()}.items()
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"fairbench {facts['psilogic']}\n"


def test_the_help_of_every_command_has_an_example_and_exit_codes():
    for command in every_command(parser()):
        unexplained = [action.dest for action in command._actions if not action.help and action.dest != "verb"]
        assert not unexplained, command.prog
        if not any(action.dest == "verb" for action in command._actions):
            (example,) = re.findall(r"^Example:\n  fairbench (.*)$", command.description or "", re.MULTILINE)
            parser().parse_args(shlex.split(example.partition(" >")[0]))
            assert re.search(r"^Exit codes: 0 .*; 2 ", command.epilog or "", re.MULTILINE), command.prog


def test_a_fault_of_fairbench_has_an_exit_code_that_no_verdict_has(monkeypatch, capsys):
    def fail(options):
        raise RuntimeError("a fault")

    monkeypatch.setattr("fairbench.cli.reading.catalog", fail)
    assert main(["list"]) == 70
    printed = capsys.readouterr().err
    assert "RuntimeError: a fault\nfairbench: this is a fault of fairbench, and no verdict" in printed


def test_the_help_lists_every_command_once_in_a_group():
    listed = re.findall(r"^  ([\w-]+) +[A-Z].*\.$", parser().format_help(), re.MULTILINE)
    assert sorted(listed) == sorted(command_names(parser()))


def test_a_device_is_chosen_and_named(finished, monkeypatch):
    def chosen(gpus, *words, directory=Path("none")):
        for module in ("runner.devices", "cli.slots"):
            monkeypatch.setattr(f"fairbench.{module}.gpus_here", lambda: gpus)
        choice = StudyChoice(parser().parse_args(["run", *suite, *words, "-o", str(directory)]))
        slots, device = chosen_slots(choice.location, target_of(choice, chosen_suite(choice)))
        return [slot.device for slot in slots], device

    suite = [str(finished.folder / "tiny.toml")]

    assert chosen(0, "-j", "2") == (["cpu", "cpu"], "device: cpu (no GPU here)")
    assert chosen(0, "--device", "cpu", "-j", "1") == (["cpu"], "")
    assert chosen(2) == (["cuda:0"], "device: cuda:0 (2 GPUs here; --gpus all uses all of them)")
    assert chosen(2, "--gpus", "all") == (["cuda:0", "cuda:1"], "device: cuda:0, cuda:1 (2 GPUs here)")
    assert chosen(3, "--gpus", "1") == (["cuda:1"], "device: cuda:1 (3 GPUs here)")
    assert chosen(1, "--device", "cuda", "--trials-per-gpu", "2") == (["cuda:0", "cuda:0"], "")

    begun = finished.output  # on the CPU; a GPU there would need --allow-mixed
    assert chosen(2, "-j", "1", directory=begun) == (["cpu"], "device: cpu (the device of this study; 2 GPUs here)")
    assert chosen(2, "--device", "cuda", directory=begun) == (["cuda:0"], "")
    with pytest.raises(UsageError, match=r"--gpus 1 has no effect, .*/out has trials of the CPU; leave it out"):
        chosen(2, "--gpus", "1", directory=begun)
    assert [device_kind("auto", read_history(x)) for x in (begun, Path("none"))] == ["cpu", "cuda"]


def test_a_closed_pipe_is_no_error():
    command = f"{shlex.quote(sys.executable)} -m fairbench list | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("suites\n", "")


LIGHT = """
import sys
from fairbench.cli.main import main
for words in ("--help", "list", "run --help", "data --help", "compare --help", "status {study}"):
    try:
        main(words.split())
    except SystemExit:
        pass
    light = set() if "status" in words else {{"numpy", "rich"}}
    assert not ({{"torch", "scipy", "sklearn", "matplotlib"}} | light) & {{*sys.modules}}, words
"""


def test_help_lists_and_the_status_load_no_heavy_library(tiny_run):
    program = LIGHT.format(study=tiny_run / "results/mine")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_changed_plan_is_reported(tiny_run, tiny_folder, command, capsys):
    suite = tiny_folder / "tiny.toml"
    plan = ["plan", "tiny.toml", "--output-dir", "out"]
    assert main([*plan, "--device", "cpu"]) == 0
    shown, progress = capsys.readouterr()
    assert progress == "measuring vit with 2 optimizers\n"
    assert "vit: 2 optimizers, each 3 sweep trials of 10 steps" in shown
    assert "10 trials; about 0:" in shown
    assert not (tiny_folder / "out").exists()
    shutil.copytree(tiny_run / "results/mine", tiny_folder / "out")
    assert "4 final trials have a record already" in command(*plan, "--freeze", code=2)
    suite.write_text(suite.read_text().replace("margin = 0.02", "margin = 0.5"))
    shown = command(*HERE)
    assert "2 optimizers\nthe plan was changed: suite.arenas.vit.margin: 0.02 -> 0.5; trials" in shown
    assert "kept\nCHANGED AFTERWARDS: the plan that was declared 20" in shown
    assert "suite.arenas.vit.margin from 0.02 to 0.5" in " ".join(shown.split())


def test_a_frozen_plan_accepts_no_change(tiny_run, tiny_folder, command):
    assert "frozen in out: sha256 " in command("plan", "--suite", "tiny.toml", "--output-dir", "out", "--freeze")
    command("status", "out", "--exit-code", code=1)
    suite = tiny_folder / "tiny.toml"
    good = suite.read_text()
    suite.write_text(good.replace("seeds = [1, 2]", "seeds = [1, 2, 3]"))
    assert "frozen, but this run would change\n  suite.final.seeds: [1, 2] -> [1, 2, 3]" in command(*HERE, code=2)
    assert list((tiny_folder / "out" / "trials").iterdir()) == []
    suite.write_text(good)
    trials = tiny_run / "results/mine/trials"  # from another run
    shutil.copytree(trials, tiny_folder / "out" / "trials", dirs_exist_ok=True)
    assert "Frozen plan: Declared 20" in command(*HERE)


def test_reading_a_study_changes_no_file_of_it(finished, tmp_path, command):
    before = {path: path.stat().st_mtime_ns for path in finished.output.rglob("*")}
    command("report", str(finished.output), "--output-dir", str(tmp_path / "elsewhere"))
    for word in ("status", "watch"):
        assert "20 of 20 trials" in command(word, str(finished.output))
    command("audit", str(finished.output))
    assert {path: path.stat().st_mtime_ns for path in finished.output.rglob("*")} == before
    for table in ("summary.csv", "significance.csv", "cost.csv"):
        assert (tmp_path / "elsewhere" / table).read_bytes() == (finished.output / table).read_bytes()


def is_final_of_signs(spec):
    return spec["stage"] == "final" and spec["optimizer"]["name"] == "Signs"


def test_explain(finished, command):
    files = sorted((finished.output / "trials").glob("*.json"))
    assert "has this trial" in command("explain", str(files[0]))

    other = next(file for file in files if is_final_of_signs(stored(file)["spec"]))
    changed = stored(other)
    changed["spec"]["optimizer"]["code"]["own_optimizers"] = "0123"
    stray = finished.folder / "stray" / "trials" / "feed.json"
    stray.parent.mkdir(parents=True)
    stray.write_text(sealed(json.dumps(changed)))
    (stray.parents[1] / "config.json").write_bytes((finished.output / "config.json").read_bytes())
    for file in files:
        (stray.parent / file.name).write_bytes(file.read_bytes())
    shown = command("explain", "feed", "--output-dir", str(stray.parents[1]))
    assert f"has {other.stem} instead" in shown
    assert "  optimizer.code.own_optimizers: 0123 -> " in shown
    shown = command("explain", str(stray), str(other))
    assert "they differ in\n  optimizer.code.own_optimizers: 0123 -> " in shown
    assert "no trial in" in command("explain", "zzz", "--output-dir", str(finished.output), code=2)
