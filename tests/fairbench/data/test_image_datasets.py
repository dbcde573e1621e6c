"""Published images: each is in one split, with its label, as the archives have it."""

import hashlib
import shutil
import zipfile
from collections import Counter

import archives
import numpy as np
import pytest
from archives import CLASSES
from prepared_data import WNIDS, examples, prepared, truth

from fairbench.common.errors import UsageError
from fairbench.data.datasets.registry import DATASETS
from fairbench.data.loading import load_source

pytestmark = pytest.mark.xdist_group("datasets")


CIFAR_TRAIN = archives.noise(66, 3, (32, 32), 0)
CIFAR_TEST = archives.noise(9, 3, (32, 32), 1)


@pytest.fixture
def cifar(tmp_path, monkeypatch):
    """CIFAR-100, prepared from its archive."""
    members = archives.cifar_members(CIFAR_TRAIN, CIFAR_TEST, CLASSES)
    archives.write_tar(tmp_path / "cifar100" / "cifar-100-python.tar.gz", members)
    archives.register(monkeypatch, "cifar100", tmp_path / "cifar100")
    return prepared(tmp_path, "cifar100")


def test_cifar_is_split_without_loss(tmp_path, cifar):
    assert cifar.array("train").shape == (60, 3, 32, 32)
    assert cifar.array("train").dtype == np.uint8
    assert cifar.array("val_labels").dtype == np.int64
    assert examples(cifar, "train", "val") == truth(CIFAR_TRAIN)
    assert examples(cifar, "test") == truth(CIFAR_TEST)
    assert examples(cifar, "val") != truth(CIFAR_TRAIN[:6])
    assert Counter(cifar.array("val_labels").tolist()) == {0: 2, 1: 2, 2: 2}
    assert cifar.manifest["classes"] == CLASSES
    assert cifar.manifest["counts"]["examples"] == {"train": 60, "val": 6, "test": 9}
    assert cifar.manifest["source"] == "archive"
    assert cifar.manifest["verified"] is True
    assert cifar.manifest["files"][0]["sha256"] == DATASETS["cifar100"].archives[0].sha256
    assert load_source({"source": "cifar100"}, tmp_path).origin == "archive, verified"


def test_an_image_in_several_splits_is_kept_and_noted(tmp_path):
    """As in official splits; its label does not matter."""
    pixels, _ = CIFAR_TRAIN[4]
    test = [*CIFAR_TEST, (pixels, 2), (pixels, 0), CIFAR_TEST[0]]
    archives.write_cifar_hub(tmp_path / "mirror", CIFAR_TRAIN, test)
    data = prepared(tmp_path, "cifar100", tmp_path / "mirror")
    ((pair, count),) = data.manifest["counts"]["shared"].items()
    assert pair in ("test also in train", "test also in val")
    assert count == 2
    loaded = load_source({"source": "cifar100"}, tmp_path)
    assert loaded.origin == "hub, not verified"
    assert loaded.shared == f"images of {pair}: 2"


def test_without_one_image_no_other_moves_between_splits(tmp_path, cifar):
    archives.write_cifar_hub(tmp_path / "mirror", CIFAR_TRAIN[1:], CIFAR_TEST)
    smaller = prepared(tmp_path / "smaller", "cifar100", tmp_path / "mirror")
    moved = examples(smaller, "val") - examples(cifar, "val")
    assert len(moved) <= 1


# Tiny ImageNet


def tiny_images(count, seed):
    """The first one is grey."""
    images = archives.jpegs(archives.noise(count, 3, (64, 64), seed))
    grey = archives.encoded(np.full((64, 64), 100, np.uint8), "JPEG")
    _, label = images[0]
    return [(grey, label), *images[1:]]


def decoded_truth(images):
    """How often each of some labelled images, which are encoded, is there."""
    return Counter((archives.decoded(data).tobytes(), label) for data, label in images)


def test_tiny_imagenet_is_split_without_loss(tmp_path, monkeypatch):
    train = tiny_images(33, 0)
    val = tiny_images(6, 1)
    archives.write_zip(tmp_path / "tiny-imagenet-200.zip", archives.tiny_imagenet_members(train, val, WNIDS))
    archives.register(monkeypatch, "tiny-imagenet", tmp_path)
    data = prepared(tmp_path, "tiny-imagenet")
    assert examples(data, "train", "val") == decoded_truth(train)
    assert examples(data, "test") == decoded_truth(val)
    assert data.manifest["classes"] == WNIDS
    assert Counter(data.array("val_labels").tolist()) == {0: 1, 1: 1, 2: 1}


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (WNIDS[::-1], r"its labels are not indices in sorted wnids \(its classes begin with n02099601"),
        ([], "does not state the names of its classes"),
    ],
)
def test_different_labels_of_the_hub_are_refused(tmp_path, names, complaint):
    archives.write_tiny_hub(tmp_path / "mirror", tiny_images(30, 0), tiny_images(3, 1), names)
    with pytest.raises(UsageError, match=complaint):
        prepared(tmp_path, "tiny-imagenet", tmp_path / "mirror")


# CelebA


def keys_kernel(distance):
    """Keys' cubic kernel with a = -0.5."""
    near = 1.5 * distance**3 - 2.5 * distance**2 + 1
    far = -0.5 * distance**3 + 2.5 * distance**2 - 4 * distance + 2
    return np.where(distance < 1, near, np.where(distance < 2, far, 0))


def bicubic_weights(old, new):
    """The weight of each old pixel in each new one, of an antialiased resizing: the kernel is widened."""
    scale = old / new
    centres = (np.arange(new) + 0.5) * scale
    positions = np.arange(old) + 0.5
    weights = keys_kernel(np.abs(positions[None] - centres[:, None]) / scale)
    return weights / weights.sum(axis=1, keepdims=True)


def bicubic(image, size):
    """Antialiased bicubic resizing as Pillow defines it: first the columns, rounded, then the rows."""
    height, width, _ = image.shape
    narrow = np.einsum("jw,hwc->hjc", bicubic_weights(width, size), image.astype(float))
    narrow = np.clip(narrow, 0, 255).round()
    small = np.einsum("ih,hjc->cij", bicubic_weights(height, size), narrow)
    return np.clip(small, 0, 255)


def pattern(factor):
    """An image of CelebA's size with a smooth pattern, encoded."""
    rows = np.arange(218)[:, None, None] * np.array([1, 0, 1])
    columns = np.arange(178)[None, :, None] * np.array([0, 1, 1])
    pixels = (rows + columns) * factor % 256
    return archives.encoded(pixels.astype(np.uint8), "JPEG")


@pytest.fixture
def faces(tmp_path, monkeypatch):
    """Faces by official split, in an archive."""
    every = [pattern(factor) for factor in range(1, 8)]
    faces = {"train": every[:3], "val": every[3:5], "test": every[5:]}
    archives.write_faces(tmp_path, faces, every[:1])
    archives.register(monkeypatch, "celeba", tmp_path)
    return faces


def test_celeba_is_cropped_and_resized(tmp_path, faces):
    cropped = prepared(tmp_path, "celeba", size=140)
    small = prepared(tmp_path, "celeba")
    for split, images in faces.items():
        crops = [archives.decoded(data)[:, 39:179, 19:159] for data in images]
        assert {image.tobytes() for image in cropped.array(split)} == {crop.tobytes() for crop in crops}
        assert small.array(split).shape == (len(images), 3, 64, 64)
        for crop in crops:
            expected = bicubic(crop.transpose(1, 2, 0), 64)
            differences = [np.abs(image - expected).max() for image in small.array(split)]
            assert min(differences) <= 1.0
    assert small.manifest["classes"] == []
    assert "centre 140 x 140; resized to 64 x 64" in small.manifest["pixels"]
    assert small.manifest["counts"]["dropped"] == {"not in the list of partitions": 1}
    assert sorted(small.manifest["arrays"]) == ["test", "train", "val"]


def test_celeba_from_kaggle(tmp_path, faces):
    """Its list is verified by its rows; its archive, which has one more folder, can only be accepted."""
    data = prepared(tmp_path, "celeba", size=32)
    path = tmp_path / "list_eval_partition.txt"
    table = tmp_path / "list_eval_partition.csv"
    rows = path.read_text().replace(" ", ",")
    path.unlink()
    table.write_text(f"image_id,partition\n{rows.replace('000001.jpg,0', '000001.jpg,1')}")
    with pytest.raises(UsageError, match=r"is not the known list_eval_partition\.txt"):
        prepared(tmp_path, "celeba", size=33)
    table.write_text(f"image_id,partition\n{rows}")
    assert prepared(tmp_path, "celeba", size=33).manifest["verified"] is True
    archive = tmp_path / "img_align_celeba.zip"
    with zipfile.ZipFile(archive) as members:
        nested = {f"img_align_celeba/{name}": members.read(name) for name in members.namelist()}
    archives.write_zip(archive, nested)
    with pytest.raises(UsageError, match=r"img_align_celeba.zip is not the known .* with --unverified"):
        prepared(tmp_path, "celeba", size=34)
    shutil.rmtree(data.folder)
    again = prepared(tmp_path, "celeba", unverified=True, size=32)
    assert again.manifest["verified"] is False
    assert [file["agrees"] for file in again.manifest["files"]] == [False, True]
    assert again.fingerprint == data.fingerprint


def test_the_list_of_partitions_that_is_known_is_the_one_of_consecutive_images():
    """CelebA's splits are the images 1 to 162,770, to 182,637 and to 202,599."""
    parts = np.repeat([0, 1, 2], [162_770, 19_867, 19_962])
    rows = "".join(f"{i:06}.jpg {part}\r\n" for i, part in enumerate(parts, 1))
    archive = DATASETS["celeba"].archives[1]
    assert archive.sha256 == hashlib.sha256(rows.encode()).hexdigest()
    assert archive.size == len(rows)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"000009.jpg 0", "1 images of the list of partitions are not in"),
        (b"000001.jpg 3", "list_eval_partition.txt, line 1: '000001.jpg 3' is not the name"),
        (
            b"000001.jpg 0\n000002.jpg 1\n\n000001.jpg 2",
            "line 4: 'img_align_celeba/000001.jpg' is in line 1 already; keep",
        ),
        ("000001.jpg 0".encode("utf-16"), "list_eval_partition.txt is UTF-16, expected UTF-8; save it as UTF-8"),
        (b"000001.jpg 0\n\xe9.jpg 1", "list_eval_partition.txt, line 2: b'\\xe9.jp' is not UTF-8"),
    ],
    ids=["no such image", "no such split", "twice", "UTF-16", "Latin-1"],
)
def test_a_wrong_list_of_partitions_is_named(tmp_path, faces, content, complaint):
    (tmp_path / "list_eval_partition.txt").write_bytes(content)
    with pytest.raises(UsageError) as raised:
        prepared(tmp_path, "celeba", unverified=True)
    assert complaint in str(raised.value)
