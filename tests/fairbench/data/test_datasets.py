"""Datasets: what the arrays hold is what the archives hold, each example once, the same from every source."""

import ast
import hashlib
import json
import math
import os
import shutil
import zipfile
from collections import Counter

import archives
import numpy as np
import pytest
from archives import CLASSES, END, hub_folder, write_cifar_hub, write_images
from PIL import Image
from tokenizers import Tokenizer, pre_tokenizers

from fairbench.arenas.gpt import GPT
from fairbench.common.errors import UsageError
from fairbench.data.dataset_config import configs_of, dataset_config
from fairbench.data.datasets.registry import DATASETS
from fairbench.data.formats import delimited_text
from fairbench.data.formats.raw import SPLITS
from fairbench.data.formats.source_files import ASIDE
from fairbench.data.loading import load_source
from fairbench.data.preparation import tokenizer
from fairbench.data.preparation.locate import PrepareOptions
from fairbench.data.preparation.prepare import prepare

pytestmark = pytest.mark.xdist_group("datasets")

WNIDS = ["n01443537", "n01629819", "n02099601"]


def prepared(data_root, dataset, hub=None, unverified=False, **options):
    prepare(dataset_config(dataset, options), PrepareOptions(data_root, hub, unverified=unverified or hub is not None))
    return dataset_config(dataset, options).open(data_root)


def files(data):
    return {path.name: path.read_bytes() for path in data.folder.glob("*.npy")}


def examples(data, *splits):
    pairs = [(data.array(split), data.array(f"{split}_labels")) for split in splits]
    return Counter(
        (image.tobytes(), int(label)) for images, labels in pairs for image, label in zip(images, labels, strict=True)
    )


def truth(images):
    return Counter((pixels.transpose(2, 0, 1).tobytes(), label) for pixels, label in images)


# CIFAR-100


def test_cifar_is_split_without_loss(tmp_path, monkeypatch):
    train, test = archives.noise(66, 3, (32, 32), 0), archives.noise(9, 3, (32, 32), 1)
    archives.write_tar(tmp_path / "cifar100" / "cifar-100-python.tar.gz", archives.cifar_members(train, test, CLASSES))
    archives.register(monkeypatch, "cifar100", tmp_path / "cifar100")
    data = prepared(tmp_path, "cifar100")
    assert (data.array("train").shape, data.array("train").dtype) == ((60, 3, 32, 32), np.uint8)
    assert data.array("val_labels").dtype == np.int64
    assert examples(data, "train", "val") == truth(train)
    assert examples(data, "test") == truth(test)
    assert Counter(data.array("val_labels").tolist()) == {0: 2, 1: 2, 2: 2}
    assert data.manifest["classes"] == CLASSES
    assert data.manifest["counts"]["examples"] == {"train": 60, "val": 6, "test": 9}
    assert (data.manifest["source"], data.manifest["verified"]) == ("archive", True)
    assert data.manifest["files"][0]["sha256"] == DATASETS["cifar100"].archives[0].sha256

    # An image in several splits is kept, as official splits have it, and noted; its label does not matter.
    write_cifar_hub(tmp_path / "shared", train, [*test, (train[4][0], 2), (train[4][0], 0), test[0]])
    shared = prepared(tmp_path / "third", "cifar100", tmp_path / "shared")
    ((pair, count),) = shared.manifest["counts"]["shared"].items()
    assert (pair, count) in (("test also in train", 2), ("test also in val", 2))
    third = load_source({"source": "cifar100"}, tmp_path / "third")
    assert (third.origin, third.shared) == ("hub, not verified", f"images of {pair}: 2")
    assert load_source({"source": "cifar100"}, tmp_path).origin == "archive, verified"

    # Without one image of train, no other image moves between splits.
    write_cifar_hub(tmp_path / "smaller", train[1:], test)
    second = prepared(tmp_path / "second", "cifar100", tmp_path / "smaller")
    assert len(examples(second, "val") - examples(data, "val")) <= 1
    assert examples(data, "val") != truth(train[:6])


# Tiny ImageNet


def tiny_images(count, seed):
    """The first one is grey."""
    images = archives.jpegs(archives.noise(count, 3, (64, 64), seed))
    return [(archives.encoded(np.full((64, 64), 100, np.uint8), "JPEG"), images[0][1]), *images[1:]]


def test_tiny_imagenet_is_split_without_loss(tmp_path, monkeypatch):
    train, val = tiny_images(33, 0), tiny_images(6, 1)
    archives.write_zip(tmp_path / "tiny-imagenet-200.zip", archives.tiny_imagenet_members(train, val, WNIDS))
    archives.register(monkeypatch, "tiny-imagenet", tmp_path)
    data = prepared(tmp_path, "tiny-imagenet")
    assert examples(data, "train", "val") == Counter((archives.decoded(d).tobytes(), label) for d, label in train)
    assert examples(data, "test") == Counter((archives.decoded(d).tobytes(), label) for d, label in val)
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


def bicubic(image, size):
    """Antialiased bicubic resizing as Pillow defines it: Keys' kernel (a = -0.5) widened, rounded between the axes."""

    def weights(old):
        scale = old / size
        centres = (np.arange(size) + 0.5) * scale
        x = np.abs((np.arange(old)[None] + 0.5 - centres[:, None]) / scale)
        w = np.where(x < 1, 1.5 * x**3 - 2.5 * x**2 + 1, np.where(x < 2, -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2, 0))
        return w / w.sum(axis=1, keepdims=True)

    narrow = np.clip(np.einsum("jw,hwc->hjc", weights(image.shape[1]), image.astype(float)), 0, 255).round()
    return np.clip(np.einsum("ih,hjc->cij", weights(image.shape[0]), narrow), 0, 255)


@pytest.fixture
def faces(tmp_path, monkeypatch):
    """Faces by official split, in an archive."""
    rows = np.arange(218)[:, None, None] * np.array([1, 0, 1]) + np.arange(178)[None, :, None] * np.array([0, 1, 1])
    every = [archives.encoded(((rows * (i + 1)) % 256).astype(np.uint8), "JPEG") for i in range(7)]
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
            assert min(np.abs(image - expected).max() for image in small.array(split)) <= 1.0
    assert small.manifest["classes"] == []
    assert "centre 140 x 140; resized to 64 x 64" in small.manifest["pixels"]
    assert small.manifest["counts"]["dropped"] == {"not in the list of partitions": 1}
    assert sorted(small.manifest["arrays"]) == ["test", "train", "val"]


def test_celeba_from_kaggle(tmp_path, faces):
    """Its list is verified by its rows; its archive, which has one more folder, can only be accepted."""
    data = prepared(tmp_path, "celeba", size=32)
    path, table = tmp_path / "list_eval_partition.txt", tmp_path / "list_eval_partition.csv"
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


def test_a_wrong_list_of_partitions_is_named(tmp_path, faces):
    for line, complaint in (
        ("000009.jpg 0", "1 images of the list of partitions are not in"),
        ("000001.jpg 3", "list_eval_partition.txt, line 1: '000001.jpg 3' is not the name"),
        (
            "000001.jpg 0\n000002.jpg 1\n\n000001.jpg 2",
            "line 4: 'img_align_celeba/000001.jpg' is in line 1 already; keep",
        ),
        ("000001.jpg 0".encode("utf-16"), "list_eval_partition.txt is UTF-16, expected UTF-8; save it as UTF-8"),
        (b"000001.jpg 0\n\xe9.jpg 1", "list_eval_partition.txt, line 2: b'\\\\xe9.jp' is not UTF-8"),
    ):
        (tmp_path / "list_eval_partition.txt").write_bytes(line if isinstance(line, bytes) else line.encode())
        with pytest.raises(UsageError, match=complaint):
            prepared(tmp_path, "celeba", unverified=True)


# TinyStories

STORIES = [f"Tom saw {i} cats.\nHe gave each cat {i % 7} fish; «meow», said the cats." for i in range(200)]


def texts(data, split):
    """The texts of a split, from its tokens; each ends with the end token."""
    tokens = data.array(split)
    assert tokens.dtype == np.uint16
    assert tokens[-1] == 256
    *decoded, last = "".join(chr(token) for token in tokens).split(chr(256))
    assert not last
    return [text.encode("latin1").decode() for text in decoded]


def test_each_story_is_in_one_split(tmp_path, monkeypatch):
    trains = [STORIES[0], *STORIES, "", " \n", STORIES[150], STORIES[150]]
    archives.write_stories(tmp_path, trains, [*STORIES[:10], "", STORIES[3], "Only in test."])
    archives.register(monkeypatch, "tinystories", tmp_path)
    data = prepared(tmp_path, "tinystories")
    assert texts(data, "test") == [*STORIES[:10], "Only in test."]
    train, val = texts(data, "train"), texts(data, "val")
    assert sorted(train + val) == sorted(STORIES[10:])
    assert len(val) == 11
    assert train == [story for story in STORIES if story in train]
    assert val != STORIES[10:21]
    assert data.manifest["counts"]["dropped"] == {
        **{"texts of train, empty": 2, "texts of train, repeated": 2, "texts of train, also in another split": 11},
        **{"texts of test, empty": 1, "texts of test, repeated": 1, "texts of test, also in another split": 0},
    }
    assert data.manifest["bytes"] == {
        split: sum(len(story.encode()) for story in texts(data, split)) for split in ("train", "val", "test")
    }
    assert data.manifest["counts"]["tokens"] == {s: len(data.array(s)) for s in ("train", "val", "test")}

    archives.write_stories(tmp_path / "short", STORIES[:50], STORIES[50:])
    archives.register(monkeypatch, "tinystories", tmp_path / "short")
    counts = prepared(tmp_path / "short", "tinystories").manifest["counts"]["examples"]
    assert counts == {"train": 45, "val": 5, "test": 150}  # validation is at most a tenth of train


def test_merges_are_learned_from_train_alone(tmp_path, monkeypatch):
    archives.write_stories(tmp_path, STORIES, ["qzqzqzqz " * 500, "café <|end"])
    archives.register(monkeypatch, "tinystories", tmp_path)
    data = prepared(tmp_path, "tinystories", vocabulary=300)
    written = Tokenizer.from_file(str(data.folder / "tokenizer.json"))
    assert written.get_vocab_size() == 300
    assert data.manifest["tokenizer"]["merges"] == 43
    assert written.id_to_token(257) == "".join(json.loads(written.to_str())["model"]["merges"][0])
    symbols = tokenizer.byte_symbols()
    assert [written.token_to_id(symbol) for symbol in symbols] == list(range(256))
    assert sorted(symbols) == sorted(pre_tokenizers.ByteLevel.alphabet())
    assert not any("q" in token for token in written.get_vocab() if len(token) > 1)
    tests = data.array("test")
    assert tests.max() < 300
    ends = np.flatnonzero(tests == 256)
    assert [written.decode(part.tolist()) for part in np.split(tests, ends + 1)[:2]] == [
        f"{'qzqzqzqz ' * 500}".strip() + "<|endoftext|>",
        "café <|end<|endoftext|>",
    ]
    plain = prepared(tmp_path, "tinystories")
    again = tmp_path / "again.json"
    tokenizer.write_tokenizer(again, [text.encode() for text in texts(plain, "train")], 300)
    assert again.read_bytes() == (data.folder / "tokenizer.json").read_bytes()
    assert data.manifest["tokenizer"]["trained_on"].startswith(f"the {len(texts(plain, 'train'))} texts of the train")
    assert len(data.array("train")) < 0.7 * len(plain.array("train"))
    assert data.manifest["bytes"] == plain.manifest["bytes"]
    loaded = load_source({"source": "tinystories", "vocabulary": 300, "context": 16}, tmp_path)
    bits = {split: GPT().derived({"loss": math.log(2)}, loaded, split)["bits_per_byte"] for split in ("val", "test")}
    sizes = {split: sum(len(text.encode()) for text in texts(plain, split)) for split in bits}
    assert bits == pytest.approx({split: len(data.array(split)) / size for split, size in sizes.items()})
    assert bits["val"] < 0.75 < bits["test"]  # no merge fits the test split


def test_texts_are_cut_alike_however_a_file_is_read(tmp_path, monkeypatch):
    path = tmp_path / "long.txt"
    line = "Once upon a time.\n"
    path.write_bytes(f"\ufeff{line * 20}<|endoftext|>{'é' * 150}<|endoftext|> short <|endoftext|>\n".encode())
    whole = list(delimited_text.split_texts(path, 100))
    for chunk in (1, 7, 64):
        monkeypatch.setattr(delimited_text, "CHUNK", chunk)
        assert list(delimited_text.split_texts(path, 100)) == whole
    assert whole == [*[(line * 5).strip().encode()] * 4, *["é".encode() * 50] * 3, b"short"]


# User data


def test_user_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "disk").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "linked").symlink_to(tmp_path / "disk")
    (tmp_path / "disk" / "circle").symlink_to(tmp_path / "disk")
    for i in range(10):
        archives.stories_file(tmp_path / ("mine", "disk")[i < 5] / f"{i}.txt", STORIES[i * 20 : (i + 1) * 20])
    data = prepared(tmp_path, "text", path="mine")
    assert sorted(text for split in ("train", "val", "test") for text in texts(data, split)) == sorted(STORIES)
    assert data.manifest["counts"]["examples"] == {"train": 180, "val": 10, "test": 10}
    archives.stories_file(tmp_path / "disk" / "0.txt", STORIES[1:20])
    again = prepared(tmp_path, "text", path="mine")
    assert sum(again.manifest["counts"]["examples"].values()) == 199
    (tmp_path / "one.txt").write_text("too short")
    with pytest.raises(
        UsageError, match=r"too few texts for the val split: 1 different ones are there, and 20 or more"
    ):
        prepared(tmp_path, "text", path="one.txt")


def write_texts(folder, contents):
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def as_json(stories):
    return "\n".join(json.dumps({"id": i, "text": story}) for i, story in enumerate(stories))


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ({"train.txt": END.join(STORIES[:150]), "valid.txt": END.join(STORIES[140:])}, (133, 60, 7)),
        ({"a/wiki.train.raw": END.join(STORIES[:150]), "a/wiki.test.raw": END.join(STORIES[150:])}, (135, 15, 50)),
        ({"train-0.jsonl": as_json(STORIES[:90]), "train-1.jsonl": as_json(STORIES[90:])}, (180, 10, 10)),
        ({"stories.txt": as_json(STORIES)}, (180, 10, 10)),
        ({"all.json": json.dumps([{"story": story, "n": {}} for story in STORIES])}, (180, 10, 10)),
        ({"all.csv": "n,text\n" + "".join(f'1,"{story}"\n' for story in STORIES)}, (180, 10, 10)),
    ],
)
def test_user_text_in_splits_and_records(tmp_path, contents, expected):
    write_texts(tmp_path / "mine", {**contents, "notes.md": "", ".hidden.txt": END.join(STORIES)})
    data = prepared(tmp_path, "text", path=str(tmp_path / "mine"))
    found = {split: texts(data, split) for split in SPLITS}
    assert tuple(map(len, found.values())) == expected
    assert sorted(story for split in found.values() for story in split) == sorted(STORIES)
    assert data.manifest["counts"]["dropped"][ASIDE] == 1
    if "valid.txt" in contents:
        assert found["val"] == STORIES[140:]


@pytest.fixture
def pictures(tmp_path):
    """A folder of 40 images in the folders cat and dog."""
    return write_images(tmp_path / "mine", 40, ("cat", "dog"), (20, 30)).parents[1]


def test_user_images(tmp_path, pictures, capsys):
    (pictures / "cat" / "notes.txt").touch()
    (pictures / "outside.png").touch()
    for copy in ("cat/._00.png", "cat/.ipynb_checkpoints/00-checkpoint.png", "__MACOSX/cat/00.png"):
        (pictures / copy).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(pictures / "cat" / "00.png", pictures / copy)
    data = prepared(tmp_path, "images", path=str(pictures), size=20)
    cut = [(pixels[:, 5:25], label) for pixels, label in archives.noise(40, 2, (20, 30), 0)]
    assert examples(data, "train", "val", "test") == truth(cut)
    dropped = {"files that are no images": 1, "images in no class folder": 1, ASIDE: 3}
    assert data.manifest["counts"] == {"examples": {"train": 32, "val": 4, "test": 4}, "dropped": dropped}
    assert data.manifest["classes"] == ["cat", "dog"]

    # Copies, in another format and in another class, too, leave no trace but their number.
    for i in range(0, 40, 2):
        shutil.copy(pictures / "cat" / f"{i:02}.png", pictures / "dog" / f"again {i}.png")
    with Image.open(pictures / "dog" / "01.png") as image:
        image.save(pictures / "dog" / "01.bmp")
    capsys.readouterr()
    again = prepared(tmp_path, "images", path=str(pictures), size=20)
    assert (files(again), again.fingerprint) == (files(data), data.fingerprint)
    assert again.manifest["counts"]["dropped"] == {**dropped, "repeated": 21}
    shown = capsys.readouterr().out
    assert f"  left out, images in no class folder: 1\n  left out, {ASIDE}: 3\n  left out, repeated: 21\n" in shown
    assert "train 32, val 4, test 4; classes: cat, dog\n" in shown

    (pictures / "outside.png").unlink()
    for path in pictures.glob("*/*.png"):
        path.rename(pictures / path.name)
    for folder in ("cat", "dog"):
        (pictures / folder).rename(tmp_path / f".{folder}")
    without = prepared(tmp_path, "images", path=str(pictures), size=20)
    assert without.manifest["counts"]["examples"] == {"train": 32, "val": 4, "test": 4}
    assert not without.manifest["classes"]
    assert "train_labels" not in without.manifest["arrays"]


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        ("train/cat train/dog val/cat val/dog test/cat test/dog", {"train": 20, "val": 20, "test": 20}),
        ("pics/Training/cat pics/Training/dog pics/Testing/cat pics/Testing/dog", {"train": 18, "val": 2, "test": 20}),
        ("a_train/a_train/cat a_train/a_train/dog a_valid/a_valid/dog", {"train": 18, "val": 10, "test": 2}),
        ("cat/train cat/test dog/train dog/test dog/dev", {"train": 20, "val": 10, "test": 20}),
        ("train/cat train/dog", {"train": 16, "val": 2, "test": 2}),
        ("train car bus", ["bus", "car", "train"]),
        ("train test", []),
    ],
)
def test_layouts_of_user_images(tmp_path, folders, expected):
    """Those of torchvision, imagefolder and Kaggle; ten images in each folder, the first one in all."""
    folders = folders.split()
    path = write_images(tmp_path / "mine", 10 * len(folders), folders, (8, 8))
    if isinstance(expected, dict):  # a copy in train of an image of another split is left out
        shutil.copy(path, tmp_path / "mine" / max(x for x in folders if "rain" in x) / "copy.png")
    data = prepared(tmp_path, "images", path=str(tmp_path / "mine"), size=8)
    assert data.manifest["classes"] == (["cat", "dog"] if isinstance(expected, dict) else expected)
    if isinstance(expected, dict):
        assert data.manifest["counts"]["examples"] == expected
        assert data.manifest["counts"]["dropped"]["repeated"] == 1
    if "val/dog" in folders:
        inside = {archives.decoded(x.read_bytes()).tobytes() for x in (tmp_path / "mine" / "val").rglob("*.png")}
        assert {image.tobytes() for image in data.array("val")} == inside


def test_folders_that_cannot_be_split_are_named(tmp_path, check_errors):
    """Each case is the contents of text files by their names, or the folders of images."""

    def prepare_folder(case):
        dataset, what = ast.literal_eval(case)
        folder = tmp_path / "mine"
        shutil.rmtree(folder, ignore_errors=True)
        if dataset == "text":
            write_texts(folder, what)
        else:
            write_images(folder, 10 * len(what.split()), what.split(), (8, 8))
        prepared(tmp_path, dataset, path=str(folder))

    check_errors("folders.txt", prepare_folder, UsageError, lambda text: text.replace(str(tmp_path), "HERE"))


def alone(pictures):
    shutil.rmtree(pictures / "dog")


def few(pictures):
    for i in range(12, 40, 2):
        shutil.copy(pictures / "cat" / "00.png", pictures / "cat" / f"{i:02}.png")


def unreadable_name(pictures):
    (pictures / "cat" / "00.png").rename(os.fsdecode(bytes(pictures / "cat") + b"/caf\xe9.png"))


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (alone, r"mine has one class folder, 'cat'; .* for images without labels give path = '.*mine/cat'"),
        (lambda folder: (folder / "bird").mkdir(), r"the folder .*mine/bird contains no images; .* or remove it"),
        (unreadable_name, r"the name of '.*/caf\\udce9.png' is not UTF-8; rename it"),
        (few, r"class 'cat' has 6 different training images; a split in tenths needs at least 10"),
        (
            lambda folder: (folder / "cat" / "big.pbm").write_bytes(b"P4\n14000 14000\n" + bytes(14000 * 1750)),
            r"cat/big.pbm is too large: Image size \(196000000 pixels\) exceeds limit of 178956970 pixels; make it",
        ),
        (
            lambda folder: Image.fromarray(np.full((20, 20), 300, np.uint16)).save(folder / "cat" / "deep.png"),
            r"cat/deep.png has more than 8 bits per pixel value \(Pillow's mode I.*\), .*; convert it to 8 bits",
        ),
    ],
)
def test_user_images_that_cannot_be_used_are_named(tmp_path, pictures, spoil, complaint):
    spoil(pictures)
    with pytest.raises(UsageError, match=complaint) as raised:
        prepared(tmp_path, "images", path=str(pictures), size=20)
    str(raised.value).encode()  # a terminal can show it


# Both sources


def write_sources(dataset, folder, mirror):
    """A dataset as its authors and as the hub have it, in another order."""
    sides = {"cifar100": (32, 32), "tiny-imagenet": (64, 64), "celeba": (218, 178)}
    train, test = ([] if dataset == "tinystories" else archives.noise(n, 3, sides[dataset], n) for n in (33, 6))
    if dataset == "cifar100":
        archives.write_tar(folder / "cifar-100-python.tar.gz", archives.cifar_members(train, test, CLASSES))
        write_cifar_hub(mirror, train[::-1], test[3:] + test[:3])
    elif dataset == "tiny-imagenet":
        images, others = archives.jpegs(train), archives.jpegs(test)
        archives.write_zip(folder / "tiny-imagenet-200.zip", archives.tiny_imagenet_members(images, others, WNIDS))
        archives.write_tiny_hub(mirror, images[::-1], others[::-1], WNIDS)
    elif dataset == "celeba":
        faces = [data for data, _ in archives.jpegs(test)]
        splits = {"train": faces[:2], "val": faces[2:4], "test": faces[4:]}
        archives.write_faces(folder, splits)
        archives.write_faces_hub(mirror, splits)
    else:
        for place in (folder, hub_folder(mirror, dataset)):
            archives.write_stories(place, ["", *STORIES], STORIES[:5], "")


@pytest.mark.parametrize(
    ("dataset", "options"),
    [
        ("cifar100", {}), ("tiny-imagenet", {}), ("celeba", {"size": 32}), ("tinystories", {"version": "V1"}),
        ("tinystories", {"version": "V1", "vocabulary": 300}),
    ],
)  # fmt: skip
def test_a_dataset_is_the_same_from_both_sources(tmp_path, monkeypatch, dataset, options):
    write_sources(dataset, tmp_path, tmp_path / "mirror")
    archives.register(monkeypatch, dataset, tmp_path)
    if dataset == "celeba":  # fairbench knows the names of all its files
        archives.register_hub(monkeypatch, tmp_path / "mirror")
    data = prepared(tmp_path, dataset, **options)
    of_hub = prepared(tmp_path / "other", dataset, tmp_path / "mirror", **options)
    assert files(of_hub) == files(data)
    assert of_hub.fingerprint == data.fingerprint
    assert (of_hub.manifest["source"], of_hub.manifest["revision"]) == ("hub", DATASETS[dataset].revision)
    assert (data.manifest["source"], data.manifest["verified"]) == ("archive", True)
    for part in ("classes", "tokenizer"):
        assert of_hub.manifest.get(part) == data.manifest.get(part)


# Configurations


def test_each_dataset_that_arenas_read_is_named_once():
    tables = [
        {"source": "tinystories", "vocabulary": 4096, "context": 128}, {"source": "cifar100"},
        {"source": "cifar100", "image_size": 32}, {"source": "digits", "size": 8}, {"image_size": 8},
    ]  # fmt: skip
    assert configs_of(tables) == [dataset_config("tinystories", {"vocabulary": 4096}), dataset_config("cifar100")]
