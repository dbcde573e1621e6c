"""A dataset is the same from its authors' archives and from the hub."""

from dataclasses import dataclass, field

import archives
import pytest
from archives import CLASSES, hub_folder, write_cifar_hub
from prepared_data import STORIES, WNIDS, files, prepared

from fairbench.data.dataset_config import configs_of, dataset_config
from fairbench.data.datasets.registry import DATASETS

pytestmark = pytest.mark.xdist_group("datasets")


def write_cifar(folder, mirror):
    train = archives.noise(33, 3, (32, 32), 33)
    test = archives.noise(6, 3, (32, 32), 6)
    archives.write_tar(folder / "cifar-100-python.tar.gz", archives.cifar_members(train, test, CLASSES))
    write_cifar_hub(mirror, train[::-1], test[3:] + test[:3])


def write_tiny_imagenet(folder, mirror):
    train = archives.jpegs(archives.noise(33, 3, (64, 64), 33))
    test = archives.jpegs(archives.noise(6, 3, (64, 64), 6))
    archives.write_zip(folder / "tiny-imagenet-200.zip", archives.tiny_imagenet_members(train, test, WNIDS))
    archives.write_tiny_hub(mirror, train[::-1], test[::-1], WNIDS)


def write_celeba(folder, mirror):
    images = archives.jpegs(archives.noise(6, 3, (218, 178), 6))
    faces = [data for data, _ in images]
    splits = {"train": faces[:2], "val": faces[2:4], "test": faces[4:]}
    archives.write_faces(folder, splits)
    archives.write_faces_hub(mirror, splits)


def write_tinystories(folder, mirror):
    for source in (folder, hub_folder(mirror, "tinystories")):
        archives.write_stories(source, ["", *STORIES], STORIES[:5], "")


@dataclass
class BothSources:
    """A dataset with options, and a function that writes it as its authors and as the hub have it, in another order."""

    dataset: str
    write: object
    options: dict = field(default_factory=dict)


CASES = [
    BothSources("cifar100", write_cifar),
    BothSources("tiny-imagenet", write_tiny_imagenet),
    BothSources("celeba", write_celeba, {"size": 32}),
    BothSources("tinystories", write_tinystories, {"version": "V1"}),
    BothSources("tinystories", write_tinystories, {"version": "V1", "vocabulary": 300}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.dataset} {case.options}")
def test_a_dataset_is_the_same_from_both_sources(tmp_path, monkeypatch, case):
    case.write(tmp_path, tmp_path / "mirror")
    archives.register(monkeypatch, case.dataset, tmp_path)
    if case.dataset == "celeba":  # fairbench knows the names of all its files
        archives.register_hub(monkeypatch, tmp_path / "mirror")
    data = prepared(tmp_path, case.dataset, **case.options)
    of_hub = prepared(tmp_path / "other", case.dataset, tmp_path / "mirror", **case.options)
    assert files(of_hub) == files(data)
    assert of_hub.fingerprint == data.fingerprint
    assert of_hub.manifest["source"] == "hub"
    assert of_hub.manifest["revision"] == DATASETS[case.dataset].revision
    assert data.manifest["source"] == "archive"
    assert data.manifest["verified"] is True
    for part in ("classes", "tokenizer"):
        assert of_hub.manifest.get(part) == data.manifest.get(part)


# Configurations


def test_each_dataset_that_arenas_read_is_named_once():
    tables = [
        {"source": "tinystories", "vocabulary": 4096, "context": 128},
        {"source": "cifar100"},
        {"source": "cifar100", "image_size": 32},
        {"source": "digits", "size": 8},
        {"image_size": 8},
    ]
    stories = dataset_config("tinystories", {"vocabulary": 4096})
    assert configs_of(tables) == [stories, dataset_config("cifar100")]
