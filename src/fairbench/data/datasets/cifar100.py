"""CIFAR-100: pickles of pixel planes in the authors' archive, PNG files in the hub's parquet."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fairbench.data.formats import parquet
from fairbench.data.formats.archive import damage_named, open_tar, unpickled
from fairbench.data.formats.raw import Images, ImageSplit, RawImage
from fairbench.data.formats.source_files import SourceFiles

SHAPE = (3, 32, 32)
FOLDER = "cifar-100-python"
OFFICIAL = ("train", "test")


def read(source: SourceFiles, options: Mapping[str, Any]) -> Images:
    """The images with their fine labels."""
    if source.kind == "archive":
        splits, classes = _from_archive(source.files[0].path)
    else:
        splits = {x: parquet.image_split(source.of_split(x), "img", "fine_label") for x in OFFICIAL}
        classes = parquet.class_names(source.of_split("train")[0], "fine_label")
    return Images(SHAPE, splits, tuple(classes), carved=("val",))


def _from_archive(path: Path) -> tuple[dict[str, ImageSplit], list[str]]:
    with open_tar(path) as members, damage_named(path):
        names = (*OFFICIAL, "meta")
        contents = {x: unpickled(members.read(f"{FOLDER}/{x}"), f"{path}: {x}") for x in names}
        splits = {split: _split(contents[split], f"{path}: {split}") for split in OFFICIAL}
        return splits, [str(name) for name in contents["meta"]["fine_label_names"]]


def _split(content: Any, where: str) -> ImageSplit:
    labels = content["fine_labels"]
    data = np.asarray(content["data"], np.uint8).reshape(len(labels), *SHAPE)

    def read() -> Iterator[RawImage]:
        for i, (image, label) in enumerate(zip(data, labels, strict=True)):
            yield RawImage(image, label, f"{where}, index {i}")

    return ImageSplit(len(labels), read)
