"""What every dataset is read as, whatever its source: images or texts, in its official splits."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class ImageSplit:
    """An official split of images.

    Attributes:
        count: how many there are.
        read: gives them, as pixels of shape (3, H, W) and label; the label is 0 where there are none.
    """

    count: int
    read: Callable[[], Iterator[tuple[Pixels, int]]]


@dataclass(frozen=True)
class Images:
    """Images.

    Attributes:
        shape: (3, H, W).
        splits: the official splits by name.
        classes: names of the classes in the order of their labels; empty: there are no labels.
        carved: splits that are taken out of "train": a tenth of each class for each of them.
        processing: what was done to the pixels, in words.
        dropped: how many images were left out, by reason.
    """

    shape: tuple[int, int, int]
    splits: Mapping[str, ImageSplit]
    classes: tuple[str, ...] = ()
    carved: tuple[str, ...] = ()
    processing: str = "as they are"
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Texts:
    """Texts: stories, documents.

    Attributes:
        splits: the official splits by name; each call gives the texts from the beginning, UTF-8, without white space
            around them. Without a "test" split, one is taken out of "train".
        size: bytes of all of them, or a little more.
        processing: how the texts were told apart, in words.
        vocabulary: tokens at most: the bytes, the end of a text, and merges where there are more.
    """

    splits: Mapping[str, Callable[[], Iterator[bytes]]]
    size: int
    processing: str
    vocabulary: int
