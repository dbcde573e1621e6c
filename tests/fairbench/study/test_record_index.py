"""The index agrees with the records, whatever happens to either."""

import hashlib
import json
import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from fabricated import Records, finals, history, study

from fairbench.common.errors import UsageError
from fairbench.common.hashing import canonical_json
from fairbench.report import write_report
from fairbench.runner.progress.watch import Watcher
from fairbench.study import snapshot
from fairbench.study.history import write_history
from fairbench.study.plan import arms
from fairbench.study.record_index import INDEX_FILE, reduced
from fairbench.study.records import Store
from fairbench.study.snapshot import Snapshot, open_study
from fairbench.study.trial_spec import TrialSpec


class Study:
    """A study of one arena with all its records in a directory."""

    def __init__(self, directory):
        self.study = study(("vit",))
        scores = {"PsiLogic": [0.8, "diverged", 0.9], "AdamW": [0.7, "failed", 0.75]}
        self.made = Records(finals(self.study, **scores))
        self.trials = [spec for arm in arms(self.study, self.made) for spec in arm.trials]
        self.store, self.file = Store(directory), directory / INDEX_FILE
        for spec in self.trials:
            self.store.write(self.made(spec))
        write_history(directory, history(self.study))

    def by_snapshot(self):
        """The reduced records, and the number of files that a snapshot read for them."""
        snapshot = Snapshot(self.store.directory)
        records = [snapshot.reduced(spec) for spec in self.trials]
        snapshot.write_index()
        return [records, snapshot._index.added]

    def truth(self):
        records = [self.store.read(spec) for spec in self.trials]
        return [reduced(record) for record in records if record]


@pytest.fixture
def held(tmp_path, monkeypatch):
    """A study whose index was written."""
    monkeypatch.setattr(snapshot, "WORTHWHILE", 1)
    made = Study(tmp_path)
    assert made.by_snapshot() == [made.truth(), len(made.trials)]
    return made


def test_the_index_agrees_with_the_records_and_none_is_read(held):
    before = held.file.read_bytes()
    assert held.by_snapshot() == [held.truth(), 0]
    assert held.file.read_bytes() == before
    assert {record["status"] for record in held.truth()} == {"finished", "diverged", "failed"}


def test_ids_are_the_sha256_of_the_whole_spec(held):
    for spec in held.trials:
        assert spec.text == canonical_json(spec.to_json())
        assert spec.id == hashlib.sha256(spec.text.encode()).hexdigest()[:20]
        assert TrialSpec.from_json(spec.as_stored).id == spec.id
    for arm in arms(held.study, held.made):
        assert [*arm.sweep.ids, *arm.final.ids] == [spec.id for spec in arm.trials]


def test_a_refreshed_snapshot_reads_new_and_failed_records(held):
    held.file.unlink()  # so that every record is read
    first = Snapshot(held.store.directory)
    assert all(first.reduced(spec) for spec in held.trials)
    (failed,) = (spec.id for spec in held.trials if held.made(spec)["status"] == "failed")
    held.store.path(gone := held.trials[0]).unlink()
    second = first.refreshed()
    assert second.reduced(gone) is None
    assert [second.reduced(spec) for spec in held.trials[1:]] == held.truth()
    assert set(second._index._rows) == {failed}


def flipped(content):
    at = content.index(b'"finished"') + 3
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def of_another_version(content):
    head, _, body = content.partition(b"\n")
    return json.dumps({**json.loads(head), "version": 0}).encode() + b"\n" + body


@pytest.mark.parametrize(
    "damage", [flipped, of_another_version, lambda x: x[: len(x) // 2], lambda x: b"", lambda x: b"\xff\n{}", None]
)
def test_a_damaged_index_is_made_again(held, damage):
    before = held.file.read_bytes()
    if damage:
        held.file.write_bytes(damage(before))
    else:
        held.file.unlink()
    assert held.by_snapshot() == [held.truth(), len(held.trials)]
    assert held.file.read_bytes() == before


def changed(held, spec):
    """Replace a record by a different one with as many bytes."""
    record = held.made(spec)
    record["result"]["steps"] = 99
    held.store.path(spec).unlink(missing_ok=True)  # otherwise the first record would stay
    held.store.write(record)


def test_a_record_of_equal_size_and_time_is_noticed(held):
    path = held.store.path(spec := held.trials[0])
    before = path.stat()
    changed(held, spec)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert held.by_snapshot() == [held.truth(), 1]
    assert held.truth()[0]["result"]["steps"] == 99


def test_a_damaged_record_of_equal_size_and_time_is_noticed(held):
    path = held.store.path(spec := held.trials[0])
    before, text = path.stat(), path.read_text()
    path.write_text(text.replace('"finished"', '"diverged"'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    records = Snapshot(held.store.directory)
    assert [record["status"] for record in (records(spec), records.reduced(spec))] == ["failed", "failed"]
    (message,) = records.damaged
    assert re.match(rf"damaged record .*{spec.id}\.json .*delete that file", message)


def test_a_deleted_record_is_forgotten(held):
    held.store.path(held.trials[0]).unlink()
    changed(held, held.trials[1])  # so that there is something to write
    records, read = held.by_snapshot()
    assert (records[0], read) == (None, 1)
    assert held.trials[0].id not in held.file.read_text()


def test_a_record_under_the_name_of_another_trial_is_an_error(held):
    one, other = held.trials[:2]
    held.store.path(one).write_bytes(held.store.path(other).read_bytes())
    assert "it is the record of another trial" in Snapshot(held.store.directory)(one)["error"]["message"]


def test_a_read_only_folder_can_be_read(held, monkeypatch):
    held.file.unlink()

    def read_only(*_):
        raise UsageError("cannot write: Read-only file system")

    monkeypatch.setattr(snapshot, "write_atomically", read_only)
    assert held.by_snapshot() == [held.truth(), len(held.trials)]
    assert not held.file.exists()


def test_concurrent_writers_leave_a_whole_index(held):
    held.file.unlink()
    with ThreadPoolExecutor(4) as writers:
        list(writers.map(lambda _: held.by_snapshot(), range(4)))
    assert held.by_snapshot() == [held.truth(), 0]
    os.umask(umask := os.umask(0))
    assert stat.S_IMODE(held.file.stat().st_mode) == 0o666 & ~umask


def test_a_record_that_is_newer_than_the_index_is_read(held):
    early = Snapshot(held.store.directory)
    assert early.reduced(held.trials[1])
    changed(held, held.trials[0])
    early._index.added = 1
    early.write_index()
    assert held.by_snapshot() == [held.truth(), 1]


def test_report_status_and_count_are_the_same_with_an_index_and_without(held, tmp_path, monkeypatch):
    monkeypatch.setattr("fairbench.report.draw_figures", lambda *_: [])

    def everything(name):
        plans, lookup = open_study(held.store.directory)
        write_report(plans, lookup, output := tmp_path / name)
        files = {path.relative_to(output): path.read_bytes() for path in output.rglob("*") if path.is_file()}
        return [files, Watcher(held.store.directory).status().summary, Snapshot(held.store.directory).final_trials()]

    with_index = everything("with")
    held.file.unlink()
    assert with_index == everything("without")
    assert with_index[-1] == 9


def test_a_few_records_are_not_worth_an_index(tmp_path):
    assert Study(tmp_path).by_snapshot()[1] < snapshot.WORTHWHILE
    assert not (tmp_path / INDEX_FILE).exists()
