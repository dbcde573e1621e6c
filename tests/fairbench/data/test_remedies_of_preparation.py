"""Every command that a message on data names does what the message says."""

import shutil

import archives
import pytest
from small_cifar import FACTS, MEMBERS, cifar, of_cifar, offered, verified

from fairbench.cli.main import main
from fairbench.common.errors import UsageError
from fairbench.data.dataset_config import dataset_config
from fairbench.data.prepared import Prepared

pytestmark = pytest.mark.xdist_group("datasets")


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
    def refused(*words):
        return command(*of_cifar("prepare", tmp_path, *words), code=2)

    genuine = archive.read_bytes()
    second = tmp_path / "cifar100" / archive.name
    archives.write_tar(archive, {**MEMBERS, "one": b""})
    assert cifar("prepare", tmp_path, "--unverified") == 0

    archives.write_tar(archive, {**MEMBERS, "two": b""})  # the old arrays are not those of this archive
    before_accepting, _, _ = refused().partition("; or accept")
    prepare_it, _ = offered(before_accepting)

    archives.write_tar(second, {**MEMBERS, "three": b""})
    neither = f"{archive} and {second} are there, and none is known to be right; move one away"
    assert neither in refused()
    assert neither in refused("--unverified")

    second.write_bytes(genuine)  # where the message says, while a wrong one is in the other place
    assert main(prepare_it) == 0
    assert verified(tmp_path)

    second.unlink()
    archives.write_tar(archive, {})
    message = refused("--again", "--unverified")
    assert "it is a different archive, or a different version of it; get cifar-100-python.tar.gz from" in message
    shutil.rmtree(tmp_path / "prepared" / "cifar100")
    prepare_it, _ = offered(message)
    second.write_bytes(genuine)
    assert main(prepare_it) == 0
    assert verified(tmp_path)


def decay(data_root, folder):
    """Change a bit so that neither size nor times show it, as if the disk had lost it."""
    content = bytearray((folder / "test.npy").read_bytes())
    content[-7] ^= 1
    (folder / "test.npy").write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Prepared, "differences", lambda self: iter(()))
        dataset_config("cifar100").open(data_root, check_content=True)


def test_every_way_out_of_doubtful_data_works(tmp_path, folder, archive, command):
    def shown(*words, code=0):
        return command("data", *words, code=code)

    root = ["--data-root", str(tmp_path)]
    prepare_cifar = ["prepare", *root, "--dataset", "cifar100"]
    assert f"{folder}: intact\n" in shown("verify", *root)
    fingerprint = dataset_config("cifar100").open(tmp_path).fingerprint

    decay(tmp_path, folder)
    assert "is already prepared" in shown(*prepare_cifar)
    report = shown("verify", *root, code=1)
    assert f"{folder / 'test.npy'} has sha256 " in report
    (again,) = offered(report)
    assert again[-1] == "--again"
    assert main(again) == 0
    assert shown("verify", *root) == f"{folder}: intact\n"
    assert verified(tmp_path)

    genuine = archive.read_bytes()
    archives.write_tar(archive, {**MEMBERS, "cifar-100-python/file.txt~": b""})
    refused = shown(*prepare_cifar, "--again", code=2)
    assert refused.endswith("or accept it: run the same command with --unverified\n")
    assert main(["data", *prepare_cifar, "--again", "--unverified"]) == 0
    assert not verified(tmp_path)
    decay(tmp_path, folder)
    (again,) = offered(shown("verify", *root, code=1))
    assert again[-2:] == ["--again", "--unverified"]
    assert main(again) == 0

    # The authors' archive replaces what is not verified, by the command that each of these names.
    prepared = shown(*prepare_cifar)
    assert "cifar100: is already prepared" in prepared
    intact = shown("verify", *root)
    assert f"{folder}: intact, but not verified; get cifar-100-python.tar.gz from {FACTS.page}, put it" in intact
    before_moving, _, _ = refused.partition("; or move")
    (prepare,) = offered(before_moving)
    assert offered(prepared) == [prepare]
    assert offered(intact) == [prepare]
    archive.write_bytes(genuine)
    assert "prepared again, since it is not verified, and files with the known hashes are there" in command(*prepare)
    assert verified(tmp_path)
    assert dataset_config("cifar100").open(tmp_path).fingerprint == fingerprint
    assert f"{folder}: intact\n" in shown("verify", *root)
    missing = shown("verify", *root, "--dataset", "celeba", code=2)
    assert "is not prepared; celeba (size 64, crop 140) is prepared by: fairbench data download" in missing
