"""From images to arrays: staged in the order of the source, then written in the order of their hashes."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbench.common.errors import UsageError
from fairbench.common.terminal import say
from fairbench.data.formats.raw import SEED, Images, shared
from fairbench.data.preparation.progress_bar import progress_bar
from fairbench.data.preparation.split_assignment import Keys, Rows, carve, image_rule, key, occurrences
from fairbench.data.preparation.staging import GrowingArray, StagingFolder

BLOCK = 1024
"""The number of images that are copied at once."""
PIXEL = "|u1"
LABEL = "<i8"
KEY = "<u8"


class Staged(NamedTuple):
    """The images of an official split in the order of their source, each array of shape (N, ...).

    Attributes:
        images: the pixels of each image.
        labels: the label of each image.
        keys: the key of the label and the pixels of each image.
        contents: the key of the pixels alone of each image.
    """

    images: NDArray[Any]
    labels: NDArray[Any]
    keys: NDArray[Any]
    contents: NDArray[Any]


def write(images: Images, staging: StagingFolder) -> tuple[list[str], dict[str, Any]]:
    """Write the arrays of a dataset of images into a staging folder.

    Returns:
        The names of the files with the arrays, and the facts for the manifest.

    Raises:
        UsageError: an image is wrong, a split is empty, or the disk has too little space.
    """
    read_count = sum(split.count for split in images.splits.values())
    image_bytes = int(np.prod(images.shape)) + 16  # with the label and a key
    staging.require_disk_space(2 * read_count * image_bytes)  # staged and final arrays
    staged = {official: _staged(images, official, staging) for official in images.splits}
    distinct = _distinct_rows(staged)

    all_names: list[str] = []
    counts: dict[str, int] = {}
    contents: dict[str, Keys] = {}
    for official, parts in staged.items():
        kept = distinct[official] if images.distinct else np.arange(len(parts.keys))
        if not len(kept):
            raise UsageError(f"the {official} split is empty, or all its images are in another split, too")
        for split, rows in _divided(images, official, parts, kept).items():
            names = [f"{split}.npy"]
            if images.classes:
                names.append(f"{split}_labels.npy")
            staging.ensure(names, partial(_write, staging, parts, rows, names))
            all_names += names
            counts[split] = len(rows)
            contents[split] = parts.contents[rows]
    return all_names, _facts(images, read_count, counts, contents)


def _distinct_rows(staged: Mapping[str, Staged]) -> dict[str, Rows]:
    """The rows of the distinct images of each official split.

    Only the first of equal images counts. Test comes before val, and val before train.
    """
    contents = {official: parts.contents for official, parts in staged.items()}
    rows_of_split = {}
    for split, is_first, is_taken in occurrences(contents):
        rows_of_split[split] = np.flatnonzero(is_first & ~is_taken)
    return rows_of_split


def _divided(images: Images, official: str, parts: Staged, kept: Rows) -> dict[str, Rows]:
    """Divide an official split into final splits: train into train and the carved ones, any other into itself.

    Returns:
        The rows of each final split in the order of keys, out of the `kept` rows of the official split.
    """
    keys = parts.keys[kept]
    if official == "train":
        carved = carve(keys, parts.labels[kept], images.carved, images.classes)
        return {split: kept[rows] for split, rows in carved.items()}
    return {official: kept[np.argsort(keys, kind="stable")]}


def _facts(images: Images, read_count: int, counts: dict[str, int], contents: dict[str, Keys]) -> dict[str, Any]:
    """The facts for the manifest.

    Args:
        images: the dataset.
        read_count: the number of images that were read.
        counts: the number of images in each split.
        contents: the keys of the pixels of each split.
    """
    dropped = dict(images.dropped)
    repeated = read_count - sum(counts.values())
    if repeated:
        dropped["repeated"] = repeated
    all_counts = {"examples": counts, "dropped": dropped}
    in_both = shared(contents)
    if in_both:
        all_counts["shared"] = in_both
    for pair, count in in_both.items():
        say(f"  kept, images of {pair}: {count}")
    return {
        "counts": all_counts,
        "classes": list(images.classes),
        "pixels": images.processing,
        "split_rule": image_rule(images.carved),
        "seed": SEED,
    }


def _staged(images: Images, official: str, staging: StagingFolder) -> Staged:
    """The images of an official split. They are staged now, unless an interrupted preparation has done so."""
    names = {part: f"staged-{part}-{official}.npy" for part in Staged._fields}
    paths = {part: staging.path(name) for part, name in names.items()}
    staging.ensure(list(names.values()), partial(_stage, images, official, paths))
    return Staged(
        images=staging.array(names["images"]),
        labels=staging.array(names["labels"]),
        keys=staging.array(names["keys"]),
        contents=staging.array(names["contents"]),
    )


def _stage(images: Images, official: str, paths: Mapping[str, Path]) -> None:
    """Read the images of an official split, and write each part of `Staged` to its file."""
    split = images.splits[official]
    with (
        GrowingArray(paths["images"], PIXEL, images.shape) as pixels,
        GrowingArray(paths["labels"], LABEL) as labels,
        GrowingArray(paths["keys"], KEY) as keys,
        GrowingArray(paths["contents"], KEY) as contents,
        progress_bar(f"read {official}", split.count, "images") as advance,
    ):
        for image, label, where in split.read():
            if image.shape != images.shape:
                raise UsageError(f"{where} has shape {image.shape}, expected {images.shape}: a different dataset?")
            if type(label) is not int or not 0 <= label < max(len(images.classes), 1):
                numbers = f"a whole number from 0 to {len(images.classes) - 1}"
                raise UsageError(f"{where} has the label {label!r}, expected {numbers}; correct it")
            label_bytes = label.to_bytes(8, "little")
            image_bytes = image.tobytes()
            pixels.append(image[None])
            labels.append(np.array([label], LABEL))
            keys.append(np.array([key(label_bytes, image_bytes)], KEY))
            contents.append(np.array([key(image_bytes)], KEY))
            advance(1)


def _write(staging: StagingFolder, parts: Staged, rows: Rows, names: list[str]) -> None:
    """Copy rows of the staged images to the first file, and of their labels to the second file if there is one."""
    for array, name in zip((parts.images, parts.labels), names, strict=False):  # one name for images without labels
        with GrowingArray(staging.path(name), array.dtype.str, array.shape[1:]) as file:
            for start in range(0, len(rows), BLOCK):
                block = rows[start : start + BLOCK]
                file.append(array[block])
