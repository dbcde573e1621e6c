"""All records of a study as one Parquet file: a row for each trial, curves as lists."""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from fairbench.analysis.results import Results, Run
from fairbench.common.wording import Wording
from fairbench.report.fields import Field
from fairbench.report.render.record_column import RecordColumn
from fairbench.report.render.record_columns import columns
from fairbench.report.table import Table

RECORDS = "records.parquet"
GROUP = 1000
"""Trials in a row group."""


@dataclass(frozen=True, repr=False, kw_only=True)
class RecordTable(Table[dict[str, Any]]):
    """All records, a row for each trial."""

    of_records: Sequence[RecordColumn]

    @property
    def fields(self) -> list[Field]:
        """The type and the meaning of each column."""
        return [*self.of_records]

    def content(self) -> bytes:
        """The Parquet file. The same records give the same bytes."""
        import pyarrow.parquet  # here, since only a report needs it

        schema = self._schema()
        file = io.BytesIO()
        with pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
            for start in range(0, len(self), GROUP):
                rows = self.rows[start : start + GROUP]
                writer.write_table(_parsed(rows, schema))
        return file.getvalue()

    def _schema(self) -> Any:
        """The columns and their types as pyarrow has them."""
        import pyarrow

        plain = {
            "string": pyarrow.string(),
            "integer": pyarrow.int64(),
            "number": pyarrow.float64(),
            "boolean": pyarrow.bool_(),
        }
        types = {}
        for column in self.fields:
            if column.item:
                types[column.name] = pyarrow.list_(plain[column.item])
            else:
                types[column.name] = plain[column.type]
        return pyarrow.schema([*types.items()])


def record_table(results: Results) -> RecordTable:
    """The trials that have a record, arm by arm."""
    runs = []
    for arm in results.arms:
        runs += [run for run in arm.trials if run.record]
        runs += [run for run in arm.timing if run.record]
    record_columns = _worded(columns(results, runs), results.study.suite.wording)
    names = tuple(column.name for column in record_columns)
    rows = _Rows(record_columns, runs)
    return RecordTable(rows=rows, columns=names, kind=RecordTable, of_records=record_columns)


def _worded(record_columns: Sequence[RecordColumn], wording: Wording) -> list[RecordColumn]:
    """Columns with their names and meanings in the words of a study."""
    changed = []
    for column in record_columns:
        name = wording.column(column.name)
        changed.append(replace(column, name=name, description=wording.text(column.description)))
    return changed


@dataclass(frozen=True)
class _Rows(Sequence[dict[str, Any]]):
    """The rows of the table, each made from a trial when it is asked for."""

    columns: Sequence[RecordColumn]
    runs: Sequence[Run]

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, index: Any) -> Any:
        """A row, or a list of the rows in a slice."""
        if isinstance(index, slice):
            return [self._row(run) for run in self.runs[index]]
        return self._row(self.runs[index])

    def _row(self, run: Run) -> dict[str, Any]:
        """The value of a trial in each column."""
        return {column.name: column.value(run) for column in self.columns}


def _parsed(rows: Sequence[dict[str, Any]], schema: Any) -> Any:
    """Rows as a table of pyarrow, by way of JSON.

    To convert values of Python, pyarrow would import pandas, which takes a second.
    """
    import pyarrow.json

    lines = b"\n".join(map(_line, rows))
    reading = pyarrow.json.ReadOptions(block_size=len(lines) + 1, use_threads=False)
    parsing = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    return pyarrow.json.read_json(io.BytesIO(lines), reading, parsing)


def _line(row: dict[str, Any]) -> bytes:
    """The values of a row as a line of JSON."""
    try:
        return msgspec.json.encode(row)
    except UnicodeEncodeError:  # the name of a file is not UTF-8, but a text of Parquet must be
        return json.dumps(row, ensure_ascii=False).encode(errors="replace")
