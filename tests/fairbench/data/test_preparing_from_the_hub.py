"""The hub: a download is verified, later runs need no network, and what is missing is named."""

import hashlib
import json
import re
import shutil
import threading
from collections import Counter
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path

import archives
import pytest
from small_cifar import FACTS, TEST, TRAIN, cifar, of_cifar, offered, verified

from fairbench.cli.main import main
from fairbench.data.dataset_config import dataset_config
from fairbench.data.datasets.registry import DATASETS
from fairbench.data.preparation import hub

pytestmark = pytest.mark.xdist_group("datasets")


class FakeHub(SimpleHTTPRequestHandler):
    """The part of the hub that a download needs: the list of the files at the commit, and their contents."""

    folder: Path
    asked: list[str]

    def translate_path(self, path):
        path = path.partition("?")[0]
        self.asked.append(path)
        if path == f"/api/datasets/{FACTS.repository}/tree/{FACTS.revision}":
            return str(self.folder / "tree.json")
        name = path.removeprefix(f"/datasets/{FACTS.repository}/resolve/{FACTS.revision}/")
        return str(self.folder / name)

    def end_headers(self):
        content = Path(self.translate_path(self.path)).read_bytes()
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", FACTS.revision)
        super().end_headers()

    def log_message(self, format, *args):
        pass


def entry_of(path, folder):
    """The entry of a file in the hub's list of files."""
    content = path.read_bytes()
    return {
        "type": "file",
        "path": path.relative_to(folder).as_posix(),
        "size": len(content),
        "oid": "0" * 40,
        "lfs": {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 1},
    }


@pytest.fixture
def fake_hub(tmp_path, monkeypatch):
    """A hub; the paths of its requests."""
    folder = archives.write_cifar_hub(tmp_path / "origin", TRAIN, TEST)
    with pytest.MonkeyPatch.context() as patch:
        archives.register_hub(patch, tmp_path / "origin")
    (folder / "unrelated.zip").write_bytes(b"not this")
    tree = [entry_of(path, folder) for path in folder.rglob("*") if path.is_file()]
    (folder / "tree.json").write_text(json.dumps(tree))
    handler = type("Handler", (FakeHub,), {"folder": folder, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    connect(monkeypatch, f"http://127.0.0.1:{server.server_port}")
    yield handler.asked
    server.shutdown()
    server.server_close()


def connect(patch, address, offline=False):
    """Let huggingface_hub use a hub; it reads the variables of the environment when it is imported."""
    constants = import_module("huggingface_hub.constants")
    patch.setenv("no_proxy", "127.0.0.1")
    patch.setattr(constants, "ENDPOINT", address)
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}")
    patch.setattr(constants, "HF_HUB_OFFLINE", offline)


def test_a_download_is_verified_and_later_runs_need_no_network(tmp_path, fake_hub, monkeypatch, command):
    monkeypatch.setattr(hub, "HASHES", tmp_path / "origin" / "SHA256SUMS")
    assert cifar("download", tmp_path / "data") == 0
    data = dataset_config("cifar100").prepared(tmp_path / "data")
    assert data.manifest["verified"] is True
    assert data.manifest["revision"] == FACTS.revision
    assert all(file["agrees"] for file in data.manifest["files"])
    assert not any("unrelated" in path for path in fake_hub)

    train = next((tmp_path / "data" / "hub").rglob("train-*.parquet"))
    train.write_bytes(b"PAR1")
    shutil.rmtree(data.folder)

    # A refused archive, and the way out through the hub: the damaged download is replaced, too.
    archive = archives.write_tar(tmp_path / "data" / "cifar-100-python.tar.gz", {})
    said = command(*of_cifar("download", tmp_path / "data"), code=2)
    assert f"or move {archive} away and run: fairbench data download" in said
    archive.rename(tmp_path / archive.name)
    _, download = offered(said)
    said = command(*download, code=2)
    assert f"{train} is not the known cifar100/{train.name}" in said
    assert "delete it and run: fairbench data download" in said
    train.unlink()
    (download,) = offered(said)
    assert main(download) == 0

    fake_hub.clear()
    shutil.rmtree(data.folder)
    assert cifar("prepare", tmp_path / "data") == 0
    assert fake_hub == []

    # A copy of the folder on a machine without a network.
    (tmp_path / "data" / "hub").rename(tmp_path / "mirror")
    assert cifar("download", tmp_path / "other", "--hub", str(tmp_path / "mirror")) == 0
    copy = dataset_config("cifar100").prepared(tmp_path / "other")
    assert copy.manifest["verified"] is True
    assert copy.fingerprint == data.fingerprint


def test_files_of_the_hub_without_known_hashes_are_not_downloaded_unasked(tmp_path, fake_hub, monkeypatch, command):
    (tmp_path / "nothing").touch()
    monkeypatch.setattr(hub, "HASHES", tmp_path / "nothing")
    said = command(*of_cifar("download", tmp_path / "data"), code=2)
    assert fake_hub == []
    _, download = offered(said)
    assert f"no hashes of the hub's files are known; get cifar-100-python.tar.gz from {FACTS.page}" in said
    assert download == of_cifar("download", tmp_path / "data", "--unverified")
    assert main(download) == 0
    assert not verified(tmp_path / "data")

    # The command that the message on shards of two layouts names can be run.
    first = next((tmp_path / "data" / "hub").rglob("train-*.parquet"))
    second = first.with_name("train-00000-of-00002.parquet")
    shutil.copy(first, second)
    shutil.rmtree(dataset_config("cifar100").folder(tmp_path / "data"))
    said = command(*download, code=2)
    assert "are not all shards of one layout; delete those of one layout, or all, and run: fairbench data" in said
    (again,) = offered(said)
    first.unlink()
    second.unlink()
    assert main(again) == 0


def test_a_hub_that_cannot_be_reached_is_named(tmp_path, monkeypatch, command):
    connect(monkeypatch, "http://127.0.0.1:9", offline=True)
    said = command(*of_cifar("download", tmp_path), code=2)
    for text in (f"cannot download {FACTS.repository} at {FACTS.revision}", FACTS.page, f"put it into {tmp_path}"):
        assert text in said


def test_the_known_hashes_are_those_of_files_that_are_read():
    configs = [dataset_config(name) for name in ("tinystories", "cifar100", "celeba")]
    configs.append(dataset_config("tinystories", {"version": "V1"}))
    every = {}
    for config in configs:
        every.update(hub.known_hashes(config))
    assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in every.values())
    assert len(set(every.values())) == len(every)
    of_shards = [name for name in every if "parquet" in name]
    assert len(of_shards) == len(hub.HASHES.read_text().splitlines()) == 27

    faces = hub.known_hashes(dataset_config("celeba"))
    splits = [name.split("/")[1].split("-")[0] for name in faces if "parquet" in name]
    assert Counter(splits) == {"train": 19, "valid": 3, "test": 3}


@pytest.mark.parametrize(
    ("dataset", "known"),
    [("tinystories", True), ("cifar100", True), ("tiny-imagenet", False), ("celeba", True)],
)
def test_the_hashes_of_all_files_but_those_of_tiny_imagenet_are_known(dataset, known):
    assert hub.hashes_are_known(dataset_config(dataset)) == known


def test_no_other_dataset_is_on_the_hub():
    on_the_hub = {name for name, facts in DATASETS.items() if facts.repository}
    assert on_the_hub == {"tinystories", "cifar100", "tiny-imagenet", "celeba"}


def test_missing_wrong_and_further_files_of_a_mirror_are_named(tmp_path, mirror, command):
    train = mirror / FACTS.repository / "cifar100/train-00000-of-00001.parquet"
    words = of_cifar("prepare", tmp_path, "--hub", str(mirror))
    other = train.with_name("train-00000-of-00002.parquet")
    shutil.copy(train, other)
    layouts = "one layout; delete those of one layout and run: fairbench data prepare"
    assert layouts in command(*words, "--unverified", code=2)
    other.unlink()

    whole = train.read_bytes()
    train.write_bytes(whole[:-9])
    assert f"{train} is damaged or no parquet" in command(*words, "--unverified", code=2)

    train.unlink()
    add_it = rf"\.parquet in .*; or add them there and run: .* --hub {mirror}$"
    assert re.search(rf"no cifar100/train-00000-of-00001{add_it}", command(*words, code=2))
    hub.HASHES.write_text("")  # nothing is known of the names
    assert re.search(rf"no cifar100/train-\*{add_it}", command(*words, code=2))
