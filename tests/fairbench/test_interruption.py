"""Real processes, really killed: the same command again ends as if nothing had happened."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny import OUTSIDE_OF_GIT, Finished

from fairbench import environment
from fairbench.cli import main

pytestmark = pytest.mark.xdist_group("studies")  # one worker has the study that some of them share


def start(study: Finished, output: str, workers: int = 2) -> subprocess.Popen[bytes]:
    log = (study.folder / f"{output}.log").open("ab")
    command = [sys.executable, "-m", "fairbench", *study.words, "--output-dir", output, "--workers", str(workers)]
    return subprocess.Popen(
        command, cwd=study.folder, env=OUTSIDE_OF_GIT, stdout=log, stderr=log, start_new_session=True
    )


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
    timed = {"cost.csv", "cost.tex", "equal_time.tex", "report.html"}
    files = [path for path in folder.rglob("*") if path.is_file() and "trials" not in path.parts]
    return {
        str(path.relative_to(folder)): re.sub(rb'"declared": ".*"', b"", path.read_bytes())
        for path in files
        if path.name not in timed and not path.name.startswith((".", "step_time"))
    }


def results(folder: Path) -> dict[str, object]:
    records = {path.name: json.loads(path.read_text()) for path in folder.glob("trials/*.json")}
    return {name: (record["spec"], record["status"], record["result"]) for name, record in records.items()}


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_interrupted_studies_end_like_an_undisturbed_one(finished: Finished, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last run ends it in this process, which has the libraries loaded."""
    folder = finished.folder
    for kill, records, workers_given in ((signal.SIGKILL, 2, 2), (signal.SIGINT, 5, 0)):
        process = start(finished, "disturbed", workers_given)
        wait_for_records(process, folder / "disturbed", records)
        workers = children(process.pid)
        assert len(workers) >= workers_given
        if kill == signal.SIGKILL:
            process.kill()
            process.wait()
            assert len(list(folder.glob("disturbed/.running-*.json"))) == 1  # for who watches
            wait_until_gone(workers)
            (folder / "disturbed.log").unlink()  # a worker whose driver is killed while it starts may say so
        else:
            os.killpg(process.pid, kill)  # as Ctrl-C in a terminal: to the whole group
            assert process.wait() == 130
        wait_until_gone(workers)
        before = {path: path.stat().st_mtime_ns for path in folder.glob("disturbed/trials/*.json")}
        assert before

    said = (folder / "disturbed.log").read_text()
    assert not any(word in said for word in ("Traceback", "Exception ignored", "leaked")), said

    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(environment, "LOADED_REVISION", "none")
    environment.environment.cache_clear()  # the trials are forked from here, with what is known by now
    assert main([*finished.words, "--output-dir", "disturbed", "--workers", "0"]) == 0
    assert not list(folder.glob("disturbed/.running-*.json"))
    assert {path: path.stat().st_mtime_ns for path in before} == before, "finished trials were run again"
    assert results(folder / "disturbed") == results(finished.output)
    mine, theirs = derived(folder / "disturbed"), derived(finished.output)
    assert {"summary.csv", "aggregate.csv", "significance.csv", "lr_sweep.csv", "steps.csv"} <= mine.keys()
    assert mine == theirs
    assert "finished trials are kept" in (folder / "disturbed.log").read_text()


def test_ctrl_c_while_libraries_load_is_quiet(finished: Finished) -> None:
    process = start(finished, "early")
    while not children(process.pid):  # the workers' server
        time.sleep(0.01)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait() == 130
    assert "Traceback" not in (finished.folder / "early.log").read_text()
