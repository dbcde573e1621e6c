"""Parquet files of the hub: columns of labels and encoded images."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from fairbench.common.errors import UsageError, explained, one_line
from fairbench.data.formats.image_decoding import decode_image
from fairbench.data.formats.raw import ImageSplit, RawImage

ROWS = 256
"""The largest number of rows that are in memory at once."""


@contextmanager
def _opened(path: Path) -> Iterator[pyarrow.parquet.ParquetFile]:
    """Open a parquet file. Raises `UsageError` if the file is damaged."""

    def complaint(error: BaseException) -> str:
        return f"{path} is damaged or no parquet file ({one_line(error)}); delete it and download it again"

    with explained(complaint), pyarrow.parquet.ParquetFile(path) as file:
        yield file


def rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The values of the given columns in each row. Raises `UsageError` if the file is damaged, or lacks a column."""
    with _opened(path) as file:
        names = file.schema_arrow.names
        for column in columns:
            if column not in names:
                raise UsageError(f"{path} has no column {column!r}, but {', '.join(names)}: a different dataset?")
        for batch in file.iter_batches(ROWS, columns=list(columns)):
            values = [batch.column(column).to_pylist() for column in columns]
            yield from zip(*values, strict=True)


def image_split(paths: Sequence[Path], column: str, label: str = "", crop: int = 0, size: int = 0) -> ImageSplit:
    """An official split of images in several files.

    Args:
        paths: the files, in the order of their rows.
        column: the column of the encoded images.
        label: the column of the labels; empty for images without labels.
        crop: see `decode_image`.
        size: see `decode_image`.
    """

    def read() -> Iterator[RawImage]:
        for path in paths:
            for number, (image, image_label) in enumerate(_labelled_rows(path, column, label)):
                where = f"{path}, index {number}"
                # The hub stores an image as a record with its bytes and its path, or as its bytes.
                data = image.get("bytes") if isinstance(image, dict) else image
                if not isinstance(data, bytes):
                    raise UsageError(f"{where}: {column!r} is no image, but {type(data).__name__}")
                pixels = decode_image(data, where, crop, size)
                yield RawImage(pixels, image_label, where)

    count = sum(_row_count(path) for path in paths)
    return ImageSplit(count, read)


def _labelled_rows(path: Path, column: str, label: str) -> Iterator[tuple[Any, Any]]:
    """The image and the label of each row. Without a column of labels, each label is 0."""
    if label:
        yield from rows(path, [column, label])
    else:
        for (image,) in rows(path, [column]):
            yield image, 0


def _row_count(path: Path) -> int:
    """The number of rows of a file, which its metadata has."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def class_names(path: Path, column: str) -> list[str]:
    """The names of the classes in the order of their labels, from the metadata that the hub adds to the file.

    Raises:
        UsageError: the metadata lack the names.
    """
    with _opened(path) as file:
        metadata = file.schema_arrow.metadata or {}
    try:
        facts = json.loads(metadata[b"huggingface"])
        names = facts["info"]["features"][column]["names"]
        return [str(name) for name in names]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise UsageError(
            f"{path} does not state the names of its classes, so the meaning of its labels is unknown"
        ) from None
