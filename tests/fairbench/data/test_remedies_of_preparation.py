"""Every command that a message on data names does what the message says."""

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
        config.prepared(tmp_path)
    (command,) = offered(str(raised.value))
    assert command[-4:] == ["--set", 'version="V1"', "--set", "vocabulary=300"]
    assert main(command) == 0
    assert config.prepared(tmp_path).manifest["verified"]


# A wrong archive of the authors


def write_wrong_archive(archive, extra):
    """Replace CIFAR-100's archive by one with an extra file; different names give different archives."""
    archives.write_tar(archive, {**MEMBERS, extra: b""})


def test_the_remedy_for_a_wrong_archive_works(tmp_path, archive, command):
    """Arrays of an earlier wrong archive do not count as those of a new one."""
    genuine = archive.read_bytes()
    write_wrong_archive(archive, "one")
    assert cifar("prepare", tmp_path, "--unverified") == 0
    write_wrong_archive(archive, "two")

    refusal = command(*of_cifar("prepare", tmp_path), code=2)

    get_the_archive, _, _ = refusal.partition("; or accept")
    prepare_it, _ = offered(get_the_archive)
    second_place = tmp_path / "cifar100" / archive.name
    second_place.parent.mkdir()
    second_place.write_bytes(genuine)  # the wrong archive is still in the first place
    assert main(prepare_it) == 0
    assert verified(tmp_path)


@pytest.mark.parametrize("flags", [[], ["--unverified"]], ids=["verified", "unverified"])
def test_two_wrong_copies_of_an_archive_are_refused(tmp_path, archive, command, flags):
    second = tmp_path / "cifar100" / archive.name
    write_wrong_archive(archive, "one")
    write_wrong_archive(second, "two")

    refusal = command(*of_cifar("prepare", tmp_path, *flags), code=2)

    assert f"{archive} and {second} are there, and none is known to be right; move one away" in refusal


def test_the_remedy_for_an_archive_without_the_files_works(tmp_path, archive, command):
    genuine = archive.read_bytes()
    archives.write_tar(archive, {})

    refusal = command(*of_cifar("prepare", tmp_path, "--unverified"), code=2)

    assert "it is a different archive, or a different version of it; get cifar-100-python.tar.gz from" in refusal
    prepare_it, _ = offered(refusal)
    second_place = tmp_path / "cifar100" / archive.name
    second_place.parent.mkdir()
    second_place.write_bytes(genuine)
    assert main(prepare_it) == 0
    assert verified(tmp_path)


# Arrays that are damaged or not verified


def corrupt(data_root, folder):
    """Change a bit of the test split so that neither sizes nor times show it, as a failing disk does."""
    content = bytearray((folder / "test.npy").read_bytes())
    content[-7] ^= 1
    (folder / "test.npy").write_bytes(content)
    # A check that finds no difference records the new times of the files.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Prepared, "differences", lambda self: iter(()))
        dataset_config("cifar100").prepared(data_root, check_content=True)


def verify(command, data_root, code=0):
    """The report of `fairbench data verify` on all datasets."""
    return command("data", "verify", "--data-root", str(data_root), code=code)


@pytest.fixture
def refusal(tmp_path, folder, archive, command):
    """The refusal of a wrong archive, of which the arrays are then prepared nevertheless."""
    write_wrong_archive(archive, "cifar-100-python/file.txt~")
    message = command(*of_cifar("prepare", tmp_path, "--again"), code=2)
    assert cifar("prepare", tmp_path, "--again", "--unverified") == 0
    assert not verified(tmp_path)
    return message


def test_the_remedy_for_a_damaged_array_works(tmp_path, folder, command):
    corrupt(tmp_path, folder)
    assert "is already prepared" in command(*of_cifar("prepare", tmp_path))

    report = verify(command, tmp_path, code=1)

    assert f"{folder / 'test.npy'} has sha256 " in report
    (prepare_again,) = offered(report)
    assert prepare_again[-1] == "--again"
    assert main(prepare_again) == 0
    assert verify(command, tmp_path) == f"{folder}: intact\n"
    assert verified(tmp_path)


def test_the_remedy_for_a_damaged_array_that_is_not_verified_works(tmp_path, folder, refusal, command):
    assert refusal.endswith("or accept it: run the same command with --unverified\n")
    corrupt(tmp_path, folder)

    (prepare_again,) = offered(verify(command, tmp_path, code=1))

    assert prepare_again[-2:] == ["--again", "--unverified"]
    assert main(prepare_again) == 0
    assert f"{folder}: intact, but not verified" in verify(command, tmp_path)


def test_the_genuine_archive_replaces_what_is_not_verified(tmp_path, folder, archive, command):
    """The refusal, a new preparation and the verification name the same command for it."""
    genuine = archive.read_bytes()
    fingerprint = dataset_config("cifar100").prepared(tmp_path).fingerprint
    write_wrong_archive(archive, "cifar-100-python/file.txt~")
    refusal = command(*of_cifar("prepare", tmp_path, "--again"), code=2)
    assert cifar("prepare", tmp_path, "--again", "--unverified") == 0

    get_the_archive, _, _ = refusal.partition("; or move")
    (prepare_it,) = offered(get_the_archive)
    prepared = command(*of_cifar("prepare", tmp_path))
    assert "cifar100: is already prepared" in prepared
    assert offered(prepared) == [prepare_it]
    report = verify(command, tmp_path)
    assert f"{folder}: intact, but not verified; get cifar-100-python.tar.gz from {FACTS.page}, put it" in report
    assert offered(report) == [prepare_it]

    archive.write_bytes(genuine)
    assert "prepared again, since it is not verified, and files with the known hashes are there" in command(*prepare_it)
    assert verified(tmp_path)
    assert dataset_config("cifar100").prepared(tmp_path).fingerprint == fingerprint
    assert f"{folder}: intact\n" in verify(command, tmp_path)


def test_verifying_a_dataset_that_is_not_prepared_names_the_command(tmp_path, command):
    report = command("data", "verify", "--data-root", str(tmp_path), "--dataset", "celeba", code=2)
    assert "is not prepared; celeba (size 64, crop 140) is prepared by: fairbench data download" in report
