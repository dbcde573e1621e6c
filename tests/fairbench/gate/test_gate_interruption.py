"""A session that is interrupted continues with the same seeds and gets the same ledger and the same verdicts."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
from repositories import INIT, commit, make_repository
from sessions import begun

from fairbench.cli.main import main
from fairbench.gate.ledger import LAST, LEDGER, read_ledger
from fairbench.gate.session import Run
from fairbench.gate.verdicts import finish_step

KILLS = 30
PATIENCE = 300.0
"""Seconds in which a command must end."""
STEPS = [
    ("try", {"try": "a"}),
    ("try", {"try": "b"}),
    ("try", {"try": "c"}),
    ("certificate", {"base": "base", "head": "c"}),
]


def by_seed(batch, seeds):
    """Runs whose values follow from arm and seed."""
    gains = {"a": 5.0, "b": -5.0, "c": 9.0}
    runs = []
    for seed in seeds:
        for arm, tried in batch.arms.items():
            noise = random.Random(f"{seed} {arm}").gauss(0, 1)
            runs.append(Run(arm, seed, "finished", 10 + noise - gains.get(tried, 0.0)))
    return runs


def play(ledger, train=by_seed):
    """All steps from wherever the session is."""
    begins = [entry for entry in ledger.entries if entry["event"] == "begin"]
    for kind, arms in STEPS[max(len(begins) - 1 - (ledger.session.step is not None), 0) :]:
        if ledger.session.step is None:
            ledger.append({"event": "begin", "kind": kind, "arms": arms, "subject": ""})
        finish_step(ledger, train)


def test_a_session_that_ends_after_any_line_continues_with_the_same_seeds_and_verdicts(tmp_path):
    whole = begun(tmp_path / "whole")
    play(whole)
    assert whole.session.base == "c"
    text = (whole.folder / LEDGER).read_text()
    lines = text.splitlines(keepends=True)
    for count in range(4, len(lines)):
        folder = tmp_path / str(count)
        folder.mkdir()
        (folder / LEDGER).write_text("".join(lines[:count]))
        (folder / LAST).write_text(lines[count - 1])
        continued = read_ledger(folder, completes=True)
        play(continued)
        assert (folder / LEDGER).read_text() == text, count


def play_slowly(folder):
    """All steps of the session in a folder, with runs that take a moment."""

    def train(batch, seeds):
        time.sleep(0.003)
        return by_seed(batch, seeds)

    play(read_ledger(folder, completes=True), train)


@pytest.mark.slow
def test_30_kills_while_a_ledger_is_written_change_no_byte_of_it(tmp_path):
    whole = begun(tmp_path / "whole")
    origin = tmp_path / "origin"
    shutil.copytree(whole.folder, origin)
    play(whole)
    text = (whole.folder / LEDGER).read_text()
    chance = random.Random(0)
    kills = 0
    while kills < KILLS:
        folder = tmp_path / f"disturbed {kills}"
        shutil.copytree(origin, folder)
        patience = 0.05
        while (folder / LEDGER).read_text() != text:
            child = multiprocessing.get_context("fork").Process(target=play_slowly, args=(folder,))
            child.start()
            child.join(chance.uniform(0, patience))
            patience *= 1.1  # on a loaded machine a child needs longer for its first line
            child.kill()
            child.join()
            kills += child.exitcode == -signal.SIGKILL
            assert child.exitcode in (0, -signal.SIGKILL)


def facts(folder):
    """The lines of the ledger in a repository, without times and what follows from them."""
    found = []
    for line in (folder / ".git/fairbench/gate/1" / LEDGER).read_text().splitlines():
        entry = json.loads(line)
        for key in ("hash", "previous"):
            del entry[key]
        for run in entry.get("runs", []):
            del run["seconds"]
        found.append(entry)
    return found


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_kills_in_every_phase_change_neither_seeds_nor_values_nor_verdicts(tmp_path, monkeypatch):
    seed = int(os.environ.get("SOAK_SEED", time.time_ns() % 10_000))
    print(f"SOAK_SEED={seed}")
    chance = random.Random(seed)
    origin = tmp_path / "origin"
    base = make_repository(origin, monkeypatch)
    commits = [commit(20, "good"), commit(-9, "harmful"), commit(40, "better")]
    subprocess.run(["git", "reset", "-q", "--hard", base], check=True)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fairbench.gate.commands.finish_step", interrupt)
        assert main(["gate", "init", *INIT]) == 130
    commands = [["init", *INIT], *[["try", each] for each in commits], ["certify"]]
    undisturbed = tmp_path / "undisturbed"
    shutil.copytree(origin, undisturbed)
    times = [run_once(undisturbed, command)[1] for command in commands]
    kills = 0
    copies = 0
    while kills < KILLS:
        copies += 1
        disturbed = tmp_path / f"disturbed {copies}"
        shutil.copytree(origin, disturbed)
        for index, command in enumerate(commands):
            while ended(disturbed) <= index:
                limit = PATIENCE
                if kills < KILLS and chance.random() < 0.75:
                    limit = chance.uniform(0, times[index])
                code, seconds = run_once(disturbed, command, limit)
                kills += code == -signal.SIGKILL
                if code != -signal.SIGKILL:
                    times[index] = seconds  # the load of the machine changes
        assert facts(disturbed) == facts(undisturbed)
    print(f"{kills} kills of {copies} sessions")


def ended(folder):
    """The number of steps that have ended."""
    return sum(entry["event"] == "end" for entry in facts(folder))


def run_once(folder, command, limit=PATIENCE):
    """Run a command, and kill it after some seconds; returns its exit code and its duration."""
    began = time.monotonic()
    words = [sys.executable, "-m", "fairbench", "gate", *command]
    output = folder.with_suffix(".log")
    with output.open("w") as file:
        process = subprocess.Popen(words, cwd=folder, stdout=file, stderr=file)
    try:
        process.wait(limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.returncode in (0, 1, -signal.SIGKILL), output.read_text()
    return process.returncode, time.monotonic() - began
