"""CelebA: JPEG files in the authors' archive and a list of partitions, or the hub's parquet."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.data.formats import parquet
from fairbench.data.formats.archive import Members, image_split, open_zip
from fairbench.data.formats.delimited_text import read_list
from fairbench.data.formats.image_decoding import decoding_steps
from fairbench.data.formats.raw import SPLITS, Images, ImageSplit
from fairbench.data.formats.source_files import SourceFiles

FOLDER = "img_align_celeba"
"""The folder of the images in the authors' archive. In Kaggle's archive, the images are in a second folder of this
name inside of the first one."""


def read(source: SourceFiles, options: Mapping[str, Any]) -> Images:
    """The faces, cropped and resized, in the official splits."""
    size = options["size"]
    crop = options["crop"]
    dropped: dict[str, int] = {}
    if source.kind == "archive":
        splits, dropped = _from_archive(source, crop, size)
    else:
        splits = _from_hub(source, crop, size)
    return Images((3, size, size), splits, processing=decoding_steps(crop, size), dropped=dropped)


def _from_hub(source: SourceFiles, crop: int, size: int) -> dict[str, ImageSplit]:
    """The official splits."""
    splits = {}
    for split in SPLITS:
        paths = source.of_split(split)
        splits[split] = parquet.image_split(paths, "image", crop=crop, size=size)
    return splits


def _from_archive(source: SourceFiles, crop: int, size: int) -> tuple[dict[str, ImageSplit], dict[str, int]]:
    """The official splits, and the number of images that are in none of them, by reason."""
    path = source.path("img_align_celeba.zip")
    with open_zip(path) as members:
        is_nested = any(name.startswith(f"{FOLDER}/{FOLDER}/") for name in members.names)
        folder = f"{FOLDER}/{FOLDER}" if is_nested else FOLDER
        listed = _partitions(source.path("list_eval_partition.txt"), folder)
        dropped = _unlisted_images(members, listed)
    splits = {}
    for split, names in listed.items():
        images = [(name, 0) for name in names]  # the images have no labels
        splits[split] = image_split(path, images, crop, size)
    return splits, dropped


def _partitions(path: Path, folder: str) -> dict[str, list[str]]:
    """The names of the images of each split, from a list of lines `name number`.

    Kaggle's list is a CSV with the header `image_id,partition`. The numbers 0, 1 and 2 stand for train, val and test.
    """
    # The last word is that of the header, which names no image.
    split_of_number = {"0": "train", "1": "val", "2": "test", "partition": ""}

    def parse(line: str) -> tuple[str, str]:
        name, number = line.replace(",", " ").split()
        return f"{folder}/{name}", split_of_number[number]

    entries = read_list(path.read_bytes(), str(path), parse, "the name of an image and 0, 1 or 2")
    listed: dict[str, list[str]] = {split: [] for split in SPLITS}
    for name, split in entries.items():
        if split:
            listed[split].append(name)
    return listed


def _unlisted_images(members: Members, listed: Mapping[str, list[str]]) -> dict[str, int]:
    """The number of the archive's images that the list of partitions lacks, by the reason for leaving them out.

    Raises:
        UsageError: an image of the list is not in the archive.
    """
    named: set[str] = set()
    for names in listed.values():
        named.update(names)
    missing = named - members.names
    if missing:
        raise UsageError(
            f"{len(missing)} images of the list of partitions are not in {members.path}: {min(missing)} ..."
        )
    unlisted = sum(name.endswith(".jpg") for name in members.names - named)
    return {"not in the list of partitions": unlisted}
