"""Archives of the authors: missing, wrong and hostile ones are refused by name."""

import hashlib
import os
import pickle
from dataclasses import dataclass

import archives
import numpy as np
import pytest
from small_cifar import FACTS, MEMBERS, of_cifar

pytestmark = pytest.mark.xdist_group("datasets")


def test_missing_archives_are_named_with_their_source(tmp_path, command):
    shown = command(*of_cifar("prepare", tmp_path), code=2)
    for word in ("no cifar-100-python.tar.gz in", FACTS.page, f"put it into {tmp_path}", "fairbench data download"):
        assert word in shown
    archives.stories_file(tmp_path / "tinystories" / "TinyStoriesV2-GPT4-train.txt", ["a"])
    said = command("data", "download", "--dataset", "tinystories", "--data-root", str(tmp_path), code=2)
    assert "TinyStoriesV2-GPT4-train.txt is there, but not TinyStoriesV2-GPT4-valid.txt" in said


def cut_off(data):
    return data[:1000]


def changed_at_the_end(data):
    return data[:-1] + b"!"


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (cut_off, "it has 1,000 bytes, expected"),
        (changed_at_the_end, "damaged, incomplete or a different version"),
    ],
)
def test_a_different_file_is_refused_with_both_hashes(tmp_path, archive, command, damage, complaint):
    genuine = archive.read_bytes()
    damaged = damage(genuine)
    archive.write_bytes(damaged)
    shown = command(*of_cifar("prepare", tmp_path), code=2)
    assert complaint in shown
    assert str(archive) in shown
    assert hashlib.sha256(genuine).hexdigest() in shown
    assert hashlib.sha256(damaged).hexdigest() in shown
    assert FACTS.page in shown
    assert not (tmp_path / "prepared" / "cifar100").exists()


class Caller:
    """Calls os.system when it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch called",)


def with_train(data):
    """The members of an archive with another training split."""
    return {**MEMBERS, "cifar-100-python/train": data}


def write_members(members):
    """A function that replaces an archive by one with these members."""

    def write(path):
        archives.write_tar(path, members)

    return write


def cut_to_5000_bytes(path):
    path.write_bytes(path.read_bytes()[:5000])


def write_no_gzip_file(path):
    path.write_bytes(b"PK" * 100)


@dataclass
class BrokenTar:
    name: str
    spoil: object
    complaint: str


CALL = pickle.dumps({"data": Caller()}, 2)
WITHOUT_LABELS = archives.python2_pickle({"data": np.zeros((3, 5))})
WITHOUT_TEST = {name: data for name, data in MEMBERS.items() if "test" not in name}
BROKEN_TARS = [
    BrokenTar(
        name="a pickle that calls a function",
        spoil=write_members(with_train(CALL)),
        complaint="it names posix.system, but only numpy's arrays",
    ),
    BrokenTar(
        name="half a pickle",
        spoil=write_members(with_train(MEMBERS["cifar-100-python/train"][:5000])),
        complaint="train is damaged (",
    ),
    BrokenTar(
        name="no test split",
        spoil=write_members(WITHOUT_TEST),
        complaint="has no cifar-100-python/test: it is a different",
    ),
    BrokenTar(
        name="no labels",
        spoil=write_members(with_train(WITHOUT_LABELS)),
        complaint="is damaged (KeyError: 'fine_labels')",
    ),
    BrokenTar(name="half an archive", spoil=cut_to_5000_bytes, complaint="is damaged (EOFError"),
    BrokenTar(name="no archive", spoil=write_no_gzip_file, complaint="is damaged (ReadError: not a gzip file"),
]


@pytest.mark.parametrize("case", BROKEN_TARS, ids=lambda case: case.name)
def test_hostile_and_broken_tars(tmp_path, archive, command, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    case.spoil(archive)
    shown = command(*of_cifar("prepare", tmp_path, "--unverified"), code=2)
    assert case.complaint in shown
    assert str(archive) in shown
    assert {path.name for path in tmp_path.iterdir()} == {archive.name, "prepared"}


@dataclass
class BrokenZip:
    name: str
    member: str
    data: bytes
    complaint: str


ROOT = "tiny-imagenet-200"
IMAGE = f"{ROOT}/train/n01443537/images/n01443537_0.JPEG"
SMALL = archives.encoded(np.zeros((8, 8, 3), np.uint8), "JPEG")
BROKEN_ZIPS = [
    BrokenZip(
        name="half an image",
        member=IMAGE,
        data=SMALL[:300],
        complaint=f"{IMAGE} is no image, or damaged",
    ),
    BrokenZip(
        name="a small image",
        member=IMAGE,
        data=SMALL,
        complaint=f"{IMAGE} has shape (3, 8, 8), expected (3, 64, 64)",
    ),
    BrokenZip(
        name="a line without a wnid",
        member=f"{ROOT}/val/val_annotations.txt",
        data=b"val_0.JPEG\tn01443537\t0\noops\n",
        complaint="val_annotations.txt, line 2: 'oops' is not the name of an image and a wnid of wnids.txt",
    ),
    BrokenZip(
        name="a list in UTF-16",
        member=f"{ROOT}/wnids.txt",
        data="n01443537".encode("utf-16"),
        complaint="tiny-imagenet-200.zip: wnids.txt is UTF-16",
    ),
]


@pytest.mark.parametrize("case", BROKEN_ZIPS, ids=lambda case: case.name)
def test_broken_zips(tmp_path, command, case):
    images = archives.jpegs(archives.noise(30, 1, (64, 64), 0))
    members = archives.tiny_imagenet_members(images, images[:1], ["n01443537"])
    members[case.member] = case.data
    archives.write_zip(tmp_path / "tiny-imagenet-200.zip", members)
    words = ["--dataset", "tiny-imagenet", "--data-root", str(tmp_path), "--unverified"]
    shown = command("data", "prepare", *words, code=2)
    assert case.complaint in shown
