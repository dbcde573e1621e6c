"""The script for sbatch, run by a shell with a mock of Slurm; docs/cluster.md describes a real one."""

import os
import signal
import subprocess
import sys
import time

import pytest

from fairbench.cli import main as cli

DRIVER = """\
#!/bin/bash
printf '%s\\n' "$PWD" "$@" > arguments
trap 'echo "$BASHPID" > warned; exit {code}' USR1 TERM
touch ready
{rest}
"""
WAITS = "for turn in {1..1000}; do sleep 0.02; done"


@pytest.fixture
def folder(tmp_path, tiny_file, monkeypatch):
    """A working directory with a difficult name and the tiny suite."""
    folder = tmp_path / "ein Ordner 'für' $HOME"
    folder.mkdir()
    tiny_file.rename(folder / "tiny.toml")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "executable", str(folder / "driver"))
    return folder


def script(capsys, *words):
    assert cli.main(["slurm", *words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def start(folder, text, code, rest=WAITS, **environment):
    """Run a script with a driver that records its arguments and waits for a signal, and a mock of scontrol."""
    programs = {"driver": DRIVER.format(code=code, rest=rest), "scontrol": '#!/bin/bash\necho "$@" >> requeued\n'}
    for name, program in programs.items():
        (folder / name).write_text(program)
        (folder / name).chmod(0o755)
    (folder / "job.sh").write_text(text)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    names = {**os.environ, "PATH": path, "SLURM_JOB_ID": "17", **environment}
    job = subprocess.Popen(["bash", "job.sh"], cwd=folder, env=names)
    while not (folder / "ready").exists():
        assert job.poll() is None
        time.sleep(0.01)
    return job


@pytest.fixture
def job(folder, capsys):
    return script(capsys, "tiny.toml", "--array", "2")


@pytest.mark.parametrize(
    ("sent", "code", "requeued"),
    [(signal.SIGUSR1, 75, True), (signal.SIGTERM, 75, False), (signal.SIGUSR1, 0, False), (signal.SIGUSR1, 1, False)],
)
def test_a_signalled_driver_ends_and_is_requeued(folder, job, sent, code, requeued):
    running = start(folder, job, code)
    running.send_signal(sent)
    assert running.wait(10) == code
    assert (folder / "warned").exists()
    assert (folder / "requeued").exists() == requeued
    if requeued:
        assert (folder / "requeued").read_text() == "requeue 17\n"


@pytest.mark.parametrize(("code", "requeued"), [(0, False), (137, False), (75, True)])
def test_the_job_returns_the_code_of_the_driver(folder, job, code, requeued):
    assert start(folder, job, 0, f"exit {code}").wait(10) == code
    assert (folder / "requeued").exists() == requeued


def passed(folder, text, **environment):
    """The working directory and the arguments of the driver of a script."""
    start(folder, text, 0, "exit 0", **environment).wait(10)
    return (folder / "arguments").read_text().splitlines()


def test_options_of_run_are_passed_on_unchanged(folder, capsys):
    words = ["--optimizers", "AdamW,PsiLogic", "--set", "AdamW.weight_decay=0.1", "--set", "PsiLogic.weight_decay=0.2"]
    text = script(capsys, "tiny.toml", *words, "--output-dir", 'out put "ö"', "--trial-timeout", "60", "--timing")
    assert passed(folder, text, SLURM_CPUS_PER_TASK="3") == [
        str(folder), "-m", "fairbench", "run", "--workers", "3", "--suite=tiny.toml",
        "--optimizers=AdamW,PsiLogic", "--set=AdamW.weight_decay=0.1", "--set=PsiLogic.weight_decay=0.2",
        '--output-dir=out put "ö"', "--device=cpu", "--trial-timeout=60.0", "--timing", "--offline",
    ]  # fmt: skip


def test_a_job_uses_its_gpus_or_leaves_places_to_ray(folder, capsys):
    text = script(capsys, "tiny.toml", "--gres", "gpu:2", "--trials-per-gpu", "2", "--output-dir", "100%")
    arguments = passed(folder, text)
    assert arguments[4:6] == ["--gpus", "all"]
    assert {"--device=cuda", "--trials-per-gpu=2"} < {*arguments}
    text = script(capsys, "tiny.toml", "--ray", "node:6379")
    (folder / "ready").unlink()
    arguments = passed(folder, text, SLURM_CPUS_PER_TASK="3")
    assert arguments[4:] == ["--suite=tiny.toml", "--device=cpu", "--offline", "--ray=node:6379"]


def test_only_the_resource_gpu_means_gpus(folder, capsys):
    for gres, device in {"gpu": "cuda", "gpu:h100:1": "cuda", "shard:1,gpu:2": "cuda", "gpux": "cpu"}.items():
        assert f" --device={device} " in script(capsys, "tiny.toml", "--gres", gres), gres


def test_options_of_sbatch_become_directives(folder, capsys):
    words = ["--array", "4", "--gres", "gpu:1", "--time", "2:00:00", "--mem", "16G", "--sbatch=--account=physics"]
    lines = script(capsys, "tiny.toml", *words, "--output-dir", "100%").splitlines()
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
