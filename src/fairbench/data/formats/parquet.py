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
"""Rows at most that are in memory at once."""


@contextmanager
def _opened(path: Path) -> Iterator[pyarrow.parquet.ParquetFile]:
    reason, remedy = f"{path} is damaged or no parquet file", "delete it and download it again"
    with explained(lambda error: f"{reason} ({one_line(error)}); {remedy}"), pyarrow.parquet.ParquetFile(path) as file:
        yield file


def rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The rows of a file as tuples of these columns. Raises `UsageError` if the file is damaged, or lacks a column."""
    with _opened(path) as file:
        names = file.schema_arrow.names
        if missing := [column for column in columns if column not in names]:
            raise UsageError(f"{path} has no column {missing[0]!r}, but {', '.join(names)}: a different dataset?")
        for batch in file.iter_batches(ROWS, columns=list(columns)):
            yield from zip(*(batch.column(column).to_pylist() for column in columns), strict=True)


def image_split(paths: Sequence[Path], column: str, label: str = "", crop: int = 0, size: int = 0) -> ImageSplit:
    """An official split of images."""

    def read() -> Iterator[RawImage]:
        for path in paths:
            for row, (image, *labels) in enumerate(rows(path, [column, label] if label else [column])):
                where = f"{path}, index {row}"
                data = image.get("bytes") if isinstance(image, dict) else image
                if not isinstance(data, bytes):
                    raise UsageError(f"{where}: {column!r} is no image, but {type(data).__name__}")
                yield RawImage(decode_image(data, where, crop, size), labels[0] if labels else 0, where)

    return ImageSplit(sum(map(_row_count, paths)), read)


def _row_count(path: Path) -> int:
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def class_names(path: Path, column: str) -> list[str]:
    """Names of the classes in the order of their labels, by the hub's metadata; `UsageError` if these have none."""
    with _opened(path) as file:
        metadata = file.schema_arrow.metadata or {}
    try:
        names = json.loads(metadata[b"huggingface"])["info"]["features"][column]["names"]
        return [str(name) for name in names]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise UsageError(
            f"{path} does not state the names of its classes, so the meaning of its labels is unknown"
        ) from None
