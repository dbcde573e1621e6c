"""Sessions in real git repositories, by the real command."""

import csv
import io
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean, stdev

import pytest
from repositories import INIT, PROGRAM, commit, gate, git, make_repository

from fairbench.cli.main import main

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[3] / "docs/agents.md"


def documented_keys():
    """The keys that docs/agents.md has for a session."""
    (row,) = re.findall(r"^\| `gate init` \| (.*) \|$", PAGE.read_text(), flags=re.MULTILINE)
    return {"schema", "command", *re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", row))}


def test_a_session_from_its_beginning_to_a_certified_stack_that_is_pruned(tmp_path, monkeypatch, capsys):
    base = make_repository(tmp_path / "work", monkeypatch)
    code, begun = gate(capsys, "init", *INIT, "--protect", "evaluate.py")
    assert (code, begun["verdict"], begun["base"], begun["head"]) == (0, "calibrated", base, base)
    assert begun.keys() == documented_keys()
    values = begun["values"]["base"]
    assert len(values) == len(set(values)) == len(set(begun["seeds"])) == 6
    assert mean(values) == pytest.approx(10, abs=2)
    assert stdev(values) < 3

    null = commit(-9, "harmful")
    code, dropped = gate(capsys, "try")
    assert (code, dropped["verdict"], dropped["commit"], dropped["head"]) == (1, "drop", null, base)
    assert dropped["next"] == f"git reset --hard {base}"
    assert dropped["head_mean"] == pytest.approx(mean(values))
    assert dropped["needed"] == pytest.approx(mean(values) - stdev(values) / 2)
    assert dropped["gain"] == pytest.approx(mean(values) - dropped["values"]["try"][0])
    assert main(["gate", "status"]) == 0
    shown = capsys.readouterr().out
    value, head_mean, needed = dropped["values"]["try"][0], dropped["head_mean"], dropped["needed"]
    assert f"{value:.6g}, head's mean {head_mean:.6g} (needs below {needed:.6g})\n" in shown
    assert gate(capsys, "try")[1] == {**dropped, "command": "gate try"}  # it is not trained again
    git("reset", "-q", "--hard", base)
    assert gate(capsys, "status")[1]["next"] == "fairbench gate try"

    first = commit(20, "good", other="x = 1\n")
    code, kept = gate(capsys, "try")
    assert (code, kept["verdict"], kept["head"], kept["base"]) == (0, "keep", first, base)
    assert len(kept["values"]["try"]) == 3
    Path("settings.py").write_text("GAIN = 40\nNAME = 'tree'\n")
    Path("untracked.txt").write_text("of the user")
    code, kept = gate(capsys, "try")
    tree = kept["head"]
    assert (code, git("show", f"{tree}:settings.py")) == (0, "GAIN = 40\nNAME = 'tree'")
    git("add", "settings.py")
    git("commit", "-qm", "the tree")

    code, certified = gate(capsys, "certify")
    assert (code, certified["verdict"], certified["base"], certified["head"]) == (0, "certified", tree, tree)
    assert certified["gain"] == pytest.approx(40, abs=3)
    low, high = certified["interval"]
    assert 0 < low < certified["gain"] < high
    assert certified["p"] <= certified["level"] == pytest.approx(0.0075)
    assert certified["level_left"] == pytest.approx(0.0425)
    assert len(certified["values"]["head"]) == 4
    assert certified["runs"] == 6 + 1 + 3 + 3 + 8

    code, pruned = gate(capsys, "prune", "--margin", "5")
    assert code == 0
    assert "later changes edit the same lines" in pruned["keeps"][first]
    assert pruned["keeps"][tree] == "worse"

    assert main(["gate", "log", "--tsv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out), delimiter="\t"))
    verdicts = [row["verdict"] for row in rows]
    assert verdicts == ["calibrated", "drop", "keep", "keep", "certified", "pruned"]
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["gate", "log"]) == 0
    assert "harmful gains -9" in capsys.readouterr().out
    page = Path(pruned["page"]).read_text()
    assert "No single change is certified" in page
    assert "The stack without it" in page
    assert "later changes edit the same lines" in page
    assert git("status", "--porcelain") == "?? untracked.txt"
    assert len(git("worktree", "list").splitlines()) == 1


def test_what_a_session_refuses_trains_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert "is in no git repository" in gate(capsys, "status")[1]
    make_repository(tmp_path / "work", monkeypatch)
    assert "has no session" in gate(capsys, "try")[1]
    assert "matches no file" in gate(capsys, "init", *INIT, "--protect", "none/*")[1]
    assert gate(capsys, "init", *INIT, "--protect", "eval*")[0] == 0
    assert "is the session of this repository" in gate(capsys, "init", *INIT)[1]
    assert "has the same files as head" in gate(capsys, "try")[1]
    assert "nothing was kept" in gate(capsys, "certify")[1]
    assert "no stack is certified" in gate(capsys, "prune", "--margin", "1")[1]
    commit(5, "cheats", evaluate="another metric")
    assert "evaluate.py is protected" in gate(capsys, "try")[1]
    commit(5, "adds", evaluate="the metric", evaluation="x = 1\n")
    assert "evaluation.py is protected" in gate(capsys, "try")[1]
    assert gate(capsys, "status")[1]["runs"] == 6


@pytest.mark.soak
def test_a_session_that_was_stopped_in_its_calibration_is_replaced_by_one_with_another_command(
    tmp_path, monkeypatch, capsys
):
    make_repository(tmp_path / "work", monkeypatch)
    slow = f"""
import time
from pathlib import Path
Path({str(tmp_path)!r}, "run-" + seed).touch()
if len(list(Path({str(tmp_path)!r}).glob("run-*"))) > 2:
    time.sleep(60)
"""
    Path("train.py").write_text(PROGRAM + slow)
    git("commit", "-qam", "slow after two runs")
    words = [sys.executable, "-m", "fairbench", "gate", "init", *INIT]
    command = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while len(list(tmp_path.glob("run-*"))) < 3:
        time.sleep(0.05)
        assert command.poll() is None
    command.send_signal(signal.SIGTERM)
    command.communicate()
    assert command.returncode == 75
    assert main(["gate", "status"]) == 0
    shown = capsys.readouterr().out
    assert "0 runs so far, and 2 of the calibration that was interrupted; " in shown
    assert "val_loss" not in shown
    commit(0, "quick")
    assert main(["gate", "init", *INIT]) == 0
    printed = capsys.readouterr()
    assert "session 1 has no finished calibration, so that it counts nothing: a new one takes its place" in printed.err
    assert "6 runs so far; " in printed.out
    assert [path.name for path in Path(".git/fairbench/gate").glob("[0-9]*")] == ["1"]
    ledger = Path(".git/fairbench/gate/1/ledger.jsonl").read_text()
    assert json.loads(ledger.splitlines()[0])["earlier"] == 0


def test_a_program_that_fails_has_an_exit_code_of_its_own(tmp_path, monkeypatch, capsys):
    make_repository(tmp_path / "work", monkeypatch)
    Path("train.py").write_text("raise SystemExit('the first line is wrong')\n")
    git("commit", "-qam", "wrong")
    code, failed = gate(capsys, "init", *INIT)
    assert (code, failed["verdict"], failed["next"]) == (3, "failed", "fairbench gate init")
    commit(0, "base")
    assert gate(capsys, "init", *INIT)[0] == 0
    Path("train.py").write_text("raise SystemExit('the second line is wrong')\n")
    capsys.readouterr()
    assert main(["gate", "try", "--json"]) == 3
    printed = capsys.readouterr()
    assert json.loads(printed.out)["verdict"] == "failed"
    assert "the second line is wrong" in printed.err


def test_the_test_split_is_read_by_certificates_alone(tmp_path, monkeypatch, capsys):
    make_repository(tmp_path / "work", monkeypatch)
    Path("train.py").write_text(Path("train.py").read_text() + 'print(f"test_loss: {100 + alone - GAIN}")\n')
    git("commit", "-qam", "with a test split")
    code, begun = gate(capsys, "init", *INIT, "--test-metric", "test_loss")
    assert code == 0
    assert max(begun["values"]["base"]) < 50
    Path("settings.py").write_text("GAIN = 20\nNAME = 'good'\n")
    code, kept = gate(capsys, "try")
    assert code == 0
    assert max(kept["values"]["try"]) < 50
    code, certified = gate(capsys, "certify")
    assert (code, certified["verdict"]) == (0, "certified")
    assert min(certified["values"]["base"]) > 50
