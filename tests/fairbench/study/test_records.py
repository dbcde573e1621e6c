"""The store: a record is complete or absent, and damage is noticed."""

import errno
import hashlib
import json
import math
import os
import re
import tempfile
import time
from dataclasses import replace
from functools import reduce

import pytest
from fabricated import Records, edited, sealed, study

from fairbench.common.errors import UsageError
from fairbench.common.files import write_atomically
from fairbench.common.hashing import canonical_json
from fairbench.study.plan import arms
from fairbench.study.record import Error, Record, Series, WholeRecord, failed
from fairbench.study.records import Store
from fairbench.study.snapshot import Snapshot
from fairbench.study.trial_spec import TrialSpec


@pytest.fixture
def spec(tiny_study):
    return arms(tiny_study, lambda spec: None)[0].sweep[0]


@pytest.fixture
def record(spec):
    observed = replace(spec, optimizer=replace(spec.optimizer, name="PsiLogic"))
    return edited(Records().record(observed, 0.5), "id", spec.id)


def test_a_record_is_read_as_it_was_written(tmp_path, spec, record):
    """Every number bit by bit, by another process too."""
    odd = (0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0, 1e16, 123456789.12345679)
    record = edited(record, "details.loss_curve", Series(range(6), {"loss": odd}))
    store = Store(tmp_path / "study")
    assert store.read(spec, WholeRecord) is None
    assert store.write(spec, record)
    read = store.read(spec, WholeRecord)
    assert read == record
    assert [*map(float.hex, read.details.loss_curve.values["loss"])] == [*map(float.hex, odd)]
    brief = {name: getattr(record, name) for name in Record.__struct_fields__}
    assert store.read(spec, Record) == Record(**brief)
    line, checksum = store.path(spec.id).read_bytes().splitlines()
    assert hashlib.sha256(line).hexdigest() == checksum.decode()
    assert json.loads(line)["spec"] == spec.as_stored


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_never_written(tmp_path, spec, record, number):
    with pytest.raises(ValueError, match="not JSON compliant"):
        Store(tmp_path).write(spec, edited(record, "result.clip_rate", number))
    assert not (tmp_path / "trials").exists()


def test_an_error_that_names_an_undecodable_path_can_be_read(tmp_path, spec):
    message = f"no such file: {os.fsdecode(b'data-' + bytes([0xFF]))}"
    store = Store(tmp_path)
    store.write(spec, failed(spec, "OSError", message, ""))
    assert store.read(spec, WholeRecord).error == Error("OSError", message, "")


def changed(text, old, new):
    """The content of a record with another text in its JSON, with the right checksum."""
    return sealed(text.splitlines()[0].replace(old, new))


def without(text, path):
    """The content of a record without the value at a path, with the right checksum."""
    values = json.loads(text.splitlines()[0])
    *parents, key = path.split(".")
    del reduce(lambda part, name: part[name], parents, values)[key]
    return sealed(json.dumps(values))


CHECKSUM = "its checksum does not match"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text[: len(text) // 2], CHECKSUM),
        (lambda text: text[:-1], CHECKSUM),
        (lambda text: "", CHECKSUM),
        (lambda text: text.replace("0.5", "0.4"), CHECKSUM),
        (lambda text: sealed("[]"), "Expected `object`, got `array`"),
        (lambda text: sealed('{"other": ' + "[" * 2000 + "]" * 2000 + "}"), "nested more than 64 levels deep"),
        (lambda text: changed(text, "0.25", "NaN"), "NaN is no number of JSON"),
        (lambda text: changed(text, "0.25", '"0.25"'), "Expected `float`, got `str` - at `$.result"),
        (lambda text: changed(text, "[5,10]", "[5,10,15]"), "has a value after each of 3 steps"),
        (lambda text: changed(text, "[5,10]", f"[5,{1 << 64}]"), "a step is too large"),
        (lambda text: changed(text, '"id":"', '"id":"0'), "it is the record of another trial"),
        (lambda text: without(text, "status"), "missing required field `status`"),
        (lambda text: without(text, "result.hashes.noise"), "missing required field `noise` - at `$.result.hashes`"),
        (lambda text: without(text, "cost"), "it is finished, and its cost is missing"),
        (lambda text: without(text, "result.final.val"), "its final metrics are missing"),
        (lambda text: without(text, "result.final.val.loss"), "its metrics are accuracy, and not accuracy, loss"),
        (lambda text: json.dumps(json.loads(text.splitlines()[0]), indent=1), "of an earlier version of fairbench"),
    ],
)
def test_a_damaged_record_is_noticed_and_left_unchanged(tmp_path, spec, record, damage, reason):
    store = Store(tmp_path)
    store.write(spec, record)
    broken = damage(store.path(spec.id).read_text())
    store.path(spec.id).write_text(broken)
    read = store.read(spec, WholeRecord, ["accuracy", "loss"])
    assert (read.status, read.result, read.is_damaged) == ("failed", None, True)
    assert re.match(rf"damaged record .*{spec.id}\.json .*delete that file", read.error.message)
    assert reason in read.error.message
    assert store.path(spec.id).read_text() == broken


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
    failed_record = failed(spec, "ValueError", "", "")
    assert store.write(spec, failed_record)
    assert store.checkpoint(spec.id).exists()  # the next attempt resumes from it
    before = store.stamp(spec.id)
    assert store.write(spec, record)
    assert store.stamp(spec.id) != before
    assert not store.checkpoint(spec.id).exists()
    assert not [file for file in half_written if file.exists()]
    before = store.path(spec.id).read_bytes()
    assert not store.write(spec, failed_record)
    assert not store.write(spec, edited(record, "cost.steps", 7))
    assert store.path(spec.id).read_bytes() == before
    store.path(spec.id).write_text("{")  # damaged meanwhile
    assert store.write(spec, record)
    assert store.path(spec.id).read_bytes() == before


def test_leftovers_of_killed_drivers_are_cleared(tmp_path, spec, record, monkeypatch):
    store = Store(tmp_path)
    store.prepare()
    store.write(spec, record)
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


def test_ids_are_the_sha256_of_the_whole_spec(spec):
    for trial in (spec, *spec.with_seeds([7, 8])):
        assert trial.text == canonical_json(trial.to_json())
        assert trial.id == hashlib.sha256(trial.text.encode()).hexdigest()[:20]
        assert TrialSpec.from_json(trial.as_stored).id == trial.id


def test_a_refreshed_snapshot_reads_new_and_failed_records(tmp_path, monkeypatch):
    made = study(("vit",))
    store = Store(tmp_path)
    records = Records(made, PsiLogic=[0.8, "diverged", 0.9], AdamW=[0.7, "failed", 0.75])
    trials = [spec for arm in arms(made, records) for spec in arm.trials]
    late, gone, *others = trials
    for spec in (gone, *others):
        store.write(spec, records(spec))
    first = Snapshot(tmp_path, made.suite.metrics, WholeRecord)
    store.write(late, records(late))
    assert [first(spec) for spec in trials] == [None, *map(records, (gone, *others))]
    assert first(others[0]).environment is first(others[1]).environment  # one for many, as the memory is small
    store.path(gone.id).unlink()
    read = list[str]()
    real = Store.read
    monkeypatch.setattr(Store, "read", lambda store, spec, *how: read.append(spec.id) or real(store, spec, *how))
    second = first.refreshed()
    assert [second(spec) for spec in trials] == [records(late), None, *map(records, others)]
    (lost,) = (spec.id for spec in trials if records(spec).status == "failed")
    assert sorted(read) == sorted([late.id, lost])
