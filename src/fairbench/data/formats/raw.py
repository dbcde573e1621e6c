"""The raw examples of a dataset, the same from every source: images or texts in official splits."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SPLITS = ("train", "val", "test")
"""The names of splits."""
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
    """An official split of images.

    Attributes:
        count: number of images, with those that `read` leaves out as repeated.
        read: yields the images.
    """

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
    """

    shape: tuple[int, int, int]
    splits: Mapping[str, ImageSplit]
    classes: tuple[str, ...] = ()
    carved: tuple[str, ...] = ()
    processing: str = "unchanged"
    dropped: Mapping[str, int] = field(default_factory=dict)


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
