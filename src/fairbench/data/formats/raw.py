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
"""Seed of every division into splits."""
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
"""Those of the library `datasets`: https://huggingface.co/docs/datasets/repository_structure."""
Pixels = NDArray[np.uint8]


class RawImage(NamedTuple):
    """An image.

    Attributes:
        pixels: shape (3, H, W).
        label: index of its class; 0 for images without labels.
        where: its file and its position in it, for errors.
    """

    pixels: Pixels
    label: int
    where: str


@dataclass(frozen=True)
class ImageSplit:
    """An official split of images: their number, and a function that yields them."""

    count: int
    read: Callable[[], Iterator[RawImage]]


@dataclass(frozen=True)
class Images:
    """Images.

    Attributes:
        shape: (3, H, W).
        splits: the official splits by name.
        classes: names of the classes in the order of their labels; empty for images without labels.
        carved: splits to carve out of "train", each with a tenth of each class.
        processing: of the pixels, in words.
        dropped: number of images left out, by reason.
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
    """Texts: stories, documents.

    Attributes:
        splits: the official splits by name; each call yields all texts, UTF-8, without surrounding white space. A
            missing "test" or "val" is carved out of "train".
        size: bytes of all texts, or a little more.
        processing: of the texts, in words.
        vocabulary: largest number of tokens: the bytes, the end of a text, and merges.
        dropped: number of files left out, by reason.
    """

    splits: Mapping[str, Callable[[], Iterator[bytes]]]
    size: int
    processing: str
    vocabulary: int
    dropped: Mapping[str, int] = field(default_factory=dict)


def shared(keys: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """Count the examples of a split that have the key of one in an earlier split; pairs without any are left out."""
    present = [split for split in SPLITS if split in keys]
    counts = {}
    for earlier, later in combinations(present, 2):
        count = int(np.isin(keys[later], keys[earlier]).sum())
        if count:
            counts[f"{later} also in {earlier}"] = count
    return counts


def split_of(name: str) -> str:
    """The split that is one of the words in a name; empty if none is, or several are."""
    found = set()
    for word in re.findall("[A-Z]?[a-z]+|[A-Z]+", name):
        split = SPLIT_WORDS.get(word.lower())
        if split:
            found.add(split)
    if len(found) != 1:
        return ""
    return found.pop()


def named_splits(names: Iterable[str], where: Path) -> dict[str, str]:
    """The split of each of these names in a folder; empty if fewer than two splits are named."""
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
