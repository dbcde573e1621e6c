"""Tiny ImageNet: JPEG files in the authors' archive or in the hub's parquet; labels are indices in sorted wnids."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.data.formats import parquet
from fairbench.data.formats.archive import image_split, open_zip
from fairbench.data.formats.delimited_text import read_list
from fairbench.data.formats.raw import Images, ImageSplit
from fairbench.data.formats.source_files import SourceFiles

SHAPE = (3, 64, 64)
FOLDER = "tiny-imagenet-200"


def read(source: SourceFiles, options: Mapping[str, Any]) -> Images:
    """The images with their labels; the official validation split, which alone has labels, is the test split."""
    splits, classes = _from_archive(source.files[0].path) if source.kind == "archive" else _from_hub(source)
    return Images(SHAPE, splits, tuple(classes), carved=("val",), processing="RGB")


def _from_archive(path: Path) -> tuple[dict[str, ImageSplit], list[str]]:
    with open_zip(path) as members:
        listed = members.read(f"{FOLDER}/wnids.txt")
        wnids = sorted(read_list(listed, f"{path}: wnids.txt", lambda line: (line.strip(), None), "a wnid"))
        labels = {wnid: label for label, wnid in enumerate(wnids)}
        annotations = members.read(f"{FOLDER}/val/val_annotations.txt")
        found = map(re.compile(rf"{FOLDER}/train/(\w+)/images/[^/]+").fullmatch, sorted(members.names))
        train = [(match[0], labels[match[1]]) for match in found if match and match[1] in labels]
    test = _annotated_images(annotations, labels, path)
    for split, images in (("training", train), ("val", test)):
        if not images:
            raise UsageError(f"{path} has no {split} images: it is a different archive, or a different version of it")
    return {"train": image_split(path, train), "test": image_split(path, test)}, wnids


def _annotated_images(annotations: bytes, labels: Mapping[str, int], path: Path) -> list[tuple[str, int]]:
    """Members and labels, from lines of file, wnid and four numbers of a box, separated by tabs."""

    def parse(line: str) -> tuple[str, int]:
        name, wnid, *_ = line.split("\t")
        return f"{FOLDER}/val/images/{name}", labels[wnid]

    form = "the name of an image and a wnid of wnids.txt, separated by a tab"
    return list(read_list(annotations, f"{path}: val_annotations.txt", parse, form).items())


def _from_hub(source: SourceFiles) -> tuple[dict[str, ImageSplit], Sequence[str]]:
    splits = {}
    for split in ("train", "test"):
        for path in source.of_split(split):
            wnids = parquet.class_names(path, "label")
            if wnids != sorted(wnids):
                raise UsageError(
                    f"{path}: its labels are not indices in sorted wnids (its classes begin with "
                    f"{', '.join(wnids[:3])}), so they differ from the archive's labels; "
                    "use the authors' archive instead"
                )
        splits[split] = parquet.image_split(source.of_split(split), "image", "label")
    return splits, wnids
