"""All records of a study as one Parquet file: a row for each trial, curves as lists."""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fairbench.analysis.results import Results, Run
from fairbench.report.tables.fields import Field

RECORDS = "records.parquet"
GROUP = 1000
"""Trials in a row group."""
PLAIN = (
    ("id", "string", ("id",), "identity of the trial, the name of its record"),
    ("stage", "string", ("spec", "stage"), '"sweep", "confirm", "final" or "timing"'),
    ("seed", "integer", ("spec", "seed"), "seed of the initial weights and of the order of the data"),
    ("selection", "string", ("spec", "training", "selection"), "the split that the evaluations read"),
    ("status", "string", ("status",), '"finished", "diverged" or "failed"'),
    ("error_type", "string", ("error", "type"), "class of the error with which the trial failed"),
    ("error_message", "string", ("error", "message"), "text of that error"),
    ("steps", "integer", ("result", "steps"), "steps of training done"),
    ("parameters", "integer", ("result", "parameters"), "number of trainable parameters of the model"),
    ("clip_rate", "number", ("result", "clip_rate"), "share of the steps in which the gradients were clipped"),
    ("gradients_per_step", "number", ("result", "gradients_per_step"), "gradients that a step computes on average"),
    ("path_length", "number", ("result", "way"), "length of the path of the weights, in final trials"),
    *(
        (f"hash_{name}", "string", ("result", "hashes", name), f"sha256 of the {words}")
        for name, words in (
            ("initial_weights", "weights before the first step"),
            ("batches", "order of the examples in all batches"),
            ("noise", "state of the random generator after the last step"),
            ("final_weights", "weights after the last step"),
        )
    ),
    ("timed_steps", "integer", ("cost", "steps"), "steps of training that were timed"),
    ("peak_memory_bytes", "integer", ("cost", "peak_memory_bytes"), "peak memory of the trial"),
    ("alone", "boolean", ("cost", "alone"), "whether the trial had its device to itself"),
    ("data_on", "string", ("cost", "data_on"), "kind of the device that held the data"),
    ("plan", "string", ("plan",), "digest of the plan by which the trial ran"),
    ("written", "string", ("written",), "time at which the record was written"),
)
"""Columns that every study has: name, type, place in the record, and meaning."""


@dataclass(frozen=True)
class Column:
    """A column of the file, and its value in a trial."""

    field: Field
    value: Callable[[Run], Any]


Columns = Sequence[Column]
Path = Sequence[str | int]
"""A place in a record: keys and positions."""
EVALUATIONS, MECHANISM = ("result", "evaluations"), ("result", "mechanism")


def recorded(results: Results) -> list[Run]:
    """The trials that have a record, arm by arm."""
    return [run for arm in results.arms for run in (*arm.runs, *arm.timing) if run.record]


def columns(results: Results, runs: Sequence[Run]) -> Columns:
    """The columns of the file: those that every study has, then those of its metrics, machines and mechanisms."""
    return [
        Column(Field("arena", "string", "name of the arena"), lambda run: run.arena),
        Column(Field("optimizer", "string", "name of the optimizer"), lambda run: run.optimizer),
        Column(Field("lr", "number", "learning rate"), lambda run: run.lr),
        Column(Field("weight_decay", "number", "weight decay; empty without one"), lambda run: run.weight_decay),
        *(Column(Field(name, kind, words), partial(_at, path)) for name, kind, path, words in PLAIN),
        *_metrics(results),
        *_found(runs, ("cost", "seconds"), "seconds_", "number", "seconds of the trial in this phase; total: in all"),
        *_found(runs, ("environment",), "environment_", "string", "machine or version with which the trial ran"),
        *_mechanism(runs),
        Column(Field("spec", "string", "everything that determines the trial, as JSON"), _spec),
    ]


def _metrics(results: Results) -> Iterator[Column]:
    """The final metrics, and the learning curves as lists of equal length."""
    suite, loss_curve = results.study.suite, ("result", "loss_curve")
    metrics = dict.fromkeys(metric for arena in suite.arenas for metric in results.metrics[arena])
    for split, words in (("val", "validation"), ("test", "test")):
        for metric in metrics:
            field = Field(f"{split}_{metric}", "number", f"{metric} at the end on the {words} split")
            yield Column(field, partial(_final, suite.selection, split, metric))
    yield _list("train_steps", "integer", loss_curve, [0], "steps after which the training loss was logged")
    yield _list("train_loss", "number", loss_curve, [1], "mean loss of the window that ends with each of `train_steps`")
    yield _list("evaluated_at", "integer", EVALUATIONS, ["step"], "steps after which the trial was evaluated")
    for metric in metrics:
        words = f"{metric} after each of `evaluated_at`"
        yield _list(f"evaluation_{metric}", "number", EVALUATIONS, ["val", metric], words)


def _mechanism(runs: Sequence[Run]) -> Iterator[Column]:
    """What the mechanisms of optimizers report in final trials."""
    totals, course, words = (*MECHANISM, "totals"), (*MECHANISM, "course"), "of what the mechanism reports by this name"
    yield from _found(runs, totals, "mechanism_total_", "number", f"total over tensors and steps {words}")
    yield from _found(runs, (*MECHANISM, "way"), "mechanism_path_", "number", "distance that it moved the weights")
    yield _list("mechanism_read_at", "integer", course, [0], "steps after which the mechanism was read")
    for name in _names(runs, totals):
        since = f"increase up to each of `mechanism_read_at` {words}"
        yield _list(f"mechanism_added_{name}", "number", course, [1, name], since)
    yield from _found(runs, (*MECHANISM, "tensors"), "mechanism_tensors_", "object", f"total of each tensor {words}")


def _list(name: str, item: str, path: Path, within: Path, words: str) -> Column:
    """A column of lists: a part of each element of a list in the record."""
    return Column(Field(name, "array", words, item), lambda run: [_part(x, within) for x in _at(path, run) or ()])


def _found(runs: Sequence[Run], path: Path, prefix: str, kind: str, words: str) -> Iterator[Column]:
    """A column for each key that any record has at a place."""
    for key in _names(runs, path):
        yield Column(Field(prefix + key.replace("-", "_"), kind, words), partial(_at, (*path, key)))


def _names(runs: Sequence[Run], path: Path) -> list[str]:
    return sorted({key for run in runs for key in _at(path, run) or ()})


def _at(path: Path, run: Run) -> Any:
    """A part of a trial's record; None where it has none."""
    return _part(run.record, path)


def _part(whole: Any, path: Path) -> Any:
    for key in path:
        whole = None if whole is None else whole.get(key) if isinstance(whole, Mapping) else whole[key]
    return whole


def _spec(run: Run) -> str:
    return json.dumps(_at(["spec"], run), sort_keys=True)


def _final(selection: str, split: str, metric: str, run: Run) -> float | None:
    """A metric at the end; records keep what the selection reads under "val", even where that is the test split."""
    if selection == "val":
        return run.metric(split, metric)
    return run.metric("val", metric) if split == "test" else None


def to_parquet(columns: Columns, runs: Sequence[Run]) -> bytes:
    """The file; the same records give the same bytes."""
    import pyarrow  # here, since only a report needs it
    import pyarrow.parquet

    plain = {"string": pyarrow.string(), "integer": pyarrow.int64(), "number": pyarrow.float64()}
    plain |= {"boolean": pyarrow.bool_(), "object": pyarrow.map_(pyarrow.string(), pyarrow.float64())}
    types = {x.field.name: pyarrow.list_(plain[x.field.item]) if x.field.item else plain[x.field.type] for x in columns}
    file, schema = io.BytesIO(), pyarrow.schema([*types.items()])
    with pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for start in range(0, len(runs), GROUP):
            values = {x.field.name: [_plain(x.value(run)) for run in runs[start : start + GROUP]] for x in columns}
            writer.write_table(pyarrow.table(values, schema=schema))
    return file.getvalue()


def _plain(value: Any) -> Any:
    """A value as pyarrow takes it: a mapping as pairs."""
    return [*value.items()] if isinstance(value, Mapping) else value
