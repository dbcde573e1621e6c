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
    """The images with their labels in 100 fine classes. The val split is carved out of train."""
    if source.kind == "archive":
        splits, classes = _from_archive(source.files[0].path)
    else:
        splits, classes = _from_hub(source)
    return Images(SHAPE, splits, tuple(classes), carved=("val",))


def _from_hub(source: SourceFiles) -> tuple[dict[str, ImageSplit], list[str]]:
    """The official splits, and the names of the classes."""
    splits = {}
    for split in OFFICIAL:
        splits[split] = parquet.image_split(source.of_split(split), "img", "fine_label")
    classes = parquet.class_names(source.of_split("train")[0], "fine_label")
    return splits, classes


def _from_archive(path: Path) -> tuple[dict[str, ImageSplit], list[str]]:
    """The official splits, and the names of the classes."""
    with open_tar(path) as members, damage_named(path):
        contents = {}
        for name in (*OFFICIAL, "meta"):
            pickled = members.read(f"{FOLDER}/{name}")
            contents[name] = unpickled(pickled, f"{path}: {name}")
        splits = {split: _split(contents[split], f"{path}: {split}") for split in OFFICIAL}
        classes = [str(name) for name in contents["meta"]["fine_label_names"]]
        return splits, classes


def _split(content: Any, where: str) -> ImageSplit:
    """An official split, from the content of its pickle. `where` names the pickle in errors."""
    labels = content["fine_labels"]
    data = np.asarray(content["data"], np.uint8).reshape(len(labels), *SHAPE)

    def read() -> Iterator[RawImage]:
        for index, (image, label) in enumerate(zip(data, labels, strict=True)):
            yield RawImage(image, label, f"{where}, index {index}")

    return ImageSplit(len(labels), read)
