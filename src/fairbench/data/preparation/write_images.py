"""From images to arrays: staged in the order of the source, then written in the order of their hashes."""

from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from fairbench.common.errors import UsageError
from fairbench.common.terminal import say
from fairbench.data.formats.raw import SPLITS, Images
from fairbench.data.preparation.progress_bar import progress_bar
from fairbench.data.preparation.split_assignment import SEED, Keys, Rows, carve, image_rule, key, occurrences
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
    official = {split: _Staged(split, staging) for split in images.splits}
    for staged in official.values():
        staging.ensure(staged.names, partial(_stage, images, staged))
    hashes = {split: staged.array("contents") for split, staged in official.items()}
    distinct = {split: np.flatnonzero(first & ~taken) for split, first, taken in occurrences(hashes)}
    for official_split, staged in official.items():
        kept = distinct[official_split] if images.distinct else np.arange(len(hashes[official_split]))
        if not len(kept):
            raise UsageError(f"the {official_split} split is empty, or all its images are in another split, too")
        for split, rows in staged.divided(images, kept).items():
            names = [f"{split}.npy", *([f"{split}_labels.npy"] if images.classes else [])]
            staging.ensure(names, partial(_write, staged, rows, names))
            made += names
            counts[split] = len(rows)
            contents[split] = hashes[official_split][rows]
    repeated = sum(x.count for x in images.splits.values()) - sum(counts.values())
    dropped = {**images.dropped, **({"repeated": repeated} if repeated else {})}
    shared = _shared(contents)
    for pair, count in shared.items():
        say(f"  kept, images of {pair}: {count}")
    return made, {
        "counts": {"examples": counts, "dropped": dropped, **({"shared": shared} if shared else {})},
        "classes": list(images.classes),
        "pixels": images.processing,
        "split_rule": image_rule(images.carved),
        "seed": SEED,
    }


def _shared(contents: dict[str, Keys]) -> dict[str, int]:
    """How many images of a split have the pixels of one in an earlier split, by pair of splits."""
    pairs = list(combinations([split for split in SPLITS if split in contents], 2))
    counts = [int(np.isin(contents[later], contents[split]).sum()) for split, later in pairs]
    return {f"{later} also in {split}": n for (split, later), n in zip(pairs, counts, strict=True) if n}


class _Staged:
    """An official split in the order of its source: images, labels, and hashes of both and of the images alone."""

    def __init__(self, official: str, staging: StagingFolder) -> None:
        self.official, self.staging = official, staging
        self.names = [f"staged-{part}-{official}.npy" for part in PARTS]

    def array(self, part: str) -> Any:
        return self.staging.array(self.names[PARTS.index(part)])

    def divided(self, images: Images, kept: Rows) -> dict[str, Rows]:
        """The rows of each split into which the kept ones of the official one are divided."""
        keys = self.array("keys")[kept]
        divided = {self.official: np.argsort(keys, kind="stable")}
        if self.official == "train":
            divided = carve(keys, self.array("labels")[kept], images.carved, images.classes)
        return {split: kept[rows] for split, rows in divided.items()}


def _stage(images: Images, staged: _Staged) -> None:
    split = images.splits[staged.official]
    paths = [staged.staging.path(name) for name in staged.names]
    with (
        GrowingArray(paths[0], PIXEL, images.shape) as pixels,
        GrowingArray(paths[1], LABEL) as labels,
        GrowingArray(paths[2], KEY) as keys,
        GrowingArray(paths[3], KEY) as contents,
        progress_bar(f"read {staged.official}", split.count, "images") as advance,
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


def _write(staged: _Staged, rows: Rows, names: list[str]) -> None:
    """Copy the rows of the staged images, and of their labels if `names` has a file for them."""
    for source, name in zip(staged.names, names, strict=False):
        array = staged.staging.array(source)
        with GrowingArray(staged.staging.path(name), array.dtype.str, array.shape[1:]) as file:
            for start in range(0, len(rows), BLOCK):
                file.append(array[rows[start : start + BLOCK]])
