"""The files of a folder: links between folders are followed, but never in a circle."""

from fairbench.data.formats.source_files import files_in


def test_two_folders_that_link_to_each_other_are_read_once_in_each(tmp_path):
    """Each folder is also read as a part of the other one, but not again inside of that."""
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").touch()
    (tmp_path / "cat" / "friend").symlink_to(tmp_path / "dog")
    (tmp_path / "dog" / "friend").symlink_to(tmp_path / "cat")

    names = [file.relative_to(tmp_path).as_posix() for file in files_in(tmp_path)]

    assert names == ["cat/cat.txt", "cat/friend/dog.txt", "dog/dog.txt", "dog/friend/cat.txt"]


def test_a_link_out_of_the_folder_does_not_lead_back_into_it(tmp_path):
    mine = tmp_path / "mine"
    disk = tmp_path / "disk"
    for folder in (mine, disk):
        folder.mkdir()
        (folder / "a.txt").touch()
    (mine / "disk").symlink_to(disk)
    (disk / "everything").symlink_to(tmp_path)

    assert files_in(mine) == [mine / "a.txt", mine / "disk" / "a.txt"]
