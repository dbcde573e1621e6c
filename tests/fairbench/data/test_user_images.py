"""A user's images: class folders, split folders, copies, and what cannot be used."""

import ast
import os
import shutil
from dataclasses import dataclass

import archives
import numpy as np
import pytest
from archives import write_images
from PIL import Image
from prepared_data import examples, files, prepared, truth, write_texts

from fairbench.common.errors import UsageError
from fairbench.data.formats.source_files import ASIDE

pytestmark = pytest.mark.xdist_group("datasets")


@pytest.fixture
def pictures(tmp_path):
    """A folder of 40 images in the folders cat and dog."""
    write_images(tmp_path / "mine", 40, ("cat", "dog"), (20, 30))
    return tmp_path / "mine"


LEFT_OUT = {"files that are no images": 1, "images in no class folder": 1, ASIDE: 3}


@pytest.fixture
def untidy(pictures):
    """The pictures with a note, an image outside of the folders, and three hidden copies."""
    (pictures / "cat" / "notes.txt").touch()
    (pictures / "outside.png").touch()
    for name in ("cat/._00.png", "cat/.ipynb_checkpoints/00-checkpoint.png", "__MACOSX/cat/00.png"):
        copy = pictures / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(pictures / "cat" / "00.png", copy)
    return pictures


def test_user_images(tmp_path, untidy):
    data = prepared(tmp_path, "images", path=str(untidy), size=20)
    cut = [(pixels[:, 5:25], label) for pixels, label in archives.noise(40, 2, (20, 30), 0)]
    assert examples(data, "train", "val", "test") == truth(cut)
    assert data.manifest["counts"]["examples"] == {"train": 32, "val": 4, "test": 4}
    assert data.manifest["counts"]["dropped"] == LEFT_OUT
    assert data.manifest["classes"] == ["cat", "dog"]


def test_copies_of_user_images_leave_no_trace_but_their_number(tmp_path, untidy, capsys):
    """Also in another format and in another class."""
    data = prepared(tmp_path, "images", path=str(untidy), size=20)
    before = files(data)
    for i in range(0, 40, 2):
        shutil.copy(untidy / "cat" / f"{i:02}.png", untidy / "dog" / f"again {i}.png")
    with Image.open(untidy / "dog" / "01.png") as image:
        image.save(untidy / "dog" / "01.bmp")
    capsys.readouterr()
    again = prepared(tmp_path, "images", path=str(untidy), size=20)
    assert files(again) == before
    assert again.fingerprint == data.fingerprint
    assert again.manifest["counts"]["dropped"] == {**LEFT_OUT, "repeated": 21}
    shown = capsys.readouterr().out
    assert f"  left out, images in no class folder: 1\n  left out, {ASIDE}: 3\n  left out, repeated: 21\n" in shown
    assert "train 32, val 4, test 4; classes: cat, dog\n" in shown


def test_user_images_without_classes(tmp_path, pictures):
    for path in pictures.glob("*/*.png"):
        path.rename(pictures / path.name)
    (pictures / "cat").rmdir()
    (pictures / "dog").rmdir()
    data = prepared(tmp_path, "images", path=str(pictures), size=20)
    assert data.manifest["counts"]["examples"] == {"train": 32, "val": 4, "test": 4}
    assert not data.manifest["classes"]
    assert "train_labels" not in data.manifest["arrays"]


@dataclass
class Layout:
    """Folders of ten images each, and the number of images in each split of them."""

    folders: str
    train: int
    val: int
    test: int


LAYOUTS = [
    Layout("train/cat train/dog val/cat val/dog test/cat test/dog", train=20, val=20, test=20),
    Layout("pics/Training/cat pics/Training/dog pics/Testing/cat pics/Testing/dog", train=18, val=2, test=20),
    Layout("a_train/a_train/cat a_train/a_train/dog a_valid/a_valid/dog", train=18, val=10, test=2),
    Layout("cat/train cat/test dog/train dog/test dog/dev", train=20, val=10, test=20),
    Layout("train/cat train/dog", train=16, val=2, test=2),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.folders)
def test_layouts_of_user_images(tmp_path, layout):
    """Those of torchvision, imagefolder and Kaggle; a copy in train of an image of another split is left out."""
    root = tmp_path / "mine"
    folders = layout.folders.split()
    last = write_images(root, 10 * len(folders), folders, (8, 8))
    folder_of_train = max(name for name in folders if "rain" in name)
    shutil.copy(last, root / folder_of_train / "copy.png")
    data = prepared(tmp_path, "images", path=str(root), size=8)
    assert data.manifest["classes"] == ["cat", "dog"]
    assert data.manifest["counts"]["examples"] == {"train": layout.train, "val": layout.val, "test": layout.test}
    assert data.manifest["counts"]["dropped"]["repeated"] == 1
    if "val/dog" in folders:
        expected = {archives.decoded(path.read_bytes()).tobytes() for path in (root / "val").rglob("*.png")}
        assert {image.tobytes() for image in data.array("val")} == expected


@pytest.mark.parametrize(
    ("folders", "classes"),
    [
        ("train car bus", ["bus", "car", "train"]),
        ("train test", []),
    ],
)
def test_folders_that_are_named_as_splits_may_be_classes_and_splits_may_have_none(tmp_path, folders, classes):
    names = folders.split()
    write_images(tmp_path / "mine", 10 * len(names), names, (8, 8))
    data = prepared(tmp_path, "images", path=str(tmp_path / "mine"), size=8)
    assert data.manifest["classes"] == classes


def test_folders_that_cannot_be_split_are_named(tmp_path, check_errors):
    """Each case is the contents of text files by their names, or the folders of images."""

    def prepare_folder(case):
        dataset, contents = ast.literal_eval(case)
        folder = tmp_path / "mine"
        shutil.rmtree(folder, ignore_errors=True)
        if dataset == "text":
            write_texts(folder, contents)
        else:
            names = contents.split()
            write_images(folder, 10 * len(names), names, (8, 8))
        prepared(tmp_path, dataset, path=str(folder))

    check_errors("folders.txt", prepare_folder, UsageError, lambda text: text.replace(str(tmp_path), "HERE"))


def remove_a_class(pictures):
    shutil.rmtree(pictures / "dog")


def make_most_images_equal(pictures):
    for i in range(12, 40, 2):
        shutil.copy(pictures / "cat" / "00.png", pictures / "cat" / f"{i:02}.png")


def add_an_empty_folder(pictures):
    (pictures / "bird").mkdir()


def make_a_name_unreadable(pictures):
    (pictures / "cat" / "00.png").rename(os.fsdecode(bytes(pictures / "cat") + b"/caf\xe9.png"))


def add_a_large_image(pictures):
    (pictures / "cat" / "big.pbm").write_bytes(b"P4\n14000 14000\n" + bytes(14000 * 1750))


def add_an_image_with_16_bits(pictures):
    image = Image.fromarray(np.full((20, 20), 300, np.uint16))
    image.save(pictures / "cat" / "deep.png")


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (remove_a_class, r"mine has one class folder, 'cat'; .* for images without labels give path = '.*mine/cat'"),
        (add_an_empty_folder, r"the folder .*mine/bird contains no images; .* or remove it"),
        (make_a_name_unreadable, r"the name of '.*/caf\\udce9.png' is not UTF-8; rename it"),
        (make_most_images_equal, r"class 'cat' has 6 different training images; a split in tenths needs at least 10"),
        (
            add_a_large_image,
            r"cat/big.pbm is too large: Image size \(196000000 pixels\) exceeds limit of 178956970 pixels; make it",
        ),
        (
            add_an_image_with_16_bits,
            r"cat/deep.png has more than 8 bits per pixel value \(Pillow's mode I.*\), .*; convert it to 8 bits",
        ),
    ],
)
def test_user_images_that_cannot_be_used_are_named(tmp_path, pictures, spoil, complaint):
    spoil(pictures)
    with pytest.raises(UsageError, match=complaint) as raised:
        prepared(tmp_path, "images", path=str(pictures), size=20)
    str(raised.value).encode()  # a terminal can show it
