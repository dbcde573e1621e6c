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
"""Images that are copied at once."""
PIXEL = "|u1"
LABEL = "<i8"
KEY = "<u8"


class Staged(NamedTuple):
    """The images of an official split in the order of their source, each array of shape (N, ...).

    Attributes:
        images: their pixels.
        labels: the index of its class.
        keys: of its label and pixels.
        contents: keys of its pixels alone.
    """

    images: NDArray[Any]
    labels: NDArray[Any]
    keys: NDArray[Any]
    contents: NDArray[Any]


def write(images: Images, staging: StagingFolder) -> tuple[list[str], dict[str, Any]]:
    """Make the arrays of a dataset of images; returns the names of their files, and the facts for the manifest."""
    read = sum(split.count for split in images.splits.values())
    image_size = int(np.prod(images.shape)) + 16
    staging.require_disk_space(2 * read * image_size)
    staged = {official: _staged(images, official, staging) for official in images.splits}
    distinct = _distinct_rows(staged)

    made: list[str] = []
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
            made += names
            counts[split] = len(rows)
            contents[split] = parts.contents[rows]
    return made, _facts(images, read, counts, contents)


def _distinct_rows(staged: Mapping[str, Staged]) -> dict[str, Rows]:
    """For each official split the first of equal images, unless an image of test or val before it is equal, too."""
    contents = {official: parts.contents for official, parts in staged.items()}
    distinct = {}
    for found in occurrences(contents):
        distinct[found.split] = np.flatnonzero(found.first & ~found.taken)
    return distinct


def _divided(images: Images, official: str, parts: Staged, kept: Rows) -> dict[str, Rows]:
    """The rows of each split that an official one becomes, in the order of keys; only the kept rows are used."""
    keys = parts.keys[kept]
    if official == "train":
        carved = carve(keys, parts.labels[kept], images.carved, images.classes)
        return {split: kept[rows] for split, rows in carved.items()}
    return {official: kept[np.argsort(keys, kind="stable")]}


def _facts(images: Images, read: int, counts: dict[str, int], contents: dict[str, Keys]) -> dict[str, Any]:
    """The facts for the manifest.

    Args:
        images: the dataset.
        read: the number of images that were read.
        counts: the number of images in each split.
        contents: the keys of the pixels of each split.
    """
    dropped = dict(images.dropped)
    repeated = read - sum(counts.values())
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
    """The images of an official split, staged now or by an interrupted preparation."""
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
    """Copy rows of the staged images to the first of these files, and of their labels to the second, if it is there."""
    for array, name in zip((parts.images, parts.labels), names, strict=False):
        with GrowingArray(staging.path(name), array.dtype.str, array.shape[1:]) as file:
            for start in range(0, len(rows), BLOCK):
                block = rows[start : start + BLOCK]
                file.append(array[block])
