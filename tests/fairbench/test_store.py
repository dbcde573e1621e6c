"""The store: a record is complete or not there, and damage is noticed."""

import errno
import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairbench.errors import UsageError
from fairbench.plan import Study, arms
from fairbench.spec import TrialSpec
from fairbench.store import Store, write_atomically


@pytest.fixture
def spec(tiny_study: Study) -> TrialSpec:
    return arms(tiny_study, lambda spec: None)[0].sweep[0]


@pytest.fixture
def record(spec: TrialSpec) -> dict[str, Any]:
    return {"id": spec.id, "spec": spec.to_json(), "status": "finished", "result": {"x": [0.1, 1e-300]}}


def test_a_record_comes_back_as_it_was_written(tmp_path: Path, spec: TrialSpec, record: dict[str, Any]) -> None:
    store = Store(tmp_path / "study")
    assert store.read(spec) is None
    store.write(record)
    assert store.read(spec) == json.loads(json.dumps(record))


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: text.replace("finished", "diverged"),
        lambda text: text.replace("0.1", "0.2"),
        lambda text: "[]",
        lambda text: json.dumps({k: v for k, v in json.loads(text).items() if k != "sha256"}),
    ],
)
def test_damage_is_noticed_and_left_as_it_is(tmp_path: Path, spec: TrialSpec, record: Any, damage: Any) -> None:
    store = Store(tmp_path)
    store.write(record)
    broken = damage(store.path(spec).read_text())
    store.path(spec).write_text(broken)
    with pytest.raises(UsageError, match=rf"damaged record .*{spec.id}\.json .*delete that file"):
        store.read(spec)
    assert store.path(spec).read_text() == broken


def test_what_a_spec_did_not_say_when_older_records_were_written_is_no_part_of_its_id(spec: TrialSpec) -> None:
    assert "needs" not in spec.text  # it came later, and most optimizers need nothing
    assert TrialSpec.from_json(spec.as_stored) == spec
    asking = replace(spec, optimizer=replace(spec.optimizer, needs=("modes",)))
    assert asking.id != spec.id
    assert list(TrialSpec.from_json(asking.as_stored).optimizer.needs) == ["modes"]


def test_a_full_disk_keeps_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="the disk is full"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_really_full_disk(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        path = tmp_path / "file"
        write_atomically(path, "old")
        with pytest.raises(UsageError, match="the disk is full"):
            write_atomically(path, "new" * 20_000)
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write"):
        write_atomically(tmp_path / "file" / "record", "new")
    with (
        pytest.raises(UsageError, match=r"cannot write to .*; choose another --output-dir"),
        Store(tmp_path / "file" / "study").locked(),
    ):
        pass


def test_two_runs_cannot_share_a_directory(tmp_path: Path) -> None:
    with (
        Store(tmp_path).locked(),
        pytest.raises(UsageError, match="another fairbench run is writing"),
        Store(tmp_path).locked(),
    ):
        pass
    with Store(tmp_path).locked():
        pass


def test_leftovers_of_a_killed_write_are_cleared(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.trials.mkdir()
    for name, age in (("abandoned", 3600), ("being-written", 0)):
        leftover = store.trials / f".{name}.tmp"
        leftover.write_text("{")
        os.utime(leftover, (time.time() - age,) * 2)
    with store.locked():
        assert [path.name for path in store.trials.iterdir()] == [".being-written.tmp"]
