"""Processes are killed and stopped: the same command resumes, and the records are those of an undisturbed study."""

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
from disturbed import (
    STOPPED,
    TO_BE_CONTINUED,
    Disturbed,
    below,
    is_running,
    results,
    small_disk,
    suite_text,
    tables,
    undisturbed,
)
from tiny import write_tiny

from fairbench.cli import main as command
from fairbench.cli.main import preemptible
from fairbench.common.errors import Preempted

pytestmark = [
    pytest.mark.xdist_group("studies"),  # one worker has the study that some of them share
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc"),
]
KILLS = 50
DRIVERS = (1, 1, 2, 4)
"""Numbers of drivers; one is drawn after each disturbance."""


def check_same(study, calm):
    """The study has the records and tables of an undisturbed one, and no file of its drivers remains."""
    assert results(study.out) == results(calm), study.done
    mine = tables(study.out)
    theirs = tables(calm)
    assert {"summary.csv", "aggregate.csv", "significance.csv", "lr_sweep.csv", "steps.csv"} <= mine.keys()
    assert mine.keys() == theirs.keys(), study.done
    assert [name for name in mine if mine[name] != theirs[name]] == [], study.done
    for left in ("checkpoints", "claims", "drivers"):
        assert [*study.out.glob(f"{left}/*")] == [], (left, study.done)


def test_an_interrupted_study_ends_like_an_undisturbed_one(finished):
    """Of two drivers one is killed and one interrupted, on a path with spaces and other letters, through a symlink."""
    place = finished.folder / "mit Leerzeichen, größer ✓"
    place.mkdir()
    (finished.folder / "link").symlink_to(place, target_is_directory=True)
    study = Disturbed(finished.folder, random.Random(0), finished.words, "link/out", every=0.05)

    def wait_for_checkpoint():
        def checkpoints():
            return {(path.name, path.stat().st_mtime_ns) for path in study.out.glob("checkpoints/*.pt")}

        before = checkpoints()
        study.wait_for(lambda: checkpoints() - before)

    killed = study.start(1)
    interrupted = study.start(1)
    study.wait_for(lambda: len([*study.out.glob("drivers/*.json")]) == 2)
    wait_for_checkpoint()
    study.kill_driver(killed)
    workers = below(interrupted.process.pid)
    os.killpg(interrupted.process.pid, signal.SIGINT)  # as Ctrl-C in a terminal: to the whole group
    assert interrupted.process.wait() == STOPPED
    study.wait_for(lambda: not any(map(is_running, workers)))
    output = interrupted.log.read_text()
    assert "finished trials are kept" in output
    assert not any(word in output for word in ("Traceback", "Exception ignored", "leaked")), output

    records = {path: path.stat().st_mtime_ns for path in study.ended_records()}
    study.drivers.clear()  # all have ended as they should
    study.end_here()
    assert {path: path.stat().st_mtime_ns for path in records} == records, "finished trials were run again"
    check_same(study, finished.output)


@pytest.mark.soak
@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("mount"), reason="a small disk is mounted, which needs root")
def test_a_study_that_is_disturbed_fifty_times_ends_like_an_undisturbed_one(tmp_path):
    """At random moments, by any of `Disturbed.KINDS`, with up to four drivers; SOAK_SEED repeats a run."""
    kills = KILLS
    seed = int(os.environ.get("SOAK_SEED", time.time_ns() % 10_000))
    chance = random.Random(seed)
    text = suite_text(seeds=6, steps=1500)
    calm = undisturbed(tmp_path / "calm", text)
    while kills > 0:
        with small_disk(tmp_path / f"kleine Platte {kills}") as folder:
            write_tiny(folder, text)
            study = Disturbed(folder, chance)
            while kills > 0 and study.keep_running(chance.choice(DRIVERS), chance.uniform(0, 14)):
                study.disturb(chance.choice([*Disturbed.KINDS]))
                kills -= 1
            study.end()
            check_same(study, calm)
            print(f"SOAK_SEED={seed}: {len(study.done)} disturbances: {study.done}", file=sys.stderr)


@pytest.mark.parametrize(
    ("kill", "code"),
    [(signal.SIGINT, STOPPED), pytest.param(signal.SIGTERM, TO_BE_CONTINUED, marks=pytest.mark.soak)],
)
def test_a_signal_while_libraries_load_is_quiet(finished, kill, code):
    driver = Disturbed(finished.folder, random.Random(0), finished.words, "early").start()
    while not below(driver.process.pid):  # the workers' server
        time.sleep(0.01)
    time.sleep(0.3)
    os.killpg(driver.process.pid, kill)
    assert driver.process.wait() == code
    assert "Traceback" not in driver.log.read_text()


def test_a_second_signal_interrupts_the_handling_of_the_first(monkeypatch):
    outside = signal.getsignal(signal.SIGUSR1)
    with preemptible():
        with pytest.raises(Preempted, match="SIGUSR1"):
            os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGTERM)  # a job system that sends two signals at once
        monkeypatch.setattr(command, "ECHO", 0.0)
        with pytest.raises(Preempted, match="SIGTERM"):
            os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGUSR1) == outside
