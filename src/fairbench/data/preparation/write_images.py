"""From images to arrays: staged in the order of the source, then written in the order of their hashes."""

from functools import partial
from pathlib import Path
from typing import Any

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
PIXEL, LABEL, KEY = "|u1", "<i8", "<u8"
PARTS = ("images", "labels", "keys", "contents")


def write(images: Images, staging: StagingFolder) -> tuple[list[str], dict[str, Any]]:
    """Make the arrays of a dataset of images; returns the names of their files, and the facts for the manifest."""
    staging.require_disk_space(2 * sum(x.count for x in images.splits.values()) * (int(np.prod(images.shape)) + 16))
    made: list[str] = []
    counts: dict[str, int] = {}
    contents: dict[str, Keys] = {}
    staged = {official: _staged(images, official, staging) for official in images.splits}
    of_content = occurrences({official: parts["contents"] for official, parts in staged.items()})
    distinct = {official: np.flatnonzero(first & ~taken) for official, first, taken in of_content}
    for official, parts in staged.items():
        kept = distinct[official] if images.distinct else np.arange(len(parts["keys"]))
        if not len(kept):
            raise UsageError(f"the {official} split is empty, or all its images are in another split, too")
        keys, labels = parts["keys"][kept], parts["labels"][kept]
        carved = carve(keys, labels, images.carved, images.classes) if official == "train" else None
        for split, chosen in (carved or {official: np.argsort(keys, kind="stable")}).items():
            names = [f"{split}.npy", *([f"{split}_labels.npy"] if images.classes else [])]
            staging.ensure(names, partial(_write, staging, parts, kept[chosen], names))
            made += names
            counts[split] = len(chosen)
            contents[split] = parts["contents"][kept[chosen]]
    repeated = sum(x.count for x in images.splits.values()) - sum(counts.values())
    dropped = {**images.dropped, **({"repeated": repeated} if repeated else {})}
    in_both = shared(contents)
    for pair, count in in_both.items():
        say(f"  kept, images of {pair}: {count}")
    return made, {
        "counts": {"examples": counts, "dropped": dropped, **({"shared": in_both} if in_both else {})},
        "classes": list(images.classes),
        "pixels": images.processing,
        "split_rule": image_rule(images.carved),
        "seed": SEED,
    }


def _staged(images: Images, official: str, staging: StagingFolder) -> dict[str, NDArray[Any]]:
    """The `PARTS` of an official split in the order of its source; keys are of label and pixels, contents of pixels."""
    names = {part: f"staged-{part}-{official}.npy" for part in PARTS}
    staging.ensure([*names.values()], partial(_stage, images, official, [*map(staging.path, names.values())]))
    return {part: staging.array(name) for part, name in names.items()}


def _stage(images: Images, official: str, paths: list[Path]) -> None:
    split = images.splits[official]
    with (
        GrowingArray(paths[0], PIXEL, images.shape) as pixels,
        GrowingArray(paths[1], LABEL) as labels,
        GrowingArray(paths[2], KEY) as keys,
        GrowingArray(paths[3], KEY) as contents,
        progress_bar(f"read {official}", split.count, "images") as advance,
    ):
        for image, label, where in split.read():
            if image.shape != images.shape:
                raise UsageError(f"{where} has shape {image.shape}, expected {images.shape}: a different dataset?")
            if type(label) is not int or not 0 <= label < max(len(images.classes), 1):
                numbers = f"a whole number from 0 to {len(images.classes) - 1}"
                raise UsageError(f"{where} has the label {label!r}, expected {numbers}; correct it")
            content = image.tobytes()
            pixels.append(image[None])
            labels.append(np.array([label], LABEL))
            keys.append(np.array([key(label.to_bytes(8, "little"), content)], KEY))
            contents.append(np.array([key(content)], KEY))
            advance(1)


def _write(staging: StagingFolder, parts: dict[str, NDArray[Any]], rows: Rows, names: list[str]) -> None:
    """Copy the rows of the staged images, and of their labels if `names` has a file for them."""
    for array, name in zip((parts["images"], parts["labels"]), names, strict=False):
        with GrowingArray(staging.path(name), array.dtype.str, array.shape[1:]) as file:
            for start in range(0, len(rows), BLOCK):
                file.append(array[rows[start : start + BLOCK]])
