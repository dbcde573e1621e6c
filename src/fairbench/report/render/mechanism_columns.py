"""The columns of the Parquet file with what the mechanisms of optimizers report."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from fairbench.analysis.results import Run
from fairbench.report.render.record_column import RecordColumn, Value, key_columns, keys_in


def mechanism_columns(runs: Sequence[Run]) -> Iterator[RecordColumn]:
    """The columns of what the mechanisms of optimizers report in final trials."""
    this_name = "of what the mechanism reports by this name"
    yield from key_columns(
        runs,
        part=_totals,
        prefix="mechanism_total_",
        type_="number",
        description=f"total over tensors and steps {this_name}",
    )
    yield from key_columns(
        runs,
        part=_path_lengths,
        prefix="mechanism_path_",
        type_="number",
        description="distance that it moved the weights",
    )
    yield RecordColumn(
        name="mechanism_read_at",
        type="array",
        description="steps after which the mechanism was read",
        item="integer",
        value=_read_at,
    )
    quantities = keys_in(runs, _totals)
    for name in quantities:
        yield _list_column(
            f"mechanism_added_{name}", f"increase up to each of `mechanism_read_at` {this_name}", partial(_added, name)
        )
    yield RecordColumn(
        name="mechanism_tensors",
        type="array",
        description="names of the tensors",
        item="string",
        value=_tensors,
    )
    for name in quantities:
        yield _list_column(
            f"mechanism_in_tensor_{name}",
            f"total in each of `mechanism_tensors` {this_name}",
            partial(_in_tensors, name),
        )


def _list_column(name: str, description: str, value: Value) -> RecordColumn:
    """A column whose cells are lists of numbers."""
    return RecordColumn(name=name, type="array", description=description, item="number", value=value)


def _totals(run: Run) -> Mapping[str, float] | None:
    """The total of each quantity that the mechanism reports; None without a mechanism."""
    return run.mechanism.totals if run.mechanism else None


def _path_lengths(run: Run) -> Mapping[str, float] | None:
    """The distance that each decay of the mechanism moved the weights; None without a mechanism."""
    return run.mechanism.path_length if run.mechanism else None


def _read_at(run: Run) -> list[int] | None:
    """The steps after which the mechanism was read."""
    return [*run.mechanism.course.steps] if run.mechanism else None


def _added(quantity: str, run: Run) -> list[float | None] | None:
    """The increase of a quantity at each reading; None without a mechanism, and for a quantity that it lacks."""
    if not run.mechanism:
        return None
    course = run.mechanism.course
    if quantity not in course.values:
        return [None] * len(course.steps)
    return [*course.values[quantity]]


def _tensors(run: Run) -> list[str] | None:
    """The names of the tensors for which the mechanism reports a quantity; None without a mechanism."""
    if not run.mechanism:
        return None
    tensors: set[str] = set()
    for totals in run.mechanism.tensors.values():
        tensors.update(totals)
    return sorted(tensors)


def _in_tensors(quantity: str, run: Run) -> list[float | None] | None:
    """The total of a quantity in each tensor; None if the mechanism does not report it."""
    tensors = _tensors(run)
    if tensors is None or run.mechanism is None:
        return None
    totals = run.mechanism.tensors.get(quantity)
    if totals is None:
        return None
    return [totals.get(tensor) for tensor in tensors]
