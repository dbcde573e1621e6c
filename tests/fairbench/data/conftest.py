"""A small CIFAR-100: from a mirror of the hub, from the authors' archive, and prepared."""

import archives
import pytest
from small_cifar import MEMBERS, TEST, TRAIN, cifar


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A local copy of the hub's files, known."""
    archives.write_cifar_hub(tmp_path / "mirror", TRAIN, TEST)
    archives.register_hub(monkeypatch, tmp_path / "mirror")
    return tmp_path / "mirror"


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """CIFAR-100's archive, known."""
    path = archives.write_tar(tmp_path / "cifar-100-python.tar.gz", MEMBERS)
    archives.register(monkeypatch, "cifar100", tmp_path)
    return path


@pytest.fixture
def folder(tmp_path, archive):
    """CIFAR-100, prepared."""
    assert cifar("prepare", tmp_path) == 0
    return tmp_path / "prepared" / "cifar100"
