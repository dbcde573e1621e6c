"""Parquet files as the hub holds them: columns of text, labels and encoded images."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from fairbench.common.errors import UsageError

ROWS = 256
"""Rows that are in memory at a time."""


@contextmanager
def _opened(path: Path) -> Iterator[pyarrow.parquet.ParquetFile]:
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(f"{path} is damaged or no parquet file ({reason}); delete it and download it again") from error


def rows(paths: Sequence[Path], columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The rows of some files, as tuples of these columns.

    Raises:
        UsageError: a file is damaged, or has no such column.
    """
    for path in paths:
        with _opened(path) as file:
            names = file.schema_arrow.names
            if missing := [column for column in columns if column not in names]:
                raise UsageError(f"{path} has no column {missing[0]!r}, but {', '.join(names)}: another dataset?")
            for batch in file.iter_batches(ROWS, columns=list(columns)):
                yield from zip(*(batch.column(column).to_pylist() for column in columns), strict=True)


def images(paths: Sequence[Path], column: str, label: str = "") -> Iterator[tuple[bytes, int]]:
    """Encoded images and their labels; 0 where no column of labels is named.

    Raises:
        UsageError: a file is damaged, has no such column, or its images lie elsewhere.
    """
    for image, *labels in rows(paths, [column, label] if label else [column]):
        data = image["bytes"] if isinstance(image, dict) else image
        if not isinstance(data, bytes):
            raise UsageError(f"{paths[0].parent}: column {column!r} holds no images, but {type(data).__name__}")
        yield data, labels[0] if labels else 0


def count(paths: Sequence[Path]) -> int:
    """Rows of some files."""
    total = 0
    for path in paths:
        with _opened(path) as file:
            total += file.metadata.num_rows
    return total


def uncompressed_size(paths: Sequence[Path]) -> int:
    """Bytes of some files' contents."""
    total = 0
    for path in paths:
        with _opened(path) as file:
            total += sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
    return total


def class_names(path: Path, column: str) -> list[str]:
    """Names of the classes in the order of their labels, as the hub's metadata state them.

    Raises:
        UsageError: they do not, so that nobody knows what the labels mean.
    """
    with _opened(path) as file:
        metadata = file.schema_arrow.metadata or {}
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        return list(features[column]["names"])
    except (KeyError, TypeError, ValueError):
        raise UsageError(f"{path} does not state the names of its classes, so its labels may mean anything") from None
