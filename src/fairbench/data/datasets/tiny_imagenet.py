"""Tiny ImageNet: JPEG files in the authors' archive or in the hub's parquet.

A class is named by its wnid, an identifier of WordNet. Its label is its index in the sorted wnids.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.data.formats import parquet
from fairbench.data.formats.archive import Members, image_split, open_zip
from fairbench.data.formats.delimited_text import read_list
from fairbench.data.formats.raw import Images, ImageSplit
from fairbench.data.formats.source_files import SourceFiles

SHAPE = (3, 64, 64)
FOLDER = "tiny-imagenet-200"
TRAINING_IMAGE = re.compile(rf"{FOLDER}/train/(?P<wnid>\w+)/images/[^/]+")


def read(source: SourceFiles, options: Mapping[str, Any]) -> Images:
    """The images with their labels.

    The official test split has no labels. The official validation split takes its place, and val is carved out of
    train.
    """
    if source.kind == "archive":
        splits, classes = _from_archive(source.files[0].path)
    else:
        splits, classes = _from_hub(source)
    return Images(SHAPE, splits, tuple(classes), carved=("val",), processing="RGB")


def _from_archive(path: Path) -> tuple[dict[str, ImageSplit], list[str]]:
    """The official splits, and the wnids in the order of the labels."""
    with open_zip(path) as members:
        listed = members.read(f"{FOLDER}/wnids.txt")
        wnids = sorted(read_list(listed, f"{path}: wnids.txt", lambda line: (line.strip(), None), "a wnid"))
        labels = {wnid: label for label, wnid in enumerate(wnids)}
        annotations = members.read(f"{FOLDER}/val/val_annotations.txt")
        train = _training_images(members, labels)
    test = _annotated_images(annotations, labels, path)
    for split, images in (("training", train), ("val", test)):
        if not images:
            raise UsageError(f"{path} has no {split} images: it is a different archive, or a different version of it")
    splits = {"train": image_split(path, train), "test": image_split(path, test)}
    return splits, wnids


def _training_images(members: Members, labels: Mapping[str, int]) -> list[tuple[str, int]]:
    """The names and labels of the training images in the archive. A folder that is not a wnid is left out."""
    images = []
    for name in sorted(members.names):
        match = TRAINING_IMAGE.fullmatch(name)
        if match and match["wnid"] in labels:
            images.append((name, labels[match["wnid"]]))
    return images


def _annotated_images(annotations: bytes, labels: Mapping[str, int], path: Path) -> list[tuple[str, int]]:
    """The names and labels of the validation images in the archive.

    Args:
        annotations: lines of a file name, a wnid and the four numbers of a box, separated by tabs.
        labels: the label of each wnid.
        path: the archive, for errors.
    """

    def parse(line: str) -> tuple[str, int]:
        name, wnid, *_ = line.split("\t")
        return f"{FOLDER}/val/images/{name}", labels[wnid]

    form = "the name of an image and a wnid of wnids.txt, separated by a tab"
    entries = read_list(annotations, f"{path}: val_annotations.txt", parse, form)
    return list(entries.items())


def _from_hub(source: SourceFiles) -> tuple[dict[str, ImageSplit], list[str]]:
    """The official splits, and the wnids in the order of the labels."""
    splits = {}
    for split in ("train", "test"):
        paths = source.of_split(split)
        for path in paths:
            wnids = parquet.class_names(path, "label")
            if wnids != sorted(wnids):
                raise UsageError(
                    f"{path}: its labels are not indices in sorted wnids (its classes begin with "
                    f"{', '.join(wnids[:3])}), so they differ from the archive's labels; "
                    "use the authors' archive instead"
                )
        splits[split] = parquet.image_split(paths, "image", "label")
    return splits, wnids
