"""CIFAR-100: pickles of pixel planes in the authors' archive, PNG files in the hub's parquet."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbench.common.errors import UsageError
from fairbench.data.formats import parquet
from fairbench.data.formats.archive import open_tar, unpickled
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
    splits = {}
    with open_tar(path) as members:
        names = _value(unpickled(members.read(f"{FOLDER}/meta"), f"{path}: meta"), "fine_label_names", path)
        for split in OFFICIAL:
            content = unpickled(members.read(f"{FOLDER}/{split}"), f"{path}: {split}")
            data, labels = _value(content, "data", path, np.ndarray), _value(content, "fine_labels", path)
            splits[split] = _split(data, labels, f"{path}: {split}")
    if not all(isinstance(name, str) for name in names):
        raise UsageError(f"{path} is not CIFAR-100 for Python: the names of its classes are no texts")
    return splits, names


def _value(content: Any, key: str, path: Path, kind: type = list) -> Any:
    if not isinstance(content, dict) or not isinstance(content.get(key), kind):
        raise UsageError(f"{path} is not CIFAR-100 for Python: a pickle in it has no {kind.__name__} {key!r}")
    return content[key]


def _split(data: NDArray[Any], labels: list[Any], where: str) -> ImageSplit:
    if data.dtype != np.uint8 or data.shape != (len(labels), 3 * 32 * 32):
        raise UsageError(f"{where} is not CIFAR-100 for Python: its images are no array of {len(labels)} x 3072 bytes")

    def read() -> Iterator[RawImage]:
        for i, (image, label) in enumerate(zip(data.reshape(-1, *SHAPE), labels, strict=True)):
            yield RawImage(image, label, f"{where}, index {i}")

    return ImageSplit(len(labels), read)
