"""All records of a study as one Parquet file: a row for each trial, curves as lists."""

import io
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

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
    ("batch_size", "integer", ("spec", "arena", "batch_size"), "examples in a training batch"),
    ("planned_steps", "integer", ("spec", "training", "steps"), "steps of training that were planned"),
    ("steps", "integer", ("result", "steps"), "steps of training done"),
    ("parameters", "integer", ("result", "parameters"), "number of trainable parameters of the model"),
    ("clip_rate", "number", ("result", "clip_rate"), "share of the steps in which the gradients were clipped"),
    ("gradients_per_step", "number", ("result", "gradients_per_step"), "gradients that a step computes on average"),
    ("path_length", "number", ("result", "path_length"), "length of the path of the weights, in final trials"),
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
"""A place in an element of a list: keys and positions."""
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
        Column(Field("hyperparameters", "string", "hyperparameters of the optimizer, as JSON"), _hyperparameters),
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
        arenas = {arena for arena, own in results.metrics.items() if metric in own}
        yield _list(f"evaluation_{metric}", "number", EVALUATIONS, ["val", metric], words, arenas)


def _mechanism(runs: Sequence[Run]) -> Iterator[Column]:
    """What the mechanisms of optimizers report in final trials."""
    totals, course, words = (*MECHANISM, "totals"), (*MECHANISM, "course"), "of what the mechanism reports by this name"
    yield from _found(runs, totals, "mechanism_total_", "number", f"total over tensors and steps {words}")
    yield from _found(
        runs, (*MECHANISM, "path_length"), "mechanism_path_", "number", "distance that it moved the weights"
    )
    yield _list("mechanism_read_at", "integer", course, [0], "steps after which the mechanism was read")
    for name in _names(runs, totals):
        since = f"increase up to each of `mechanism_read_at` {words}"
        yield _list(f"mechanism_added_{name}", "number", course, [1, name], since)
    yield Column(Field("mechanism_tensors", "array", "names of the tensors", "string"), _tensors)
    for name in _names(runs, totals):
        each = f"total in each of `mechanism_tensors` {words}"
        yield Column(Field(f"mechanism_in_tensor_{name}", "array", each, "number"), partial(_in_tensors, name))


def _tensors(run: Run) -> list[str] | None:
    """The tensors of which the mechanism reports anything."""
    totals = _at((*MECHANISM, "tensors"), run)
    return None if totals is None else sorted({tensor for of in totals.values() for tensor in of})


def _in_tensors(quantity: str, run: Run) -> list[float | None] | None:
    """The total of a quantity in each tensor."""
    totals = _at((*MECHANISM, "tensors", quantity), run)
    return None if totals is None else [totals.get(tensor) for tensor in _tensors(run) or ()]


def _list(name: str, item: str, path: Sequence[str], within: Path, words: str, arenas: Collection[str] = ()) -> Column:
    """A column of lists: a part of each element of a list in the record; only of some arenas, unless of all."""

    def value(run: Run) -> list[Any] | None:
        listed: list[Any] | None = None if arenas and run.arena not in arenas else _at(path, run)
        for key in within:
            if not listed:
                break
            listed = [None if x is None else x.get(key) if isinstance(x, dict) else x[key] for x in listed]
        return listed

    return Column(Field(name, "array", words, item), value)


def _found(runs: Sequence[Run], path: Sequence[str], prefix: str, kind: str, words: str) -> Iterator[Column]:
    """A column for each key that any record has at a place."""
    for key in _names(runs, path):
        yield Column(Field(prefix + key.replace("-", "_"), kind, words), partial(_at, (*path, key)))


def _names(runs: Sequence[Run], path: Sequence[str]) -> list[str]:
    return sorted({key for run in runs for key in _at(path, run) or ()})


def _at(path: Sequence[str], run: Run) -> Any:
    """A part of a trial's record; None where it has none."""
    found: Any = run.record
    for key in path:
        if found is None:
            return None
        found = found.get(key)
    return found


def _unpacked(run: Run) -> Run:
    """A trial whose record is unpacked at once, and not at every access."""
    record: Any = run.record
    if result := record["result"]:
        result = {**result, "evaluations": [*result["evaluations"]], "loss_curve": [*result["loss_curve"]]}
        if mechanism := result["mechanism"]:
            unpacked = {"course": [*mechanism["course"]], "tensors": {**mechanism["tensors"]}}
            result["mechanism"] = {**mechanism, **unpacked}
    return run._replace(record={**record, "result": result})


def _hyperparameters(run: Run) -> str:
    options = _at(("spec", "optimizer", "options"), run)
    return orjson.dumps(options, option=orjson.OPT_SORT_KEYS).decode()


def _final(selection: str, split: str, metric: str, run: Run) -> float | None:
    """A metric at the end; records keep what the selection reads under "val", even where that is the test split."""
    if selection == "val":
        return run.metric(split, metric)
    return run.metric("val", metric) if split == "test" else None


def rows_of(columns: Columns, runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """The values of each trial by the names of the columns."""
    readers = [(x.field.name, x.value) for x in columns]
    for run in map(_unpacked, runs):
        yield {name: value(run) for name, value in readers}


def to_parquet(columns: Columns, runs: Sequence[Run]) -> bytes:
    """The file; the same records give the same bytes."""
    import pyarrow  # here, since only a report needs it
    import pyarrow.parquet

    plain = {"string": pyarrow.string(), "integer": pyarrow.int64(), "number": pyarrow.float64()}
    plain["boolean"] = pyarrow.bool_()
    types = {x.field.name: pyarrow.list_(plain[x.field.item]) if x.field.item else plain[x.field.type] for x in columns}
    file, schema = io.BytesIO(), pyarrow.schema([*types.items()])
    with pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for start in range(0, len(runs), GROUP):
            writer.write_table(_table(columns, runs[start : start + GROUP], schema))
    return file.getvalue()


def _table(columns: Columns, runs: Sequence[Run], schema: Any) -> Any:
    """The rows of some trials, by way of JSON: pyarrow would import pandas, in a second, to convert Python's values."""
    import pyarrow.json

    rows = b"\n".join(map(orjson.dumps, rows_of(columns, runs)))
    reading = pyarrow.json.ReadOptions(block_size=len(rows) + 1, use_threads=False)
    parsing = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    return pyarrow.json.read_json(io.BytesIO(rows), reading, parsing)
