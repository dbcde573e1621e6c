"""Preparation: wrong files are refused by name, interrupted work resumes, and doubtful data are marked."""

import hashlib
import io
import json
import os
import pickle
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path

import archives
import numpy as np
import pytest
from users import as_user, needs_root

from fairbench.cli.main import main
from fairbench.common.errors import UsageError
from fairbench.common.formatting import format_bytes
from fairbench.data.dataset_config import PREPARED, check_prepared, configs_of, dataset_config
from fairbench.data.datasets.registry import DATASETS
from fairbench.data.preparation import hub
from fairbench.data.preparation.prepare import PrepareOptions, prepare
from fairbench.data.prepared import HASHED, Prepared, content_sha256, sealed
from fairbench.suites.loader import load_suite

pytestmark = pytest.mark.xdist_group("datasets")

IMAGES = archives.noise(33, 3, (32, 32), 0), archives.noise(6, 3, (32, 32), 1)
MEMBERS = archives.cifar_members(*IMAGES, archives.CLASSES)
FACTS = DATASETS["cifar100"]
DEEP = b"[" * 2000 + b"]" * 2000


def of_cifar(verb, data_root, *words):
    """The arguments of a command on CIFAR-100."""
    return ["data", verb, "--data-root", str(data_root), "--dataset", "cifar100", *words]


def cifar(verb, data_root, *words):
    return main(of_cifar(verb, data_root, *words))


def verified(data_root):
    return bool(dataset_config("cifar100").open(data_root).manifest["verified"])


def suite_of_cifar():
    suite = load_suite("paper-cpu")
    return replace(suite, arenas={"vit": suite.arenas["vit"]})


def check_data(suite, data_root):
    check_prepared(configs_of(suite.data_tables), Path(data_root))


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A local copy of the hub's files, known."""
    archives.write_cifar_hub(tmp_path / "mirror", *IMAGES)
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


# Archives


def test_missing_archives_are_named_with_their_source(tmp_path, command):
    shown = command(*of_cifar("prepare", tmp_path), code=2)
    for word in ("no cifar-100-python.tar.gz in", FACTS.page, f"put it into {tmp_path}", "fairbench data download"):
        assert word in shown
    archives.stories_file(tmp_path / "tinystories" / "TinyStoriesV2-GPT4-train.txt", ["a"])
    said = command("data", "download", "--dataset", "tinystories", "--data-root", str(tmp_path), code=2)
    assert "TinyStoriesV2-GPT4-train.txt is there, but not TinyStoriesV2-GPT4-valid.txt" in said


@pytest.mark.parametrize(
    ("damage", "complaints"),
    [
        (lambda data: data[:1000], ["it has 1,000 bytes, expected"]),
        (lambda data: data[:-1] + b"!", ["damaged, incomplete or a different version"]),
    ],
)
def test_a_different_file_is_refused_with_both_hashes(tmp_path, archive, command, damage, complaints):
    expected = hashlib.sha256(archive.read_bytes()).hexdigest()
    archive.write_bytes(damage(archive.read_bytes()))
    shown = command(*of_cifar("prepare", tmp_path), code=2)
    for text in (*complaints, str(archive), expected, hashlib.sha256(archive.read_bytes()).hexdigest(), FACTS.page):
        assert text in shown
    assert not (tmp_path / "prepared" / "cifar100").exists()


class Caller:
    """Calls os.system when it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch called",)


def with_train(data):
    return {**MEMBERS, "cifar-100-python/train": data}


@pytest.mark.parametrize(
    ("members", "complaint"),
    [
        (with_train(pickle.dumps({"data": Caller()}, 2)), "it names posix.system, but only numpy's arrays"),
        (with_train(MEMBERS["cifar-100-python/train"][:5000]), "train is damaged ("),
        ({k: v for k, v in MEMBERS.items() if "test" not in k}, "has no cifar-100-python/test: it is a different"),
        (with_train(archives.python2_pickle({"data": np.zeros((3, 5))})), "is damaged (KeyError: 'fine_labels')"),
        (5000, "is damaged (EOFError"),
        (0, "is damaged (ReadError: not a gzip file"),
    ],
)
def test_hostile_and_broken_tars(tmp_path, archive, command, monkeypatch, members, complaint):
    monkeypatch.chdir(tmp_path)
    if isinstance(members, int):
        archive.write_bytes(archive.read_bytes()[:members] or b"PK" * 100)
    else:
        archives.write_tar(archive, members)
    shown = command(*of_cifar("prepare", tmp_path, "--unverified"), code=2)
    assert complaint in shown
    assert str(archive) in shown
    assert {path.name for path in tmp_path.iterdir()} == {archive.name, "prepared"}


ROOT = "tiny-imagenet-200"
IMAGE = f"{ROOT}/train/n01443537/images/n01443537_0.JPEG"
SMALL = archives.encoded(np.zeros((8, 8, 3), np.uint8), "JPEG")


@pytest.mark.parametrize(
    ("member", "data", "complaint"),
    [
        (IMAGE, SMALL[:300], f"{IMAGE} is no image, or damaged"),
        (IMAGE, SMALL, f"{IMAGE} has shape (3, 8, 8), expected (3, 64, 64)"),
        (
            f"{ROOT}/val/val_annotations.txt",
            b"val_0.JPEG\tn01443537\t0\noops\n",
            "val_annotations.txt, line 2: 'oops' is not the name of an image and a wnid of wnids.txt",
        ),
        (f"{ROOT}/wnids.txt", "n01443537".encode("utf-16"), "tiny-imagenet-200.zip: wnids.txt is UTF-16"),
    ],
)
def test_broken_zips(tmp_path, command, member, data, complaint):
    images = archives.jpegs(archives.noise(30, 1, (64, 64), 0))
    members = archives.tiny_imagenet_members(images, images[:1], ["n01443537"])
    archives.write_zip(tmp_path / "tiny-imagenet-200.zip", {**members, member: data})
    words = ["--dataset", "tiny-imagenet", "--data-root", str(tmp_path), "--unverified"]
    assert complaint in command("data", "prepare", *words, code=2)


# The hub


class FakeHub(SimpleHTTPRequestHandler):
    """The part of the hub that a download needs: the list of the files at the commit, and their contents."""

    folder: Path
    asked: list[str]

    def translate_path(self, path):
        path = path.partition("?")[0]
        self.asked.append(path)
        if path == f"/api/datasets/{FACTS.repository}/tree/{FACTS.revision}":
            return str(self.folder / "tree.json")
        return str(self.folder / path.removeprefix(f"/datasets/{FACTS.repository}/resolve/{FACTS.revision}/"))

    def end_headers(self):
        content = Path(self.translate_path(self.path)).read_bytes()
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", FACTS.revision)
        super().end_headers()

    def log_message(self, format, *args):
        pass


@pytest.fixture
def fake_hub(tmp_path, monkeypatch):
    """A hub; the paths of its requests."""
    folder = archives.write_cifar_hub(tmp_path / "origin", *IMAGES)
    with pytest.MonkeyPatch.context() as patch:
        archives.register_hub(patch, tmp_path / "origin")
    (folder / "unrelated.zip").write_bytes(b"not this")
    tree = []
    for path in (path for path in folder.rglob("*") if path.is_file()):
        lfs = {"oid": hashlib.sha256(path.read_bytes()).hexdigest(), "size": path.stat().st_size, "pointerSize": 1}
        name = path.relative_to(folder).as_posix()
        tree.append({"type": "file", "path": name, "size": lfs["size"], "oid": "0" * 40, "lfs": lfs})
    (folder / "tree.json").write_text(json.dumps(tree))
    handler = type("Handler", (FakeHub,), {"folder": folder, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    connect(monkeypatch, f"http://127.0.0.1:{server.server_port}")
    yield handler.asked
    server.shutdown()
    server.server_close()


def offered(text):
    """The arguments of the `fairbench` commands that a message names."""
    commands = re.findall(r"fairbench (data [^;,]*)", text.replace("\n  ", ";").replace("\n", ";"))
    return [shlex.split(command) for command in commands]


def connect(patch, address, offline=False):
    """Let huggingface_hub use a hub; it reads the variables of the environment when it is imported."""
    constants = import_module("huggingface_hub.constants")
    patch.setenv("no_proxy", "127.0.0.1")
    patch.setattr(constants, "ENDPOINT", address)
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}")
    patch.setattr(constants, "HF_HUB_OFFLINE", offline)


def known(hashes):
    """Code after which a process knows the hashes in a file."""
    lines = "import pathlib", "from fairbench.cli.main import main", "from fairbench.data.preparation import hub"
    return "\n".join([*lines, f"hub.HASHES = pathlib.Path({str(hashes)!r})"])


def test_a_download_is_verified_and_later_runs_need_no_network(tmp_path, fake_hub, monkeypatch, command):
    monkeypatch.setattr(hub, "HASHES", tmp_path / "origin" / "SHA256SUMS")
    assert cifar("download", tmp_path / "data") == 0
    data = dataset_config("cifar100").open(tmp_path / "data")
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
    copy = dataset_config("cifar100").open(tmp_path / "other")
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
    shutil.copy(first, second := first.with_name("train-00000-of-00002.parquet"))
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
    known = {name: hub.known_hashes(dataset_config(name)) for name in ("tinystories", "cifar100", "celeba")}
    known["V1"] = hub.known_hashes(dataset_config("tinystories", {"version": "V1"}))
    assert {name: hub.hashes_are_known(dataset_config(name)) for name in DATASETS if DATASETS[name].repository} == {
        "tinystories": True, "cifar100": True, "tiny-imagenet": False, "celeba": True,
    }  # fmt: skip
    every = {name: value for hashes in known.values() for name, value in hashes.items()}
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in every.values())
    assert len({*every.values()}) == len(every)
    shards = Counter(name.split("/")[1].split("-")[0] for name in known["celeba"] if "parquet" in name)
    assert shards == {"train": 19, "valid": 3, "test": 3}
    assert sum("parquet" in name for name in every) == len(hub.HASHES.read_text().splitlines()) == 27


def test_missing_wrong_and_further_files_of_a_mirror_are_named(tmp_path, mirror, command):
    train = mirror / FACTS.repository / "cifar100/train-00000-of-00001.parquet"
    words = of_cifar("prepare", tmp_path, "--hub", str(mirror))
    shutil.copy(train, other := train.with_name("train-00000-of-00002.parquet"))
    layouts = "one layout; delete those of one layout and run: fairbench data prepare"
    assert layouts in command(*words, "--unverified", code=2)
    other.unlink()
    whole = train.read_bytes()
    train.write_bytes(whole[:-9])
    assert f"{train} is damaged or no parquet" in command(*words, "--unverified", code=2)
    train.unlink()
    for known, missing in ((hub.HASHES.read_text(), "00000-of-00001"), ("", "*")):
        hub.HASHES.write_text(known)
        said = rf"no cifar100/train-{re.escape(missing)}\.parquet in .*; or add them there and run: .* --hub {mirror}$"
        assert re.search(said, command(*words, code=2))


# Interruptions


def prepared_by(code, data_root, mirror):
    """The command that prepares CIFAR-100 from a mirror after some code."""
    words = of_cifar("prepare", data_root, "--hub", str(mirror))
    return [sys.executable, "-c", f"{code}\n{known(mirror / 'SHA256SUMS')}\nraise SystemExit(main({words!r}))"]


KILLED = """
import os, signal
from fairbench.data.preparation import staging
append = staging.GrowingArray.append
left = 4 * (33 + 6) + 5
def dying(self, rows):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    append(self, rows)
staging.GrowingArray.append = dying
"""
"""Dies when it writes the test split."""


def test_a_killed_preparation_resumes(tmp_path, mirror, capsys):
    """Arrays that were made from different files are not reused."""
    done = subprocess.run(prepared_by(KILLED, tmp_path, mirror), capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "prepared" / "cifar100").exists()
    with pytest.raises(UsageError, match="cifar100 is prepared by: fairbench data download"):
        dataset_config("cifar100").open(tmp_path)
    shutil.copytree(tmp_path / "prepared", tmp_path / "different" / "prepared")
    archives.write_tar(tmp_path / "different" / "cifar-100-python.tar.gz", MEMBERS)
    assert cifar("prepare", tmp_path / "different", "--unverified") == 0
    assert "reused" not in capsys.readouterr().out
    damaged = tmp_path / "prepared" / ".cifar100.part" / "train.npy"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert cifar("prepare", tmp_path, "--hub", str(mirror)) == 0
    reused = next(line for line in capsys.readouterr().out.splitlines() if "reused from an interrupted" in line)
    assert "staged-images-train.npy" in reused
    assert "val.npy" in reused
    assert not {" test.npy", " train.npy"} & {*reused.partition(":")[2].split(",")}
    assert cifar("prepare", tmp_path / "calm", "--hub", str(mirror)) == 0
    calm, disturbed = (dataset_config("cifar100").open(root) for root in (tmp_path / "calm", tmp_path))
    assert calm.manifest == disturbed.manifest
    assert {path.name for path in disturbed.folder.iterdir()} == {path.name for path in calm.folder.iterdir()}
    assert not (tmp_path / "prepared" / ".cifar100.part").exists()


WAITING = """
import pathlib, time
from fairbench.data.preparation import staging
ensure = staging.StagingFolder.ensure
def slow(self, names, work):
    print("begun", flush=True)
    while not pathlib.Path({go!r}).exists():
        time.sleep(0.01)
    ensure(self, names, work)
staging.StagingFolder.ensure = slow
"""


def test_two_preparations_wait_for_each_other(tmp_path, mirror):
    code = WAITING.format(go=str(tmp_path / "go"))
    command = prepared_by(code, tmp_path, mirror)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout
        assert any("begun" in line for line in first.stdout)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as second:
            assert second.stdout
            waiting = second.stdout.readline()
            (tmp_path / "go").touch()
            assert "another process is preparing it; waiting" in waiting
            assert "is already prepared" in second.stdout.read()
        first.stdout.read()
    assert (first.returncode, second.returncode) == (0, 0)
    assert main(["data", "verify", "--data-root", str(tmp_path)]) == 0


def test_too_little_disk_space_stops_the_preparation(tmp_path, archive, monkeypatch, capsys):
    need = 2 * 39 * (3 * 32 * 32 + 16)
    usage = shutil.disk_usage(tmp_path)
    for free, code in ((need - 1, 2), (need, 0)):
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=free: usage._replace(free=free))
        assert cifar("prepare", tmp_path) == code
    assert f"cannot prepare cifar100: it needs 241 kB in {tmp_path}" in capsys.readouterr().err


# Prepared arrays


def test_arrays_are_read_only_and_determine_the_fingerprint(tmp_path, folder):
    data = dataset_config("cifar100").open(tmp_path)
    assert isinstance(data.array("train"), np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        data.array("train")[0] = 0
    manifest = {**data.manifest, "license": "another", "versions": {}}
    (folder / "manifest.json").write_text(sealed(manifest))
    assert dataset_config("cifar100").open(tmp_path).fingerprint == data.fingerprint
    manifest["arrays"] = {**manifest["arrays"], "val": {**manifest["arrays"]["val"], "sha256": "0" * 64}}
    (folder / "manifest.json").write_text(sealed(manifest))
    assert dataset_config("cifar100").open(tmp_path).fingerprint != data.fingerprint


def saved(name, change):
    return lambda folder: np.save(folder / name, change(np.load(folder / name)))


def rewritten(name, change):
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (rewritten("val.npy", lambda data: data[:-1]), r"val\.npy is damaged"),
        (rewritten("val.npy", lambda data: data + b"!"), r"val\.npy is damaged"),
        (saved("val.npy", lambda array: array[1:]), r"val\.npy is damaged"),
        (saved("val_labels.npy", lambda array: array.astype(np.uint64)), r"val_labels\.npy is damaged"),
        (
            rewritten("manifest.json", lambda data: data.replace(b'"format": 1', b'"format": 0')),
            "has format 0, and this fairbench reads format 1",
        ),
        (
            rewritten("manifest.json", lambda data: data.replace(b'"verified": true', b'"verified": false')),
            "manifest.json is damaged .*its checksum does not match",
        ),
        (rewritten("manifest.json", lambda data: data[:-9]), r"manifest\.json is damaged \("),
        (rewritten("manifest.json", lambda data: b"\xff" + data), r"manifest\.json is damaged \(.*decode"),
        (
            rewritten("manifest.json", lambda data: DEEP),
            r"manifest\.json is damaged \(it is nested more than 64 levels",
        ),
        (
            rewritten("manifest.json", lambda data: sealed({"format": 1, "arrays": []}).encode()),
            r"manifest\.json is damaged \(\w+ is missing",
        ),
        (rewritten("manifest.json", lambda data: b"[1]"), r"manifest\.json is damaged \(it must be a table"),
        (lambda folder: (folder / "manifest.json").unlink(), "there is no "),
        (lambda folder: (folder / "test.npy").unlink(), r"test\.npy is damaged"),
        (
            rewritten("train.npy", lambda data: data.replace(b"'fortran_order': False", b"'fortran_order': True ")),
            r"train\.npy is damaged: it contains .* in Fortran order",
        ),
    ],
)
def test_damage_is_noticed_when_data_are_opened_and_repaired(tmp_path, folder, damage, complaint):
    fingerprint = dataset_config("cifar100").open(tmp_path).fingerprint
    damage(folder)
    with pytest.raises(UsageError, match=complaint) as raised:
        dataset_config("cifar100").open(tmp_path)
    assert f"fairbench data download --data-root {tmp_path} --dataset cifar100" in str(raised.value)
    assert main(["data", "verify", "--data-root", str(tmp_path)]) == 1
    assert cifar("prepare", tmp_path) == 0
    assert dataset_config("cifar100").open(tmp_path).fingerprint == fingerprint


@pytest.mark.parametrize("read_only", [False, True])
def test_a_run_notices_edited_labels_and_they_are_prepared_again(tmp_path, folder, read_only):
    """Content is hashed once; then size and times are enough, unless the folder cannot keep them."""
    suite = suite_of_cifar()
    if read_only:
        (folder / HASHED).mkdir()  # no file can be written there
    hashed = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "fairbench.data.prepared.content_sha256", lambda path: hashed.append(path.name) or content_sha256(path)
        )
        for _ in range(2):
            check_data(suite, str(tmp_path))
    assert len(hashed) == 6 * (1 + read_only)
    times = (folder / "train_labels.npy").stat()
    saved("train_labels.npy", lambda labels: np.full_like(labels, 7))(folder)
    os.utime(folder / "train_labels.npy", ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(UsageError, match=r"train_labels\.npy has sha256 .*download --data-root .* --dataset cifar100"):
        check_data(suite, str(tmp_path))
    assert cifar("prepare", tmp_path) == 0
    check_data(suite, str(tmp_path))


def test_options_other_than_the_defaults_are_in_the_command(tmp_path, monkeypatch):
    archives.write_stories(tmp_path, [f"Story {i}." for i in range(40)], ["The end."], "")
    archives.register(monkeypatch, "tinystories", tmp_path)
    config = dataset_config("tinystories", {"version": "V1", "vocabulary": 300})
    with pytest.raises(UsageError) as raised:
        config.open(tmp_path)
    (command,) = offered(str(raised.value))
    assert command[-4:] == ["--set", 'version="V1"', "--set", "vocabulary=300"]
    assert main(command) == 0
    assert config.open(tmp_path).manifest["verified"]


def test_every_way_out_of_a_wrong_archive_works(tmp_path, archive, command):
    def said(*words):
        return command(*of_cifar("prepare", tmp_path, *words), code=2)

    genuine, second = archive.read_bytes(), tmp_path / "cifar100" / archive.name
    archives.write_tar(archive, {**MEMBERS, "one": b""})
    assert cifar("prepare", tmp_path, "--unverified") == 0
    archives.write_tar(archive, {**MEMBERS, "two": b""})  # the old arrays are not those of this archive
    message = said()
    prepare_it, _ = offered(message.partition("; or accept")[0])
    archives.write_tar(second, {**MEMBERS, "three": b""})
    for words in ((), ("--unverified",)):
        message = said(*words)
        assert f"{archive} and {second} are there, and none is known to be right; move one away" in message
    second.write_bytes(genuine)  # where the message says, while a wrong one is in the other place
    assert main(prepare_it) == 0
    assert verified(tmp_path)

    second.unlink()
    archives.write_tar(archive, {})
    message = said("--again", "--unverified")
    assert "it is a different archive, or a different version of it; get cifar-100-python.tar.gz from" in message
    shutil.rmtree(tmp_path / "prepared" / "cifar100")
    prepare_it, _ = offered(message)
    second.write_bytes(genuine)
    assert main(prepare_it) == 0
    assert verified(tmp_path)


def test_every_way_out_of_doubtful_data_works(tmp_path, folder, archive, command):
    def shown(*words, code=0):
        return command("data", *words, code=code)

    def decayed():
        """A changed bit that neither size nor times show: the disk has lost it."""
        content = bytearray((folder / "test.npy").read_bytes())
        content[-7] ^= 1
        (folder / "test.npy").write_bytes(content)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Prepared, "differences", lambda self: iter(()))
            dataset_config("cifar100").open(tmp_path, check_content=True)

    root = ["--data-root", str(tmp_path)]
    assert f"{folder}: intact\n" in shown("verify", *root)
    fingerprint = dataset_config("cifar100").open(tmp_path).fingerprint
    decayed()
    assert "is already prepared" in shown("prepare", *root, "--dataset", "cifar100")
    report = shown("verify", *root, code=1)
    assert f"{folder / 'test.npy'} has sha256 " in report
    (again,) = offered(report)
    assert again[-1] == "--again"
    assert main(again) == 0
    assert (shown("verify", *root), verified(tmp_path)) == (f"{folder}: intact\n", True)

    genuine = archive.read_bytes()
    archives.write_tar(archive, {**MEMBERS, "cifar-100-python/file.txt~": b""})
    refused = shown("prepare", *root, "--dataset", "cifar100", "--again", code=2)
    assert refused.endswith("or accept it: run the same command with --unverified\n")
    assert main(["data", "prepare", *root, "--dataset", "cifar100", "--again", "--unverified"]) == 0
    assert not verified(tmp_path)
    decayed()
    (again,) = offered(shown("verify", *root, code=1))
    assert again[-2:] == ["--again", "--unverified"]
    assert main(again) == 0

    # The authors' archive replaces what is not verified, by the command that each of these names.
    reports = [shown("prepare", *root, "--dataset", "cifar100"), shown("verify", *root)]
    assert f"{folder}: intact, but not verified; get cifar-100-python.tar.gz from {FACTS.page}, put it" in reports[1]
    assert "cifar100: is already prepared" in reports[0]
    (prepare,) = {tuple(*offered(report)) for report in (refused.partition("; or move")[0], *reports)}
    archive.write_bytes(genuine)
    assert "prepared again, since it is not verified, and files with the known hashes are there" in shown(*prepare[1:])
    assert verified(tmp_path)
    assert dataset_config("cifar100").open(tmp_path).fingerprint == fingerprint
    assert f"{folder}: intact\n" in shown("verify", *root)
    missing = shown("verify", *root, "--dataset", "celeba", code=2)
    assert "is not prepared; celeba (size 64, crop 140) is prepared by: fairbench data download" in missing


@pytest.mark.parametrize("name", ["notes.txt", "backup", "train.npy.old"])
def test_a_users_own_file_is_kept(tmp_path, folder, command, name):
    (folder / name).mkdir() if name == "backup" else (folder / name).write_text("mine")
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    said = command(*of_cifar("prepare", tmp_path, "--again"), code=2)
    assert f"{folder} has files that fairbench did not write ({name})" in said
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    (folder / name).rename(tmp_path / name)
    assert cifar("prepare", tmp_path, "--again") == 0


def test_what_is_prepared_needs_no_writable_folder(tmp_path, folder, capsys):
    lock = folder.parent / ".cifar100.lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()  # as root may write anywhere, this is how nothing can be locked
    assert cifar("prepare", tmp_path) == 0
    assert "is already prepared" in capsys.readouterr().out
    assert cifar("prepare", tmp_path, "--again") == 2
    said = f"{folder} cannot be prepared, since {folder.parent} cannot be written (Is a directory)"
    assert said in capsys.readouterr().err


@needs_root
def test_a_folder_of_another_user_is_named_before_it_is_prepared_again(folder):
    with tempfile.TemporaryDirectory() as root:  # pytest's own folders are closed to other users
        for each in (Path(root), copy := Path(root) / "prepared"):
            each.mkdir(exist_ok=True)
            each.chmod(0o777)
        shutil.copytree(folder, copy / "cifar100").chmod(0o700)

        def refused():
            with pytest.raises(UsageError) as raised:
                prepare(dataset_config("cifar100"), PrepareOptions(Path(root)))
            return str(raised.value)

        refusal = "is another user's; let its owner prepare it and make it readable, or choose another --data-root"
        assert as_user(1001, 0o022, refused) == f"{copy / 'cifar100'} {refusal}"


def test_a_dataset_may_be_a_link_to_another_disk(tmp_path, archive):
    root, disk = tmp_path / "data", tmp_path / "disk"
    for folder in (root / "prepared", disk):
        folder.mkdir(parents=True)
    (root / "cifar100").symlink_to(tmp_path)  # of archives
    link = root / "prepared" / "cifar100"
    link.symlink_to(disk / "arrays")  # which is not there yet
    for words in ((), ("--again",)):
        assert cifar("prepare", root, *words) == 0
        check_data(suite_of_cifar(), str(root))
        assert main(["data", "verify", "--data-root", str(root)]) == 0
        assert link.is_symlink()
        assert (disk / "arrays" / "manifest.json").exists()
        assert [path.name for path in link.parent.iterdir()] == ["cifar100"]


# The command


def test_list_shows_what_is_there(tmp_path, archive, folder, command):
    shown = command("data", "list", "--data-root", str(tmp_path))
    for name, facts in PREPARED.items():
        assert name in shown
        assert facts.title in shown
    assert f"cifar-100-python.tar.gz ({format_bytes(archive.stat().st_size)}) is {archive}" in shown
    assert "train 30, val 3, test 6; verified" in shown
    command("data", "list", "--suite", "mini", "--data-root", str(tmp_path))


def test_one_missing_dataset_does_not_keep_the_others_from_being_prepared(tmp_path, archive, command):
    shown = command("data", "prepare", "--data-root", str(tmp_path), code=2)
    for name in ("TinyStoriesV2-GPT4-train.txt", "tiny-imagenet-200.zip", "img_align_celeba.zip"):
        assert name in shown
    assert verified(tmp_path)


def test_progress_bars_and_lines(capsys, monkeypatch):
    from fairbench.data.preparation.progress_bar import progress_bar

    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        with progress_bar("read [train]", 30, "images") as advance:
            advance(30)
    assert "read [train]" in terminal.getvalue()
    assert "30 of 30 images" in terminal.getvalue()
    with progress_bar("check", 2_000_000, "bytes") as advance:
        advance(2_000_000)
    assert "check: 2 MB in" in capsys.readouterr().out
