"""Studies of training programs: by the command, killed and resumed, and with what programs show of themselves."""

import csv
import json
import os
import random
import re
import subprocess
import sys
import time
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest
import torch
from disturbed import Disturbed, results, tables
from programs import COMMAND, PLAIN, RESUMING, program_spec, write_program
from tiny import run_here

import fairbench as fb
import fairbench.trial
from fairbench.arenas.program import own_folder
from fairbench.arenas.program_command import is_another_program
from fairbench.arenas.registry import load_arena
from fairbench.cli.main import main
from fairbench.common.errors import UsageError
from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.runner.preflight import run_preflight
from fairbench.runner.trainings import first_check
from fairbench.study.planned_trial import trial_spec
from fairbench.study.resolved_suite import ResolvedArena, ResolvedSuite
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import Overrides
from fairbench.suites.program_files import arena_files
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.digests import weights_hash
from fairbench.training.program import program_trial
from fairbench.training.program_record import Fingerprints
from fairbench.training.trial import trial

pytestmark = pytest.mark.usefixtures("no_figures")

EXAMPLES = Path(__file__).parents[3] / "examples" / "programs"


@pytest.mark.slow
def test_a_program_on_the_command_line_gets_verdicts_an_audit_and_a_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path)
    Path("mine.toml").unlink()
    options = ["--program", COMMAND, "--metric", "val/loss:min", "--margin", "0.001", "--steps", "20", "--seeds", "4"]
    assert main(["run", *options, "--optimizers", "AdamW,program:PsiLogic", "-o", "out", "--workers", "2"]) == 0
    study = fb.open("out")
    (verdict,) = study.verdicts().rows
    assert (verdict.optimizer, verdict.verdict) == ("PsiLogic", "worse")
    assert verdict.gain == pytest.approx(-0.02, rel=0.2)
    assert "initial weights" in next(str(flag) for flag in study.audit().rows if flag.name == "conditions not shown")
    assert "program" in (Path("out") / "report.html").read_text()
    assert not [*Path("out/checkpoints").iterdir()]


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        pytest.param(PLAIN, "", marks=pytest.mark.slow),
        ("report(step=steps, val_loss=1.0, test_loss=1.0)", "reports the same for seeds 1 and 2; it gets the seed"),
        (
            PLAIN.replace("step=steps", "step=20"),
            "in the first check with AdamW in mine, it reported step 20, and its trial has 10",
        ),
        (
            "raise SystemExit('no data here')",
            "the program failed in the first check with AdamW (2 steps, exit code 1):\nno data here",
        ),
    ],
)
def test_the_preflight_notices_what_a_program_ignores(tmp_path, monkeypatch, capsys, rest, message):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path, rest)
    assert main(["plan", "--suite", "mine.toml"]) == (2 if message else 0)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (COMMAND.replace("{optimizer}", "AdamW"), "AdamW and PsiLogic are the same to the program"),
        (COMMAND.replace("{lr}", "3e-3"), "the learning rate is searched, and does not reach the program"),
    ],
)
def test_what_does_not_reach_a_program_is_told_before_any_trial(tmp_path, monkeypatch, command, message):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path, command=command)
    with pytest.raises(UsageError, match=message):
        checked(load_suite("mine.toml"))


def checked(suite):
    """The preflight of a suite without further processes, and what it says."""
    said = []

    def call(function, *arguments):
        return json.loads(json.dumps(function(*arguments), default=list))

    return run_preflight(suite, DeviceSlot(), call, said.append), said


CONTINUES = """
before = Path("last").read_text() if Path("last").exists() else ""
Path("last").write_text(before + "x")
""" + PLAIN.replace("val_loss=", "val_loss=len(before) + ")
SLOW_START = "time.sleep(0.3)\n" + PLAIN


@pytest.mark.parametrize(
    ("rest", "keys", "said"),
    [
        (
            "steps = max(steps, 8) if steps < 8 else steps\n" + PLAIN,
            "",
            ["the reports of 2 steps are wrong (in the first check with AdamW in mine"],
        ),
        (PLAIN.replace("val_loss=", "val_loss=os.getpid() + "), "", ["other numbers for seed 1 when it runs again"]),
        (CONTINUES, "", ["If it continues from last, which each run writes"]),
        (SLOW_START, "", []),
        ("seed = os.getpid()\nnoise = random.Random(seed)\n" + PLAIN, "seeded = false", []),
        ("seed = int(os.environ['S'])\n" + PLAIN, 'seed_env = "S"', []),
        (PLAIN, "seeded = false", ["its seed is fixed, so that its runs are no more than one"]),
    ],
)
def test_the_first_check_of_a_program(tmp_path, monkeypatch, rest, keys, said):
    monkeypatch.chdir(tmp_path)
    command = COMMAND.replace("{seed}", "7") if "seed" in keys else COMMAND
    write_program(tmp_path, rest, command, keys)
    preflight, found = checked(load_suite("mine.toml"))
    assert [expected for expected in said if expected in "".join(found)] == said
    assert len([text for text in found if not text.startswith(("measuring", "the weight decay"))]) == len(said)
    if rest == SLOW_START:
        assert preflight.start_seconds["mine"] > 20 * preflight.step_seconds["mine"]


def test_a_check_that_finds_no_metric_within_two_steps_takes_those_of_the_shortest_trial(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = "open('starts', 'a').write(f'{steps} ')\nif steps < 8:\n    raise SystemExit()\n" + PLAIN
    write_program(tmp_path, program)
    _, said = checked(load_suite("mine.toml"))
    assert said.count("the program reports no val/loss within 2 steps, so the check takes 10") == 1
    assert Path("starts").read_text().split() == ["2", *["10"] * 6]  # the second optimizer begins with 10


def test_a_program_that_fails_in_its_first_run_is_started_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path, "open('starts', 'a').write('x')\nraise SystemExit('unrecognized arguments')")
    with pytest.raises(UsageError, match="unrecognized arguments"):
        checked(load_suite("mine.toml"))
    assert Path("starts").read_text() == "x"


OWN_NAMES = ["--optimizers", "program:adamw,program:muon"]
OF_PROGRAM = ["--metric", "val/loss:min", "--margin", "0.01", "-o", "out"]


def planned(command, *options):
    """The exit code of `fairbench plan` for a program."""
    return main(["plan", "--program", command, *OF_PROGRAM, *options])


def test_an_unknown_placeholder_is_told_before_anything_is_started(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert planned("python train.py {learning_rate} {seed} {steps}", *OWN_NAMES) == 2
    told = capsys.readouterr().err
    assert "the command has {learning_rate}, which this trial does not set; did you mean 'lr'?" in told
    assert "measuring" not in told


def test_the_first_optimizer_of_a_program_with_its_own_names_is_the_baseline(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path)
    assert planned(f"{sys.executable} -S train.py {{lr}} {{seed}}", *OWN_NAMES, "--first-steps", "0") == 0
    printed = capsys.readouterr()
    assert "the baseline is adamw, the first of --optimizers; --reference names another" in printed.err
    assert "muon against adamw" in printed.out


def test_a_program_with_its_own_names_of_optimizers_is_told_how_to_give_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path, "raise SystemExit(f'invalid choice: {optimizer!r}')")
    assert planned(COMMAND, "--optimizers", "adamw,muon") == 2
    assert "unknown optimizer 'adamw': write program:adamw if your program makes it itself" in capsys.readouterr().err
    assert planned(COMMAND, "--optimizers", "AdamW,Muon") == 2
    told = capsys.readouterr().err
    assert "if the program makes its optimizers itself, --optimizers program:NAME has its own name of each" in told


WITHOUT_TEST = PLAIN.replace(", test_loss=loss_after(steps) + 0.001", "")


@pytest.mark.parametrize(
    ("command", "most"),
    [
        pytest.param(COMMAND.replace("{stage}", "any"), 2, id="a trial of the search shows it"),
        pytest.param(COMMAND, 8, id="the program knows the stage, so that a final trial shows it"),
    ],
)
def test_without_a_first_check_a_study_of_a_program_without_a_test_split_stops_early(
    tmp_path, monkeypatch, capsys, command, most
):
    run_here(monkeypatch, tmp_path)
    write_program(tmp_path, WITHOUT_TEST, command)
    assert main(["run", "--suite", "mine.toml", "-o", "out", "--workers", "1", "--first-steps", "0"]) == 2
    message = "Without a test split, --set 'breaks=[\"split\"]' takes the validation split"
    printed = capsys.readouterr()
    assert message in printed.err
    assert "program stopped" not in printed.out
    assert len([*Path("out/trials").glob("*.json")]) <= most


@pytest.mark.parametrize(("comment", "reason"), [("", "its command has no {seed}"), ("# fairbench\n", "pass {seed}")])
def test_a_seed_that_does_not_reach_a_long_program_is_told_once(tmp_path, monkeypatch, comment, reason):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(first_check, "QUICK", 0.2)  # the program takes longer, so that it does not run twice
    write_program(tmp_path, f"{comment}{SLOW_START}", COMMAND.replace("{seed}", "7"))
    _, said = checked(load_suite("mine.toml"))
    (of_seed,) = [text for text in said if "the seed does not reach" in text]
    assert of_seed.startswith(f"the seed does not reach the program: {reason}")


def test_no_first_check_is_a_choice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path, "raise SystemExit(1)")
    preflight, _ = checked(load_suite("mine.toml", Overrides(settings={"first_steps": 0})))
    assert preflight.unmeasured == ["mine"]


@pytest.mark.soak
@pytest.mark.parametrize("ray", [False, True])
def test_a_study_that_is_killed_twenty_times_ends_like_an_undisturbed_one(tmp_path, ray):
    seed = int(os.environ.get("SOAK_SEED", time.time_ns() % 10_000))
    chance = random.Random(seed)
    left = 20
    kinds = ("kill -9 of a driver", "kill -9 of a worker", "kill -9 of all", "SIGTERM", "SIGUSR1", "Ctrl-C")

    def study(name):
        (tmp_path / name).mkdir()
        write_program(tmp_path / name, RESUMING)
        return Disturbed(tmp_path / name, chance, words=("run", "--suite", "mine.toml"), ray=ray)

    calm = study("calm")
    (calm.folder / "quick").touch()
    calm.end_here()
    while left > 0:
        disturbed = study(f"{left} left")
        if ray:
            drivers = 1
            seconds = 30
        else:
            drivers = chance.choice((1, 2))
            seconds = 6
        while left > 0 and disturbed.keep_running(drivers, chance.uniform(seconds / 3, seconds)):
            disturbed.disturb(chance.choice(kinds))
            left -= 1
        (disturbed.folder / "quick").touch()
        disturbed.end_here()
        assert results(disturbed.out) == results(calm.out), f"SOAK_SEED={seed}: {disturbed.done}"
        assert tables(disturbed.out) == tables(calm.out), f"SOAK_SEED={seed}: {disturbed.done}"


def loaded_by(folder, code, **variables):
    """Which of the heavy libraries a process has loaded after some code that uses a trial of 7 steps."""
    names = '[name for name in ("torch", "numpy", "msgspec") if name in sys.modules]'
    program = f"import sys, fairbench.trial\ntrial = fairbench.trial.current(steps=7, seed=3)\n{code}\nprint({names})"
    environment = {**os.environ, **variables}
    words = [sys.executable, "-c", program]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def test_outside_of_a_study_nothing_is_loaded_and_nothing_written(tmp_path):
    code = """
trial.log(1, train_loss=1.0); trial.result(val={"loss": 1.0}); trial.batch(); trial.start(None)
trial.load_state_dict({"batches": "of a study"})
assert (trial.steps, trial.seed, trial.active, trial.state_dict()) == (7, 3, False, {})
"""
    assert loaded_by(tmp_path, code) == "[]\n"
    assert not [*tmp_path.iterdir()]
    model = torch.nn.Linear(2, 1)
    assert type(fairbench.trial.current().optimizer(model, lr=0.1, betas=(0.5, 0.9))) is torch.optim.AdamW


def test_in_a_study_nothing_is_loaded_until_an_optimizer_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path)
    begun(tmp_path / "own", program_spec())
    code = """
trial.log(trial.steps, train_loss=1.0); trial.result(val={"loss": 2.0}); trial.load_state_dict(trial.state_dict())
"""
    assert loaded_by(tmp_path, code, FAIRBENCH_TRIAL="own") == "[]\n"
    assert len(Path("own/metrics.jsonl").read_text().splitlines()) == 2
    assert Fingerprints.read(Path("own.trial")) == Fingerprints()


def train(trial, stop_after=0, state=None):
    """A loop of a user with a checkpoint: returns it when it stops early."""
    torch.manual_seed(trial.seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    trial.start(model)
    optimizer = trial.optimizer(model, lr=1.0)
    schedule = trial.lr_schedule(optimizer)
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule, "trial": trial}
    done = 0
    if state:
        done = state["done"]
        for name, part in parts.items():
            part.load_state_dict(state[name])
    for step in range(done + 1, trial.steps + 1):
        batch = torch.randn(16, 4, generator=torch.Generator().manual_seed(step))
        trial.batch(batch)
        loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        trial.log(step, train_loss=loss)
        if step == stop_after:
            return {"done": step, **{name: part.state_dict() for name, part in parts.items()}}
    trial.result(val={"loss": loss}, test={"loss": loss})
    return weights_hash(model)


def begun(folder, spec, attempt=1):
    folder.mkdir(exist_ok=True)
    own_folder(folder).mkdir(exist_ok=True)
    (own_folder(folder) / "trial.json").write_text(json.dumps({**spec.to_json(), "attempt": attempt}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAIRBENCH_TRIAL", str(folder))
        return fairbench.trial.current()


def test_of_several_processes_the_first_one_reports(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path)
    reported = []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)  # as torchrun sets it
        trial = begun(tmp_path / rank, program_spec())
        trial.log(trial.steps, train_loss=1.0)
        trial.result(val={"loss": 2.0})
        reported.append((tmp_path / rank / "metrics.jsonl").exists())
    assert reported == [True, False]


def psilogic_spec(**changes):
    spec = program_spec(steps=20)
    options = {"lr": 0.01, "chaos_warmup": 0, "weight_decay": 0.1}
    return replace(spec, optimizer=replace(spec.optimizer, factory="psilogic:PsiLogic", options=options, **changes))


def test_a_program_that_resumes_shows_the_same_evidence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path)
    spec = psilogic_spec()
    final = train(begun(tmp_path / "whole", spec))
    state = train(begun(tmp_path / "resumed", spec), stop_after=7)
    train(begun(tmp_path / "resumed", spec, attempt=2), state=deepcopy(state))
    train(begun(tmp_path / "without", spec, attempt=2), state={**state, "trial": {}})
    whole, resumed, without = (
        Fingerprints.read(tmp_path / f"{name}.trial") for name in ("whole", "resumed", "without")
    )
    assert whole.final_weights == final
    assert whole.mechanism.totals["acted"] > 0
    assert whole.path_length > 0
    assert resumed == whole
    assert (without.batches, without.mechanism, without.path_length) == ("", None, None)
    assert without.final_weights == final


def test_an_optimizer_that_needs_more_of_the_loop_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path)
    trial = begun(tmp_path / "a", psilogic_spec(needs=["closure"]))
    model = torch.nn.Linear(2, 1)
    with pytest.raises(UsageError, match=r"needs that step.* gets a function.*provides"):
        trial.optimizer(model, lr=0.1)
    assert trial.optimizer(model, lr=0.1, provides=["closure"]).param_groups[0]["lr"] == 0.01
    assert (trial.lr, trial.options["chaos_warmup"]) == (0.01, 0)
    with pytest.raises(UsageError, match="begin with train_, val_ or test_"):
        trial.log(1, loss=1.0)
    write_program(tmp_path, keys='results = "*.csv"')
    with pytest.raises(UsageError, match=r"trial.log writes metrics.jsonl: leave results out of the suite"):
        begun(tmp_path / "b", program_spec()).log(1, train_loss=1.0)


def test_epochs_as_steps_are_noticed_by_an_optimizer_that_was_told_its_steps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path)
    spec = psilogic_spec()
    told = replace(spec, optimizer=replace(spec.optimizer, options={**spec.optimizer.options, "total_steps": 20}))
    trial = begun(tmp_path / "a", told)
    model = torch.nn.Linear(2, 1)
    optimizer = trial.optimizer(model, lr=0.1, steps=3)
    for _ in range(3):
        optimizer.step()
    with pytest.raises(UsageError, match=r"told that it takes 3 steps.*steps=epochs"):
        optimizer.step()


@pytest.fixture
def gpt(monkeypatch):
    """A short trial of the arena gpt of mini with PsiLogic, and the same one of examples/programs/arena_gpt.py."""
    monkeypatch.chdir(EXAMPLES)
    mini = load_suite("mini", Overrides(arenas=["gpt"], settings={"PsiLogic.chaos_warmup": 0}))
    own = load_suite("small.toml", Overrides(arenas=["arena-gpt"]))
    psilogic = resolve_optimizer("PsiLogic", mini.optimizers["PsiLogic"])
    fingerprint = load_arena("gpt").open_data(mini.arenas["gpt"].data, Path()).fingerprint
    code = arena_files(own, "arena-gpt")
    arena, program = (
        trial_spec(
            ResolvedSuite(suite, "cpu", {name: of}, {"PsiLogic": psilogic}, {}), name, "PsiLogic", "final", 1e-3, 1
        )
        for suite, name, of in (
            (mini, "gpt", ResolvedArena(fingerprint, {}, {})),
            (own, "arena-gpt", ResolvedArena("", code, {})),
        )
    )
    training = replace(arena.training, steps=12)
    return replace(arena, training=training), replace(program, training=training)


@pytest.mark.slow
def test_the_arena_gpt_as_a_program_gives_the_same_bits(gpt):
    arena = trial(gpt[0])
    program = program_trial(gpt[1], DeviceSlot(), lambda step, loss: None)
    assert program.details == arena.details
    for part in ("final", "parameters", "path_length", "steps"):
        assert getattr(program.result, part) == getattr(arena.result, part)
    for weights in ("initial_weights", "final_weights"):
        assert getattr(program.result.hashes, weights) == getattr(arena.result.hashes, weights)


@pytest.mark.soak
@pytest.mark.parametrize("more", ["", " --fsdp"])
def test_two_processes_give_the_losses_of_one(gpt, more):
    arena, spec = gpt
    command = f"torchrun --standalone --nproc-per-node 2 arena_gpt.py{more}"
    both = replace(spec, arena=replace(spec.arena, model={**spec.arena.model, "program": command, "cores": 2}))
    one = trial(arena)
    two = program_trial(both, DeviceSlot(), lambda step, loss: None)
    for metric, expected in one.details.evaluations.values.items():
        assert list(two.details.evaluations.values[metric]) == pytest.approx(list(expected), rel=1e-5)
    assert two.result.hashes.initial_weights == one.result.hashes.initial_weights
    assert re.fullmatch("[0-9a-f]{64}", two.result.hashes.batches)


def test_an_optimizer_whose_code_was_changed_is_not_trained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path)
    Path("changed_rule.py").write_text("from torch.optim import SGD as MyRule\n")
    spec = program_spec()
    options = {"lr": 0.1}
    code = {"changed_rule_py": "0" * 16}
    own = replace(spec.optimizer, factory="changed_rule.py:MyRule", options=options, code=code)
    with pytest.raises(UsageError, match=r"changed_rule.py was changed after this run had started"):
        begun(tmp_path / "a", replace(spec, optimizer=own)).optimizer(torch.nn.Linear(2, 1), lr=0.1)


def test_an_optimizer_of_the_user_runs_in_the_first_steps_when_its_code_is_not_known_yet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path)
    Path("first_rule.py").write_text("from torch.optim import SGD as MyRule\n")
    spec = program_spec()
    own = replace(spec.optimizer, factory="first_rule.py:MyRule", options={"lr": 0.1}, code={})
    optimizer = begun(tmp_path / "a", replace(spec, optimizer=own)).optimizer(torch.nn.Linear(2, 1), lr=0.1)
    assert type(optimizer) is torch.optim.SGD


PRINTS = """
for step in range(1, steps + 1):
    print(f"step {step}: val loss {loss_after(step):.6f}")
"""


def test_a_program_without_a_test_split_is_judged_on_its_validation_split(tmp_path, monkeypatch, capsys):
    run_here(monkeypatch, tmp_path)
    write_program(tmp_path, PRINTS)
    assert main(["run", "--suite", "mine.toml", "-o", "out", "--workers", "2"]) == 0
    said = "the program reports no test split: learning rates are selected on the validation split, and the verdict"
    shown, _ = capsys.readouterr()
    assert said in " ".join(shown.split())
    (flag,) = [flag for flag in fb.open("out").audit().rows if flag.name == "selection on what is reported"]
    assert (flag.severity, "about the validation split" in flag.evidence) == ("warn", True)
    assert "report `test/...`" in flag.advice  # not what to report of the validation split
    records = pyarrow.parquet.read_table("out/records.parquet").to_pylist()
    measured = {row["val_loss"] for row in records if row["stage"] == "final"}
    assert {float(row["val"]) for row in rows_of("summary.csv")} <= measured
    assert {row["test"] for row in rows_of("summary.csv")} == {""}
    assert {row["test_loss"] for row in records} == {None}
    of_split = [*rows_of("aggregate.csv"), *rows_of("steps.csv"), *rows_of("lr_sweep.csv")]
    assert {row["split"] for row in of_split} == {"val"}


def rows_of(file):
    """The rows of a data file of the study "out"."""
    with Path("out", file).open() as rows:
        return [*csv.DictReader(rows)]


def test_all_that_is_missing_is_told_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = COMMAND.replace("{lr}", "3e-3").replace("{seed}", "7")
    write_program(tmp_path, "print('step 1: val accuracy 0.5')", command)
    with pytest.raises(UsageError) as raised:
        checked(load_suite("mine.toml"))
    for missing in ("no val/loss was reported", "Also, the learning rate is searched", "Also, the seed does not reach"):
        assert missing in str(raised.value)


def test_an_unequal_weight_decay_is_told_before_any_trial(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path, PLAIN.replace("loss_after", "(lambda step: lr + 1 / step + noise.gauss(0, 1))"))
    suite = load_suite("mine.toml", Overrides(optimizers=["AdamW", "Muon"]))
    _, said = checked(suite)
    assert any("0.01 (AdamW), 0.1 (Muon); --set Muon.weight_decay=0.01 makes it equal" in text for text in said)


@pytest.mark.parametrize(
    ("before", "now", "refused"),
    [
        ("python train.py {lr}", "python ./train.py --fast {lr}", False),
        ("python train.py {lr}", "python toy/train.py {lr}", True),
        ("torchrun --standalone -m mine.train", "torchrun --standalone -m mine.other", True),
        ("bash -c 'make && ./train'", "python train.py", False),
    ],
)
def test_a_folder_of_another_program_is_refused(before, now, refused):
    assert is_another_program(before, now) == refused


def test_another_program_does_not_continue_a_study(tmp_path, monkeypatch, command):
    run_here(monkeypatch, tmp_path)
    write_program(tmp_path)
    command("plan", "--suite", "mine.toml", "--freeze", "-o", "out")
    Path("mine.toml").write_text(Path("mine.toml").read_text().replace("train.py", "other.py"))
    message = command("run", "--suite", "mine.toml", "-o", "out", code=2)
    assert "out holds a study of another program" in message
    assert "such as -o results/NAME" in message
