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

from fairbench.common.errors import UsageError
from fairbench.common.files import write_atomically
from fairbench.study.plan import Study, arms
from fairbench.study.records import Store
from fairbench.study.trial_spec import TrialSpec


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


def test_an_error_that_names_a_path_with_bytes_of_no_text_comes_back(tmp_path: Path, spec: Any, record: Any) -> None:
    store, error = Store(tmp_path), f"no such file: {os.fsdecode(b'data-' + bytes([0xFF]))}"
    store.write({**record, "status": "failed", "error": error})
    found = store.read(spec)
    assert found is not None
    assert found["error"] == error


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
    assert '"needs"' not in spec.text  # it came later, and most optimizers need nothing
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
    with pytest.raises(UsageError, match=r"cannot write to .*; choose another --output-dir"):
        Store(tmp_path / "file" / "study").prepare()


def test_an_archive_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    Store(tmp_path).prepare()
    if os.geteuid() == 0:
        bind = ["mount", "--bind", "-o", "ro", str(tmp_path), str(tmp_path)]
        if subprocess.run(bind, capture_output=True).returncode:
            pytest.skip("mounting a folder read-only needs root of the machine")
    else:
        (tmp_path / "trials").chmod(0o555)
    try:
        with pytest.raises(
            UsageError, match=r"cannot write to .*(Read-only|Permission).*; choose another --output-dir"
        ):
            Store(tmp_path).prepare()
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", str(tmp_path)], check=True)
        else:
            (tmp_path / "trials").chmod(0o755)


def test_of_two_records_of_a_trial_the_first_counts(tmp_path: Path, spec: TrialSpec, record: dict[str, Any]) -> None:
    store = Store(tmp_path)
    store.prepare()
    store.checkpoint(spec.id).write_text("weights")
    half_written = store.checkpoints / f".{spec.id}.pt.x.tmp"
    half_written.write_text("wei")
    assert store.write({**record, "status": "failed", "result": None})
    assert store.checkpoint(spec.id).exists()  # it goes on from there when it is tried again
    failed = store.stamp(spec)
    assert store.write(record)
    assert store.stamp(spec) != failed
    assert not store.checkpoint(spec.id).exists()
    assert not half_written.exists()
    before = store.path(spec).read_bytes()
    assert not store.write({**record, "status": "failed", "result": None})
    assert not store.write({**record, "cost": {"seconds": 7}})
    assert store.path(spec).read_bytes() == before
    store.path(spec).write_text("{")  # damaged meanwhile
    assert store.write(record)
    assert store.path(spec).read_bytes() == before


def test_leftovers_of_killed_drivers_are_cleared(
    tmp_path: Path, spec: TrialSpec, record: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    store.prepare()
    store.write(record)
    for name, age in (("abandoned", 3600), ("being-written", 0)):
        leftover = store.trials / f".{name}.tmp"
        leftover.write_text("{")
        os.utime(leftover, (time.time() - age,) * 2)
    monkeypatch.setattr(time, "time", lambda: 4e9)  # what counts is the clock of the disk
    for trial in (spec.id, "unfinished"):
        store.checkpoint(trial).touch()
        store.shared(trial).touch()
        for claim in (trial, f"{trial}.1"):
            (tmp_path / "claims" / claim).touch()
    store.prepare()
    names = {path.name for path in tmp_path.glob("*/*") if path.is_file()}
    left = {"unfinished", "unfinished.1", "unfinished.pt", "unfinished.shared", ".being-written.tmp"}
    assert names == {f"{spec.id}.json", *left}
