"""Data files, altered at random: every outcome is arrays, or an error of one line. `make soak` tries thousands."""

import gzip
import os
import random
import shutil
import time

import archives
import pytest

from fairbench.common.errors import UsageError
from fairbench.data.dataset_config import dataset_config
from fairbench.data.preparation.prepare import PrepareOptions, prepare
from fairbench.data.prepared import read_folder

pytestmark = pytest.mark.xdist_group("datasets")

TRAIN, TEST = archives.noise(33, 3, (32, 32), 0), archives.noise(6, 3, (32, 32), 1)
PHOTOS = archives.jpegs(archives.noise(33, 3, (64, 64), 0))
WORDS = (b"\xff\xfe", b"-1", b"null", b"\0", b"[" * 3000, b"\n", b"\xff" * 8, b"9" * 30)


def altered(data, chance):
    """Bytes cut short, replaced, left out, repeated or inserted."""
    i, j = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    j = min(j, i + chance.choice((1, 4, 30, 10**9)))
    flipped = bytes(chance.randrange(256) for _ in range(min(j - i, 4)))
    parts = (data[:i], data[:i] + flipped + data[i + len(flipped) :], data[:i] + data[j:], data[:j] + data[i:])
    return chance.choice((*parts, data[:i] + chance.choice(WORDS) + data[i:]))


def altered_member(members, chance):
    name = chance.choice(sorted(members))
    return {**members, name: altered(members[name], chance)}


def altered_file(path, chance):
    path.write_bytes(altered(path.read_bytes(), chance))


def tar(folder, chance):
    members, inside = archives.cifar_members(TRAIN, TEST, archives.CLASSES), chance.randrange(3)
    path = archives.write_tar(
        folder / "cifar-100-python.tar.gz", altered_member(members, chance) if inside == 0 else members
    )
    if inside == 1:
        path.write_bytes(gzip.compress(altered(gzip.decompress(path.read_bytes()), chance), 1))
    elif inside == 2:
        altered_file(path, chance)
    return "cifar100"


def zipped(folder, chance):
    members, inside = archives.tiny_imagenet_members(PHOTOS, PHOTOS[:6], archives.CLASSES), chance.randrange(3)
    path = archives.write_zip(folder / "tiny-imagenet-200.zip", altered_member(members, chance) if inside else members)
    if not inside:
        altered_file(path, chance)
    return "tiny-imagenet"


def faces(folder, chance):
    archives.write_zip(folder / "img_align_celeba.zip", {"img_align_celeba/1.jpg": PHOTOS[0][0]})
    (folder / "list_eval_partition.txt").write_bytes(altered(b"1.jpg 0\n", chance))
    return "celeba"


def hub(folder, chance):
    path = archives.write_cifar_hub(folder / "hub", TRAIN, TEST)
    altered_file(chance.choice(sorted(path.rglob("*.parquet"))), chance)
    return "cifar100"


def stories(folder, chance):
    for split in ("train", "valid"):
        path = archives.stories_file(folder / f"TinyStoriesV2-GPT4-{split}.txt", [f"{split} {i} é" for i in range(40)])
        altered_file(path, chance)
    return "tinystories"


def image(folder, chance):
    kind = chance.choice(("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM", "ICO", "TGA", "PCX"))
    for i, (pixels, _) in enumerate(TRAIN[:31]):
        (folder / "photos").mkdir(exist_ok=True)
        name = f"photos/{i}.{'bmp' if i else kind.lower()}"
        data = archives.encoded(pixels, "BMP" if i else kind)
        (folder / name).write_bytes(data if i else altered(data, chance))
    return "images"


def outcome(written, seed, folder):
    """Prepare a dataset from altered files, and open its arrays, one of which is altered, too; returns the error."""
    chance = random.Random(f"{written.__name__} {seed}")
    folder.mkdir()
    dataset = written(folder, chance)
    options = {"path": str(folder / "photos"), "size": 16} if dataset == "images" else {}
    config = dataset_config(dataset, options)
    try:
        prepare(config, PrepareOptions(folder, folder / "hub" if written is hub else None, unverified=True))
        arrays = sorted(config.folder(folder).glob("*.npy"))
        chosen = chance.choice([*arrays, config.folder(folder) / "manifest.json"])
        data = chosen.read_bytes()
        chosen.write_bytes(altered(data[:200], chance) + data[200:])
        list(read_folder(config.folder(folder), config.options).differences())
    except UsageError as error:
        return str(error)
    return ""


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("written", [tar, zipped, faces, hub, stories, image])
def test_altered_files_are_read_or_refused(tmp_path, written):
    first = int(os.environ.get("SOAK_SEED", time.time()))
    for seed in range(first, first + 300):
        try:
            assert "\n" not in outcome(written, seed, tmp_path / "files")
        except Exception as error:
            pytest.fail(f"SOAK_SEED={seed} repeats it: {type(error).__name__}: {error}")
        finally:
            shutil.rmtree(tmp_path / "files")
