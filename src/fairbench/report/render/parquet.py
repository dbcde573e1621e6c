"""All records of a study as one Parquet file: a row for each trial, curves as lists."""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from fairbench.analysis.results import Results, Run
from fairbench.report.table import Field, Table
from fairbench.study.record import plain_values

RECORDS = "records.parquet"
GROUP = 1000
"""Trials in a row group."""

Value = Callable[[Run], Any]
"""The value of a column in a trial."""
Part = Callable[[Run], Mapping[str, Any] | None]
"""A part of a trial whose keys are columns."""


@dataclass(frozen=True)
class Column(Field):
    """A column of the file."""

    value: Value = field(kw_only=True)


Fact = tuple[str, str, Value, str]
"""A column without lists."""
TRIAL: Sequence[Fact] = (
    ("arena", "string", lambda x: x.arena, "name of the arena"),
    ("optimizer", "string", lambda x: x.optimizer, "name of the optimizer"),
    ("lr", "number", lambda x: x.lr, "learning rate"),
    ("weight_decay", "number", lambda x: x.weight_decay, "weight decay; empty without one"),
    ("id", "string", lambda x: x.record and x.record.id, "identity of the trial, the name of its record"),
    ("stage", "string", lambda x: x.stage, '"sweep", "final" or "timing"'),
    ("selected", "boolean", lambda x: x.selected, "whether its setting is the one that is reported"),
    ("seed", "integer", lambda x: x.seed, "seed of the initial weights and of the order of the data"),
    ("selection", "string", lambda x: x.spec and x.spec.training.selection, "the split that the evaluations read"),
    ("status", "string", lambda x: x.status, '"finished", "diverged" or "failed"'),
    ("error_type", "string", lambda x: x.error and x.error.type, "class of the error with which the trial failed"),
    ("error_message", "string", lambda x: x.error and x.error.message, "text of that error"),
    ("batch_size", "integer", lambda x: x.spec and x.spec.arena.batch_size, "examples in a training batch"),
    ("planned_steps", "integer", lambda x: x.spec and x.spec.training.steps, "steps of training that were planned"),
    ("steps", "integer", lambda x: x.result and x.result.steps, "steps of training done"),
    ("parameters", "integer", lambda x: x.result and x.result.parameters, "trainable parameters of the model"),
    ("clip_rate", "number", lambda x: x.result and x.result.clip_rate, "share of the steps with clipped gradients"),
    ("gradients_per_step", "number", lambda x: x.result and x.result.gradients_per_step, "mean over all steps"),
    (
        "path_length",
        "number",
        lambda x: x.result and x.result.path_length,
        "length of the weights’ path, in final trials",
    ),
    ("hash_initial_weights", "string", lambda x: x.hash("initial_weights"), "sha256 of the weights before training"),
    ("hash_batches", "string", lambda x: x.hash("batches"), "sha256 of the order of the examples in all batches"),
    ("hash_noise", "string", lambda x: x.hash("noise"), "sha256 of the random state after the last step"),
    ("hash_final_weights", "string", lambda x: x.hash("final_weights"), "sha256 of the weights after the last step"),
    ("timed_steps", "integer", lambda x: x.cost and x.cost.steps, "steps of training that were timed"),
    ("peak_memory_bytes", "integer", lambda x: x.cost and x.cost.peak_memory_bytes, "peak memory of the trial"),
    ("alone", "boolean", lambda x: x.cost and x.cost.alone, "whether the trial had its device to itself"),
    ("data_on", "string", lambda x: x.cost and x.cost.data_on, "kind of the device that held the data"),
    ("plan", "string", lambda x: (x.record and x.record.plan) or None, "digest of the plan by which the trial ran"),
    ("written", "string", lambda x: (x.record and x.record.written) or None, "time at which the record was written"),
)


def columns(results: Results, runs: Sequence[Run]) -> list[Column]:
    """The columns of the file: those that every study has, then those of its metrics, machines and mechanisms."""
    phase, machine = "seconds of the trial in this phase; total: in all", "machine or version with which the trial ran"
    options, encode = "hyperparameters of the optimizer, as JSON", msgspec.json.encode
    return [
        *(Column(name, kind, words, value=value) for name, kind, value, words in TRIAL),
        *_metrics(results),
        *_of_keys(runs, lambda x: plain_values(x.cost.seconds) if x.cost else None, "seconds_", "number", phase),
        *_of_keys(runs, lambda x: x.environment, "environment_", "string", machine),
        *_mechanism(runs),
        Column("hyperparameters", "string", options, value=lambda x: encode(x.options, order="sorted").decode()),
    ]


def _metrics(results: Results) -> Iterator[Column]:
    """The final metrics, and the learning curves as lists of equal length."""
    suite = results.study.suite
    metrics = dict.fromkeys(metric for arena in suite.arenas for metric in results.metrics[arena])
    for split, words in (("val", "validation"), ("test", "test")):
        for metric in metrics:
            value = partial(_final, suite.selection, split, metric)
            yield Column(f"{split}_{metric}", "number", f"{metric} at the end on the {words} split", value=value)
    logged, window = "steps after which the training loss was logged", "mean loss of the window that ends with each of"
    logged_at: Value = lambda x: x.result and [*x.details.loss_curve.steps]  # noqa: E731
    yield Column("train_steps", "array", logged, "integer", value=logged_at)
    losses: Value = lambda x: x.result and [*x.details.loss_curve.values["loss"]]  # noqa: E731
    yield Column("train_loss", "array", f"{window} `train_steps`", "number", value=losses)
    steps: Value = lambda x: x.result and [*x.details.evaluations.steps]  # noqa: E731
    yield Column("evaluated_at", "array", "steps after which the trial was evaluated", "integer", value=steps)
    for metric in metrics:
        curve = partial(_evaluations, results, metric)
        yield Column(f"evaluation_{metric}", "array", f"{metric} after each of `evaluated_at`", "number", value=curve)


def _evaluations(results: Results, metric: str, run: Run) -> list[float] | None:
    is_measured = run.result and metric in results.metrics[run.arena]
    return [*run.details.evaluations.values.get(metric, ())] if is_measured else None


def _mechanism(runs: Sequence[Run]) -> Iterator[Column]:
    """What the mechanisms of optimizers report in final trials."""
    words, moved = "of what the mechanism reports by this name", "distance that it moved the weights"
    totals: Part = lambda x: x.mechanism.totals if x.mechanism else None  # noqa: E731
    yield from _of_keys(runs, totals, "mechanism_total_", "number", f"total over tensors and steps {words}")
    paths: Part = lambda x: x.mechanism.path_length if x.mechanism else None  # noqa: E731
    yield from _of_keys(runs, paths, "mechanism_path_", "number", moved)
    steps: Value = lambda x: x.mechanism and [*x.mechanism.course.steps]  # noqa: E731
    yield Column("mechanism_read_at", "array", "steps after which the mechanism was read", "integer", value=steps)
    for name in _keys(runs, totals):
        since = f"increase up to each of `mechanism_read_at` {words}"
        yield Column(f"mechanism_added_{name}", "array", since, "number", value=partial(_added, name))
    yield Column("mechanism_tensors", "array", "names of the tensors", "string", value=_tensors)
    for name in _keys(runs, totals):
        each = f"total in each of `mechanism_tensors` {words}"
        yield Column(f"mechanism_in_tensor_{name}", "array", each, "number", value=partial(_in_tensors, name))


def _added(quantity: str, run: Run) -> list[float | None] | None:
    """The increase of a quantity at each reading."""
    course = run.mechanism.course if run.mechanism else None
    return [*course.values.get(quantity, [None] * len(course.steps))] if course else None


def _tensors(run: Run) -> list[str] | None:
    """The tensors of which the mechanism reports anything."""
    return sorted({x for of in run.mechanism.tensors.values() for x in of}) if run.mechanism else None


def _in_tensors(quantity: str, run: Run) -> list[float | None] | None:
    """The total of a quantity in each tensor."""
    totals = run.mechanism.tensors.get(quantity) if run.mechanism else None
    return None if totals is None else [totals.get(tensor) for tensor in _tensors(run) or ()]


def _of_keys(runs: Sequence[Run], part: Part, prefix: str, kind: str, words: str) -> Iterator[Column]:
    """A column for each key that any trial has in a part."""
    for key in _keys(runs, part):
        yield Column(prefix + key.replace("-", "_"), kind, words, value=partial(_value, part, key))


def _value(part: Part, key: str, run: Run) -> Any:
    return (part(run) or {}).get(key)


def _keys(runs: Sequence[Run], part: Part) -> list[str]:
    return sorted({key for run in runs for key in part(run) or ()})


def _final(selection: str, split: str, metric: str, run: Run) -> float | None:
    """A metric at the end; records keep what the selection reads under "val", even where that is the test split."""
    if selection == "val":
        return run.metric(split, metric)
    return run.metric("val", metric) if split == "test" else None


@dataclass(frozen=True)
class _Rows(Sequence[dict[str, Any]]):
    """The values of each trial by the names of the columns, read when they are asked for."""

    columns: Sequence[Column]
    runs: Sequence[Run]

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, index: Any) -> Any:
        """A row, or some."""
        if isinstance(index, slice):
            return [*_Rows(self.columns, self.runs[index])]
        return {column.name: column.value(self.runs[index]) for column in self.columns}


@dataclass(frozen=True, repr=False, kw_only=True)
class RecordTable(Table[dict[str, Any]]):
    """All records, a row for each trial."""

    of_records: Sequence[Column]

    @property
    def fields(self) -> list[Field]:
        """Type and meaning of each column."""
        return [*self.of_records]

    def content(self) -> bytes:
        """The Parquet file; the same records give the same bytes."""
        import pyarrow  # here, since only a report needs it
        import pyarrow.parquet

        plain = {"string": pyarrow.string(), "integer": pyarrow.int64(), "number": pyarrow.float64()}
        plain["boolean"] = pyarrow.bool_()
        types = {x.name: pyarrow.list_(plain[x.item]) if x.item else plain[x.type] for x in self.fields}
        file, schema = io.BytesIO(), pyarrow.schema([*types.items()])
        with pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
            for start in range(0, len(self), GROUP):
                writer.write_table(_table(self.rows[start : start + GROUP], schema))
        return file.getvalue()


def record_table(results: Results) -> RecordTable:
    """The trials that have a record, arm by arm."""
    runs = [run for arm in results.arms for run in (*arm.trials, *arm.timing) if run.record]
    found = columns(results, runs)
    names = tuple(column.name for column in found)
    return RecordTable(_Rows(found, runs), names, kind=RecordTable, of_records=found)


def _table(rows: Sequence[dict[str, Any]], schema: Any) -> Any:
    """The rows of some trials, by way of JSON: pyarrow would import pandas, in a second, to convert Python's values."""
    import pyarrow.json

    lines = b"\n".join(map(_line, rows))
    reading = pyarrow.json.ReadOptions(block_size=len(lines) + 1, use_threads=False)
    parsing = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    return pyarrow.json.read_json(io.BytesIO(lines), reading, parsing)


def _line(row: dict[str, Any]) -> bytes:
    """The values of a trial as JSON."""
    try:
        return msgspec.json.encode(row)
    except UnicodeEncodeError:  # the name of a file that is not UTF-8, which no text of Parquet can be
        return json.dumps(row, ensure_ascii=False).encode(errors="replace")
