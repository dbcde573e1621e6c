"""Real processes, really killed: the same command again ends as if nothing had happened."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairbench.cli import main

pytestmark = pytest.mark.xdist_group("libraries")  # one worker imports what studies need

SLOWER = {"steps = 40": "steps = 300", "sweep_steps = 10": "sweep_steps = 60"}
"""Trials long enough to be killed in their middle."""


def words(output: str, workers: int) -> list[str]:
    return ["run", "--suite", "tiny.toml", "--output-dir", output, "--workers", str(workers)]


def start(folder: Path, output: str) -> subprocess.Popen[bytes]:
    log = (folder / f"{output}.log").open("ab")
    command = [sys.executable, "-m", "fairbench", *words(output, 2)]
    return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)


def wait_for_records(process: subprocess.Popen[bytes], folder: Path, count: int) -> None:
    while len(list(folder.glob("trials/*.json"))) < count:
        assert process.poll() is None, "the run ended before it could be interrupted"
        time.sleep(0.005)


def children(pid: int) -> list[int]:
    """The processes below a process."""
    below = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            child, parent = int(status.parent.name), int(status.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        if parent == pid:
            below += [child, *children(child)]
    return below


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 60
    while any(running(pid) for pid in pids):
        assert time.monotonic() < deadline, "workers outlive their parent"
        time.sleep(0.05)


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def derived(folder: Path) -> dict[str, bytes]:
    """Every derived file that must be reproducible byte for byte."""
    timed = {"cost.csv", "report.html"}
    files = [path for path in folder.rglob("*") if path.is_file() and "trials" not in path.parts]
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if path.name not in timed and not path.name.startswith((".", "step_time"))
    }


def results(folder: Path) -> dict[str, object]:
    records = {path.name: json.loads(path.read_text()) for path in folder.glob("trials/*.json")}
    return {name: (record["spec"], record["status"], record["result"]) for name, record in records.items()}


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_interrupted_studies_end_like_an_undisturbed_one(tiny_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is killed runs in processes of its own; what is not runs here, which has the libraries loaded."""
    folder = tiny_file.parent
    monkeypatch.chdir(folder)
    text = tiny_file.read_text()
    for old, new in SLOWER.items():
        text = text.replace(old, new)
    tiny_file.write_text(text)
    assert main(words("undisturbed", 0)) == 0

    for kill, records in ((signal.SIGKILL, 2), (signal.SIGINT, 5)):
        process = start(folder, "disturbed")
        wait_for_records(process, folder / "disturbed", records)
        workers = children(process.pid)
        assert len(workers) >= 2
        if kill == signal.SIGKILL:
            process.kill()
            process.wait()
        else:
            os.killpg(process.pid, kill)  # as Ctrl-C in a terminal: to the whole group
            assert process.wait() == 130
        wait_until_gone(workers)
        before = {path: path.stat().st_mtime_ns for path in folder.glob("disturbed/trials/*.json")}
        assert before

    assert main(words("disturbed", 0)) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before, "finished trials were run again"
    assert results(folder / "disturbed") == results(folder / "undisturbed")
    mine, theirs = derived(folder / "disturbed"), derived(folder / "undisturbed")
    assert {"summary.csv", "aggregate.csv", "significance.csv", "lr_sweep.csv", "steps.csv"} <= mine.keys()
    assert mine == theirs
    assert "finished trials are kept" in (folder / "disturbed.log").read_text()


def test_ctrl_c_while_libraries_load_is_quiet(tiny_file: Path) -> None:
    process = start(tiny_file.parent, "early")
    while not children(process.pid):  # the workers' server
        time.sleep(0.01)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait() == 130
    assert "Traceback" not in (tiny_file.parent / "early.log").read_text()
