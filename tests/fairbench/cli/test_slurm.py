"""The script for sbatch does what it says, by a shell that runs it; docs/cluster.md describes a real Slurm."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairbench.cli import main as cli

DRIVER = """\
#!/bin/bash
printf '%s\\n' "$PWD" "$@" > said
trap 'echo "$BASHPID" > warned; exit {code}' USR1 TERM
touch ready
{rest}
"""
WAITS = "for turn in {1..1000}; do sleep 0.02; done"


@pytest.fixture
def folder(tmp_path: Path, tiny_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a difficult name, in which commands run; it holds the tiny suite."""
    folder = tmp_path / "ein Ordner 'für' $HOME"
    folder.mkdir()
    tiny_file.rename(folder / "tiny.toml")
    monkeypatch.chdir(folder)
    return folder


def script(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["slurm", *words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def start(folder: Path, text: str, code: int, rest: str = WAITS, **environment: str) -> subprocess.Popen[str]:
    """Run a script whose driver waits for a signal, or does the rest, with a Slurm that records its calls."""
    programs = {"driver": DRIVER.format(code=code, rest=rest), "scontrol": '#!/bin/bash\necho "$@" >> requeued\n'}
    for name, program in programs.items():
        (folder / name).write_text(program)
        (folder / name).chmod(0o755)
    (folder / "job.sh").write_text(text)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    job = subprocess.Popen(
        ["bash", "job.sh"], cwd=folder, env={**os.environ, "PATH": path, "SLURM_JOB_ID": "17", **environment}
    )
    while not (folder / "ready").exists():
        assert job.poll() is None
        time.sleep(0.01)
    return job


@pytest.fixture
def job(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "executable", str(folder / "driver"))
    return script(capsys, "tiny.toml", "--array", "2")


@pytest.mark.parametrize(
    ("sent", "code", "requeued"),
    [(signal.SIGUSR1, 75, True), (signal.SIGTERM, 75, False), (signal.SIGUSR1, 0, False), (signal.SIGUSR1, 1, False)],
)
def test_a_warned_driver_is_heard_out_and_taken_up_again(
    folder: Path, job: str, sent: signal.Signals, code: int, requeued: bool
) -> None:
    running = start(folder, job, code)
    running.send_signal(sent)
    assert running.wait(10) == code
    assert (folder / "warned").exists()
    assert (folder / "requeued").exists() == requeued
    if requeued:
        assert (folder / "requeued").read_text() == "requeue 17\n"


@pytest.mark.parametrize(("code", "requeued"), [(0, False), (1, False), (137, False), (75, True)])
def test_what_a_driver_returns_is_what_the_job_returns(folder: Path, job: str, code: int, requeued: bool) -> None:
    assert start(folder, job, 0, f"exit {code}").wait(10) == code
    assert (folder / "requeued").exists() == requeued


def test_options_of_run_reach_it_word_for_word(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(folder / "driver"))
    words = ["--optimizers", "AdamW,PsiLogic", "--set", "AdamW.weight_decay=0.1", "--set", "PsiLogic.weight_decay=0.2"]
    text = script(capsys, "tiny.toml", *words, "--output-dir", 'out put "ö"', "--trial-timeout", "60", "--tensorboard")
    start(folder, text, 0, "exit 0", SLURM_CPUS_PER_TASK="3").wait(10)
    assert (folder / "said").read_text().splitlines() == [
        str(folder), "-m", "fairbench", "run", "--workers", "3", "--suite=tiny.toml", '--output-dir=out put "ö"',
        "--optimizers=AdamW,PsiLogic", "--set=AdamW.weight_decay=0.1", "--set=PsiLogic.weight_decay=0.2",
        "--tensorboard", "--offline", "--trial-timeout=60.0",
    ]  # fmt: skip


def test_a_job_with_gpus_uses_all_of_them(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(folder / "driver"))
    text = script(capsys, "tiny.toml", "--gres", "gpu:2", "--trials-per-gpu", "2", "--output-dir", "100%")
    start(folder, text, 0, "exit 0", SLURM_GPUS_ON_NODE="2").wait(10)
    said = (folder / "said").read_text().splitlines()
    assert said[4:6] == ["--devices", "0,1"]
    assert {"--device=cuda", "--trials-per-gpu=2"} < {*said}


def test_on_a_ray_cluster_the_cores_of_the_job_are_no_number_of_trials(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(folder / "driver"))
    start(folder, script(capsys, "tiny.toml", "--ray", "node:6379"), 0, "exit 0", SLURM_CPUS_PER_TASK="3").wait(10)
    assert (folder / "said").read_text().splitlines()[4:] == ["--suite=tiny.toml", "--offline", "--ray=node:6379"]


def test_sbatch_is_asked_for_what_was_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--array", "4", "--gres", "gpu:1", "--time", "2:00:00", "--mem", "16G", "--sbatch=--account=physics"]
    lines = script(capsys, "tiny.toml", *asked, "--output-dir", "100%").splitlines()
    assert [line for line in lines if line.startswith("#SBATCH")] == [
        '#SBATCH --job-name="fairbench-tiny"',
        '#SBATCH --array="0-3"',
        '#SBATCH --gres="gpu:1"',
        '#SBATCH --mem="16G"',
        '#SBATCH --time="2:00:00"',
        f'#SBATCH --output="{folder}/100%%/slurm/%A_%a.log"',
        '#SBATCH --open-mode="append"',
        '#SBATCH --signal="B:USR1@180"',
        "#SBATCH --requeue",
        "#SBATCH --account=physics",
    ]
    assert (folder / "100%" / "slurm").is_dir()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["absent.toml"], "absent.toml"),
        (["tiny.toml", "--optimizers", "Adam W"], "Adam W"),
        (["tiny.toml", "--workers", "-1"], "--workers must be at least 0"),
        (["tiny.toml", "--array", "0"], "--array must be at least 1"),
        (["tiny.toml", "--sbatch", "account=physics"], "--sbatch takes an option"),
        (["tiny.toml", "--mem", "16G\n#SBATCH --x"], "options of sbatch are single lines"),
        (["tiny.toml", "--gres", "gpu:1", "--device", "cpu"], "--device cpu would leave idle"),
        (["tiny.toml", "--output-dir", "tiny.toml"], "choose another --output-dir"),
    ],
)
def test_what_is_wrong_is_said_now_and_not_in_the_queue(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    assert cli.main(["slurm", *words]) == 2
    said = capsys.readouterr()
    assert complaint in said.err
    assert not said.out
    assert not (folder / "results").exists()
