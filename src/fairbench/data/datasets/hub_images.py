"""Images from the hub's parquet files, the same for every dataset."""

from collections.abc import Iterator
from functools import partial

from fairbench.data.formats import parquet
from fairbench.data.formats.image_decoding import decoded
from fairbench.data.formats.raw import ImageSplit, Pixels
from fairbench.data.formats.source_files import Found


def hub_split(found: Found, split: str, column: str, label: str = "", crop: int = 0, size: int = 0) -> ImageSplit:
    """An official split.

    Args:
        found: the files.
        split: the split.
        column: the column of images.
        label: the column of labels; empty: there is none.
        crop: see `decoded`.
        size: see `decoded`.
    """
    return ImageSplit(parquet.count(found.split(split)), partial(_read, found, split, column, label, crop, size))


def _read(found: Found, split: str, column: str, label: str, crop: int, size: int) -> Iterator[tuple[Pixels, int]]:
    paths = found.split(split)
    for row, (data, number) in enumerate(parquet.images(paths, column, label)):
        yield decoded(data, f"{paths[0].parent}: image {row} of the {split} split", crop, size), number
