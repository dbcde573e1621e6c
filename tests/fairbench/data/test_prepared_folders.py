"""The folder of prepared arrays may hold other files, belong to another user, or be a link to another disk."""

import shutil
import tempfile
from pathlib import Path

import pytest
from small_cifar import check_data, cifar, of_cifar, suite_of_cifar
from users import as_user, needs_root

from fairbench.cli.main import main
from fairbench.common.errors import UsageError
from fairbench.data.dataset_config import dataset_config
from fairbench.data.preparation.prepare import PrepareOptions, prepare

pytestmark = pytest.mark.xdist_group("datasets")


def times_of_files(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["notes.txt", "backup", "train.npy.old"])
def test_a_users_own_file_is_kept(tmp_path, folder, command, name):
    if name == "backup":
        (folder / name).mkdir()
    else:
        (folder / name).write_text("mine")
    before = times_of_files(folder)
    said = command(*of_cifar("prepare", tmp_path, "--again"), code=2)
    assert f"{folder} has files that fairbench did not write ({name})" in said
    assert times_of_files(folder) == before
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
        Path(root).chmod(0o777)
        copies = Path(root) / "prepared"
        copies.mkdir()
        copies.chmod(0o777)
        shutil.copytree(folder, copies / "cifar100").chmod(0o700)

        def refused():
            with pytest.raises(UsageError) as raised:
                prepare(dataset_config("cifar100"), PrepareOptions(Path(root)))
            return str(raised.value)

        refusal = "is another user's; let its owner prepare it and make it readable, or choose another --data-root"
        assert as_user(1001, 0o022, refused) == f"{copies / 'cifar100'} {refusal}"


def test_a_dataset_may_be_a_link_to_another_disk(tmp_path, archive):
    root = tmp_path / "data"
    disk = tmp_path / "disk"
    (root / "prepared").mkdir(parents=True)
    disk.mkdir()
    (root / "cifar100").symlink_to(tmp_path)  # of archives
    link = root / "prepared" / "cifar100"
    link.symlink_to(disk / "arrays")  # which is not there yet
    for words in ([], ["--again"]):
        assert cifar("prepare", root, *words) == 0
        check_data(suite_of_cifar(), root)
        assert main(["data", "verify", "--data-root", str(root)]) == 0
        assert link.is_symlink()
        assert (disk / "arrays" / "manifest.json").exists()
        assert [path.name for path in link.parent.iterdir()] == ["cifar100"]
