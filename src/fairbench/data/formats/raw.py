"""The raw examples of a dataset, the same from every source: images or texts in official splits."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairbench.common.errors import UsageError
from fairbench.common.formatting import some

SPLITS = ("train", "val", "test")
"""The names of splits."""
SEED = 20_260_101
"""The seed of every division into splits."""
SPLIT_WORDS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
    "eval": "test",
    "evaluation": "test",
}
"""The split that a word in the name of a file or folder means.

The words are those of the library `datasets`: https://huggingface.co/docs/datasets/repository_structure.
"""
Pixels = NDArray[np.uint8]


class RawImage(NamedTuple):
    """An image.

    Attributes:
        pixels: shape (3, H, W).
        label: the index of its class; 0 for images without labels.
        where: its file and its position in the file, for errors.
    """

    pixels: Pixels
    label: int
    where: str


@dataclass(frozen=True)
class ImageSplit:
    """An official split of images.

    Attributes:
        count: the number of images.
        read: yields the images.
    """

    count: int
    read: Callable[[], Iterator[RawImage]]


@dataclass(frozen=True)
class Images:
    """The images of a dataset.

    Attributes:
        shape: the shape of each image, (3, H, W).
        splits: the official splits by name.
        classes: the names of the classes in the order of their labels; empty for images without labels.
        carved: the splits to carve out of "train", each with a tenth of each class.
        processing: the processing of the pixels, in words.
        dropped: the number of images that are left out, by reason.
        distinct: whether equal images are kept only once, in test before val before train.
    """

    shape: tuple[int, int, int]
    splits: Mapping[str, ImageSplit]
    classes: tuple[str, ...] = ()
    carved: tuple[str, ...] = ()
    processing: str = "unchanged"
    dropped: Mapping[str, int] = field(default_factory=dict)
    distinct: bool = False


@dataclass(frozen=True)
class Texts:
    """The texts of a dataset, for example stories or documents.

    Attributes:
        splits: for each official split, a function that yields all texts in UTF-8, without white space around them. A
            missing "test" or "val" is carved out of "train".
        size: the bytes of all texts, or a little more.
        processing: the processing of the texts, in words.
        vocabulary: the largest number of tokens, which are the bytes, the end of a text, and merges.
        dropped: the number of files that are left out, by reason.
    """

    splits: Mapping[str, Callable[[], Iterator[bytes]]]
    size: int
    processing: str
    vocabulary: int
    dropped: Mapping[str, int] = field(default_factory=dict)


def shared(keys: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """Count the examples of a split that are also in an earlier split.

    Args:
        keys: the keys of the examples of each split; equal examples have equal keys.

    Returns:
        The count for each pair of splits that share examples, by the words "test also in train".
    """
    present = [split for split in SPLITS if split in keys]
    counts = {}
    for earlier, later in combinations(present, 2):
        count = int(np.isin(keys[later], keys[earlier]).sum())
        if count:
            counts[f"{later} also in {earlier}"] = count
    return counts


def split_of(name: str) -> str:
    """The split that a name contains as a word; empty if the name contains none, or several."""
    splits = set()
    for word in re.findall("[A-Z]?[a-z]+|[A-Z]+", name):
        split = SPLIT_WORDS.get(word.lower())
        if split:
            splits.add(split)
    if len(splits) != 1:
        return ""
    return splits.pop()


def named_splits(names: Iterable[str], where: Path) -> dict[str, str]:
    """The split that each file or folder is named after; empty if fewer than two splits are named.

    Args:
        names: the names of files or folders.
        where: the folder that contains them, for errors.

    Raises:
        UsageError: splits are named, but another name is not a split, or no split is train.
    """
    split_of_name = {name: split_of(name) for name in sorted(names)}
    name_of_split = {split: name for name, split in split_of_name.items() if split}
    if len(name_of_split) < 2:
        return {}
    shown = f"{where} has {' and '.join(name_of_split.values())}, which are splits by their names, but"
    others = [name for name, split in split_of_name.items() if not split]
    if others:
        are = "is" if len(others) == 1 else "are"
        raise UsageError(f"{shown} {some(others)} {are} none; move one away")
    if "train" not in name_of_split:
        raise UsageError(f"{shown} nothing to train on; add a folder or file named train, or give one of them alone")
    return split_of_name
