"""Prepared arrays: they are read-only, and damage and edits are noticed."""

import os
from dataclasses import dataclass

import numpy as np
import pytest
from small_cifar import check_data, cifar, suite_of_cifar

from fairbench.cli.main import main
from fairbench.common.errors import UsageError
from fairbench.data.dataset_config import dataset_config
from fairbench.data.prepared import HASHED, content_sha256, sealed

pytestmark = pytest.mark.xdist_group("datasets")


def test_arrays_are_read_only_and_determine_the_fingerprint(tmp_path, folder):
    data = dataset_config("cifar100").prepared(tmp_path)
    assert isinstance(data.array("train"), np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        data.array("train")[0] = 0

    relicensed = {**data.manifest, "license": "another", "versions": {}}
    (folder / "manifest.json").write_text(sealed(relicensed))
    assert dataset_config("cifar100").prepared(tmp_path).fingerprint == data.fingerprint

    arrays = data.manifest["arrays"]
    other_values = {**arrays["val"], "sha256": "0" * 64}
    changed = {**data.manifest, "arrays": {**arrays, "val": other_values}}
    (folder / "manifest.json").write_text(sealed(changed))
    assert dataset_config("cifar100").prepared(tmp_path).fingerprint != data.fingerprint


@dataclass
class Damage:
    """A change of the content of one file, and the complaint about it.

    Attributes:
        name: what was done.
        file: the changed file.
        complaint: a regular expression.
        change: from the bytes of the file to others; None to delete it.
        change_array: from the array in the file to another, in place of `change`.
    """

    name: str
    file: str
    complaint: str
    change: object = None
    change_array: object = None

    def do(self, folder):
        path = folder / self.file
        if self.change_array:
            np.save(path, self.change_array(np.load(path)))
        elif self.change:
            path.write_bytes(self.change(path.read_bytes()))
        else:
            path.unlink()


def replaced(old, new):
    """A function that replaces bytes by others."""
    return lambda data: data.replace(old, new)


DEEP = b"[" * 2000 + b"]" * 2000
WITHOUT_FACTS = sealed({"format": 1, "arrays": []}).encode()
DAMAGED_ARRAYS = [
    Damage("an array cut off", "val.npy", r"val\.npy is damaged", change=lambda data: data[:-1]),
    Damage("a longer array", "val.npy", r"val\.npy is damaged", change=lambda data: data + b"!"),
    Damage("fewer rows", "val.npy", r"val\.npy is damaged", change_array=lambda array: array[1:]),
    Damage(
        "another dtype",
        "val_labels.npy",
        r"val_labels\.npy is damaged",
        change_array=lambda array: array.astype(np.uint64),
    ),
    Damage(
        "another order",
        "train.npy",
        r"train\.npy is damaged: it contains .* in Fortran order",
        change=replaced(b"'fortran_order': False", b"'fortran_order': True "),
    ),
    Damage("no array", "test.npy", r"test\.npy is damaged"),
]
EDITED_MANIFESTS = [
    Damage(
        "another format",
        "manifest.json",
        "has format 0, and this fairbench reads format 1",
        change=replaced(b'"format": 1', b'"format": 0'),
    ),
    Damage(
        "an edited manifest",
        "manifest.json",
        "manifest.json is damaged .*its checksum does not match",
        change=replaced(b'"verified": true', b'"verified": false'),
    ),
]
BROKEN_MANIFESTS = [
    Damage("half a manifest", "manifest.json", r"manifest\.json is damaged \(", change=lambda data: data[:-9]),
    Damage("no UTF-8", "manifest.json", r"manifest\.json is damaged \(.*decode", change=lambda data: b"\xff" + data),
    Damage(
        "deep lists",
        "manifest.json",
        r"manifest\.json is damaged \(it is nested more than 64 levels",
        change=lambda data: DEEP,
    ),
    Damage(
        "missing facts",
        "manifest.json",
        r"manifest\.json is damaged \(\w+ is missing",
        change=lambda data: WITHOUT_FACTS,
    ),
    Damage(
        "no table",
        "manifest.json",
        r"manifest\.json is damaged \(it must be a table",
        change=lambda data: b"[1]",
    ),
    Damage("no manifest", "manifest.json", "there is no "),
]


@pytest.mark.parametrize("damage", DAMAGED_ARRAYS + EDITED_MANIFESTS + BROKEN_MANIFESTS, ids=lambda damage: damage.name)
def test_damage_is_noticed_when_data_are_opened_and_repaired(tmp_path, folder, damage):
    fingerprint = dataset_config("cifar100").prepared(tmp_path).fingerprint
    damage.do(folder)
    with pytest.raises(UsageError, match=damage.complaint) as raised:
        dataset_config("cifar100").prepared(tmp_path)
    assert f"fairbench data download --data-root {tmp_path} --dataset cifar100" in str(raised.value)
    assert main(["data", "verify", "--data-root", str(tmp_path)]) == 1
    assert cifar("prepare", tmp_path) == 0
    assert dataset_config("cifar100").prepared(tmp_path).fingerprint == fingerprint


@pytest.mark.parametrize("read_only", [False, True])
def test_a_run_notices_edited_labels_and_they_are_prepared_again(tmp_path, folder, monkeypatch, read_only):
    """Content is hashed once; then size and times are enough, unless the folder cannot keep them."""
    suite = suite_of_cifar()
    if read_only:
        (folder / HASHED).mkdir()  # no file can be written there
    hashed = []

    def counted(path):
        hashed.append(path.name)
        return content_sha256(path)

    with monkeypatch.context() as patch:
        patch.setattr("fairbench.data.prepared.content_sha256", counted)
        check_data(suite, tmp_path)
        check_data(suite, tmp_path)
    assert len(hashed) == (12 if read_only else 6)

    labels = folder / "train_labels.npy"
    times = labels.stat()
    np.save(labels, np.full_like(np.load(labels), 7))
    os.utime(labels, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(UsageError, match=r"train_labels\.npy has sha256 .*download --data-root .* --dataset cifar100"):
        check_data(suite, tmp_path)
    assert cifar("prepare", tmp_path) == 0
    check_data(suite, tmp_path)
