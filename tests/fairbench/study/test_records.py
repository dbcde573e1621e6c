"""The store: a record is complete or absent, and damage is noticed."""

import errno
import json
import os
import re
import tempfile
import time
from dataclasses import replace

import pytest
from fabricated import Records

from fairbench.common.errors import UsageError
from fairbench.common.files import write_atomically
from fairbench.study.plan import arms
from fairbench.study.records import Store
from fairbench.study.trial_spec import TrialSpec

ERROR = {"type": "ValueError", "message": "", "traceback": ""}
FAILED = {"status": "failed", "result": None, "cost": None, "environment": None, "error": ERROR}


@pytest.fixture
def spec(tiny_study):
    return arms(tiny_study, lambda spec: None)[0].sweep[0]


@pytest.fixture
def record(spec):
    return Records({})(spec)


def test_a_record_is_read_as_it_was_written(tmp_path, spec, record):
    store = Store(tmp_path / "study")
    assert store.read(spec) is None
    store.write(record)
    assert store.read(spec) == json.loads(json.dumps(record))


def test_an_error_that_names_an_undecodable_path_can_be_read(tmp_path, spec, record):
    message = f"no such file: {os.fsdecode(b'data-' + bytes([0xFF]))}"
    store, error = Store(tmp_path), {"type": "OSError", "message": message, "traceback": ""}
    store.write({**record, **FAILED, "error": error})
    assert store.read(spec)["error"] == error


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: text.replace("finished", "diverged"),
        lambda text: text.replace("0.5", "0.4"),
        lambda text: "[]",
        lambda text: json.dumps({k: v for k, v in json.loads(text).items() if k != "sha256"}),
    ],
)
def test_a_damaged_record_is_noticed_and_left_unchanged(tmp_path, spec, record, damage):
    store = Store(tmp_path)
    store.write(record)
    broken = damage(store.path(spec).read_text())
    store.path(spec).write_text(broken)
    read = store.read(spec)
    assert (read["status"], read["result"]) == ("failed", None)
    assert re.match(rf"damaged record .*{spec.id}\.json .*delete that file", read["error"]["message"])
    assert not store.has_ended(spec.id)
    assert store.path(spec).read_text() == broken


def test_a_default_that_is_newer_than_a_record_changes_no_id(spec):
    assert '"needs"' not in spec.text  # it is newer, and most optimizers need nothing
    assert TrialSpec.from_json(spec.as_stored) == spec
    asking = replace(spec, optimizer=replace(spec.optimizer, needs=("modes",)))
    assert asking.id != spec.id
    assert list(TrialSpec.from_json(asking.as_stored).optimizer.needs) == ["modes"]


def test_a_full_disk_keeps_the_old_content(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, "old")

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="the disk is full"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write"):
        write_atomically(tmp_path / "file" / "record", "new")
    with pytest.raises(UsageError, match=r"cannot write to .*; choose another --output-dir"):
        Store(tmp_path / "file" / "study").prepare()


def test_a_read_only_directory_is_named(tmp_path, monkeypatch):
    def read_only(dir):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    with pytest.raises(UsageError, match=r"cannot write to .*: Read-only file system; choose another --output-dir"):
        Store(tmp_path).prepare()


def test_of_two_records_of_a_trial_the_first_counts(tmp_path, spec, record):
    store = Store(tmp_path)
    store.prepare()
    store.checkpoint(spec.id).write_text("weights")
    half_written = [store.checkpoints / f".{spec.id}.{kind}.x.tmp" for kind in ("pt", "shared")]  # by a killed driver
    for file in half_written:
        file.touch()
    failed_record = {**record, **FAILED}
    assert store.write(failed_record)
    assert store.checkpoint(spec.id).exists()  # the next attempt resumes from it
    failed = store.stamp(spec)
    assert store.write(record)
    assert store.stamp(spec) != failed
    assert not store.checkpoint(spec.id).exists()
    assert not [file for file in half_written if file.exists()]
    before = store.path(spec).read_bytes()
    assert not store.write(failed_record)
    assert not store.write({**record, "cost": {"seconds": 7}})
    assert store.path(spec).read_bytes() == before
    store.path(spec).write_text("{")  # damaged meanwhile
    assert store.write(record)
    assert store.path(spec).read_bytes() == before


def test_leftovers_of_killed_drivers_are_cleared(tmp_path, spec, record, monkeypatch):
    store = Store(tmp_path)
    store.prepare()
    store.write(record)
    for name, age in (("abandoned", 3600), ("being-written", 0)):
        leftover = store.trials / f".{name}.tmp"
        leftover.write_text("{")
        os.utime(leftover, (time.time() - age,) * 2)
    monkeypatch.setattr(time, "time", lambda: 4e9)  # the clock of the disk counts
    for trial in (spec.id, "unfinished"):
        store.checkpoint(trial).touch()
        store.shared(trial).touch()
        for claim in (trial, f"{trial}.1"):
            (tmp_path / "claims" / claim).touch()
    store.prepare()
    names = {path.name for path in tmp_path.glob("*/*") if path.is_file()}
    left = {"unfinished", "unfinished.1", "unfinished.pt", "unfinished.shared", ".being-written.tmp"}
    assert names == {f"{spec.id}.json", *left}
