"""Preparations that are killed, run at the same time, or have too little space."""

import shutil
import signal
import subprocess
import sys

import archives
import pytest
from small_cifar import MEMBERS, cifar, of_cifar

from fairbench.cli.main import main
from fairbench.common.errors import UsageError
from fairbench.data.dataset_config import dataset_config

pytestmark = pytest.mark.xdist_group("datasets")

PREPARE = """
import pathlib
from fairbench.cli.main import main
from fairbench.data.preparation import hub
hub.HASHES = pathlib.Path({hashes!r})
raise SystemExit(main({words!r}))
"""
"""Prepares data with known hashes of the hub's files."""


def prepared_by(code, data_root, mirror):
    """The command that prepares CIFAR-100 from a mirror after some code."""
    words = of_cifar("prepare", data_root, "--hub", str(mirror))
    prepare = PREPARE.format(hashes=str(mirror / "SHA256SUMS"), words=words)
    return [sys.executable, "-c", f"{code}\n{prepare}"]


KILLED = """
import os, signal
from fairbench.data.preparation import staging
append = staging.GrowingArray.append
left = 4 * (33 + 6) + 5
def dying(self, rows):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    append(self, rows)
staging.GrowingArray.append = dying
"""
"""Dies when it writes the test split."""


def reused_files(output):
    """The files that a preparation says it has reused."""
    for line in output.splitlines():
        if "reused from an interrupted" in line:
            return line.partition(": ")[2].split(", ")
    raise AssertionError(output)


def names_in(folder):
    return {path.name for path in folder.iterdir()}


def test_a_killed_preparation_resumes(tmp_path, mirror, capsys):
    """Arrays that were made from different files are not reused."""
    done = subprocess.run(prepared_by(KILLED, tmp_path, mirror), capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "prepared" / "cifar100").exists()
    with pytest.raises(UsageError, match="cifar100 is prepared by: fairbench data download"):
        dataset_config("cifar100").prepared(tmp_path)

    shutil.copytree(tmp_path / "prepared", tmp_path / "different" / "prepared")
    archives.write_tar(tmp_path / "different" / "cifar-100-python.tar.gz", MEMBERS)
    assert cifar("prepare", tmp_path / "different", "--unverified") == 0
    assert "reused" not in capsys.readouterr().out

    damaged = tmp_path / "prepared" / ".cifar100.part" / "train.npy"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert cifar("prepare", tmp_path, "--hub", str(mirror)) == 0
    reused = reused_files(capsys.readouterr().out)
    assert "staged-images-train.npy" in reused
    assert "val.npy" in reused
    assert "test.npy" not in reused
    assert "train.npy" not in reused

    assert cifar("prepare", tmp_path / "calm", "--hub", str(mirror)) == 0
    calm = dataset_config("cifar100").prepared(tmp_path / "calm")
    disturbed = dataset_config("cifar100").prepared(tmp_path)
    assert calm.manifest == disturbed.manifest
    assert names_in(disturbed.folder) == names_in(calm.folder)
    assert not (tmp_path / "prepared" / ".cifar100.part").exists()


WAITING = """
import pathlib, time
from fairbench.data.preparation import staging
ensure = staging.StagingFolder.ensure
def slow(self, names, work):
    print("begun", flush=True)
    while not pathlib.Path({go!r}).exists():
        time.sleep(0.01)
    ensure(self, names, work)
staging.StagingFolder.ensure = slow
"""


def test_two_preparations_wait_for_each_other(tmp_path, mirror):
    code = WAITING.format(go=str(tmp_path / "go"))
    command = prepared_by(code, tmp_path, mirror)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout
        assert any("begun" in line for line in first.stdout)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as second:
            assert second.stdout
            waiting = second.stdout.readline()
            (tmp_path / "go").touch()
            assert "another process is preparing it; waiting" in waiting
            assert "is already prepared" in second.stdout.read()
        first.stdout.read()
    assert (first.returncode, second.returncode) == (0, 0)
    assert main(["data", "verify", "--data-root", str(tmp_path)]) == 0


def test_too_little_disk_space_stops_the_preparation(tmp_path, archive, monkeypatch, capsys):
    need = 2 * 39 * (3 * 32 * 32 + 16)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=need - 1))
    assert cifar("prepare", tmp_path) == 2
    assert f"cannot prepare cifar100: it needs 241 kB in {tmp_path}" in capsys.readouterr().err
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=need))
    assert cifar("prepare", tmp_path) == 0
