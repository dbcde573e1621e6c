"""Parquet files of the hub: columns of text, labels and encoded images."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from fairbench.common.errors import UsageError
from fairbench.data.formats.image_decoding import decode_image
from fairbench.data.formats.raw import ImageSplit, Pixels

ROWS = 256
"""Rows that are in memory at once."""


@contextmanager
def _opened(path: Path) -> Iterator[pyarrow.parquet.ParquetFile]:
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(f"{path} is damaged or no parquet file ({reason}); delete it and download it again") from error


def rows(paths: Sequence[Path], columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The rows of files as tuples of these columns; `UsageError` for a damaged file or a missing column."""
    for path in paths:
        with _opened(path) as file:
            names = file.schema_arrow.names
            if missing := [column for column in columns if column not in names]:
                raise UsageError(f"{path} has no column {missing[0]!r}, but {', '.join(names)}: a different dataset?")
            for batch in file.iter_batches(ROWS, columns=list(columns)):
                yield from zip(*(batch.column(column).to_pylist() for column in columns), strict=True)


def image_split(paths: Sequence[Path], column: str, label: str = "", crop: int = 0, size: int = 0) -> ImageSplit:
    """An official split of images.

    Args:
        paths: its files.
        column: the column of images.
        label: the column of labels; empty for images without labels.
        crop: see `decode_image`.
        size: see `decode_image`.
    """

    def read() -> Iterator[tuple[Pixels, int]]:
        for row, (image, *labels) in enumerate(rows(paths, [column, label] if label else [column])):
            data = image["bytes"] if isinstance(image, dict) else image
            if not isinstance(data, bytes):
                raise UsageError(f"{paths[0].parent}: column {column!r} has no images, but {type(data).__name__}")
            pixels = decode_image(data, f"image {row} from {paths[0]} on", crop, size)
            yield pixels, labels[0] if labels else 0

    return ImageSplit(sum(map(_row_count, paths)), read)


def _row_count(path: Path) -> int:
    """Number of rows."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def uncompressed_size(path: Path) -> int:
    """Bytes of the content."""
    with _opened(path) as file:
        return sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))


def class_names(path: Path, column: str) -> list[str]:
    """Names of the classes in the order of their labels, by the hub's metadata; `UsageError` if these have none."""
    with _opened(path) as file:
        metadata = file.schema_arrow.metadata or {}
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        return list(features[column]["names"])
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            f"{path} does not state the names of its classes, so the meaning of its labels is unknown"
        ) from None
