"""The columns of the Parquet file of all records."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec

from fairbench.analysis.results import Results, Run
from fairbench.report.fields import Field
from fairbench.report.render.record_facts import FACTS, Fact
from fairbench.study.record import plain_values

Value = Callable[[Run], Any]
"""Returns the value of a column in a trial."""
Part = Callable[[Run], Mapping[str, Any] | None]
"""Returns a part of a trial whose keys are columns."""


@dataclass(frozen=True)
class RecordColumn(Field):
    """A column of the file.

    Attributes:
        value: returns the value in a trial.
    """

    value: Value = field(kw_only=True)


def columns(results: Results, runs: Sequence[Run]) -> list[RecordColumn]:
    """The columns of the file: those of every study, then those of the metrics, machines and mechanisms."""
    hyperparameters = RecordColumn(
        name="hyperparameters",
        type="string",
        description="hyperparameters of the optimizer, as JSON",
        value=_hyperparameters,
    )
    all_columns = [_fact_column(fact) for fact in FACTS]
    all_columns += _metric_columns(results)
    all_columns += _curve_columns(results)
    all_columns += _key_columns(
        runs,
        part=_seconds,
        prefix="seconds_",
        type_="number",
        description="seconds of the trial in this phase; total: in all",
    )
    all_columns += _key_columns(
        runs,
        part=attrgetter("environment"),
        prefix="environment_",
        type_="string",
        description="machine or version with which the trial ran",
    )
    all_columns += _mechanism_columns(runs)
    all_columns.append(hyperparameters)
    return all_columns


def _fact_column(fact: Fact) -> RecordColumn:
    """The column of a fact."""
    return RecordColumn(fact.name, fact.type, fact.meaning, value=_value_at(fact))


def _value_at(fact: Fact) -> Value:
    """A function that returns the value of a fact in a trial; None if the first part of its path is None."""
    first, _, further = fact.path.partition(".")
    part_of = attrgetter(first)
    if not further:
        return part_of
    value_of = attrgetter(further)

    def value(run: Run) -> Any:
        part = part_of(run)
        return None if part is None else value_of(part)

    def value_or_none(run: Run) -> Any:
        return value(run) or None

    return value_or_none if fact.empty_is_missing else value


def _hyperparameters(run: Run) -> str:
    """The hyperparameters of a trial as JSON."""
    return msgspec.json.encode(run.options, order="sorted").decode()


def _seconds(run: Run) -> Mapping[str, float] | None:
    """The seconds of each phase of a trial; None if it failed."""
    if run.cost is None:
        return None
    seconds: dict[str, float] = plain_values(run.cost.seconds)
    return seconds


def _key_columns(runs: Sequence[Run], part: Part, prefix: str, type_: str, description: str) -> Iterator[RecordColumn]:
    """A column for each key that any trial has in a part. The name of the column is the prefix and the key."""
    for key in _keys(runs, part):
        name = prefix + key.replace("-", "_")
        yield RecordColumn(name, type_, description, value=partial(_value_of_key, part, key))


def _keys(runs: Sequence[Run], part: Part) -> list[str]:
    """The keys that any trial has in a part, sorted."""
    keys: set[str] = set()
    for run in runs:
        keys.update(part(run) or ())
    return sorted(keys)


def _value_of_key(part: Part, key: str, run: Run) -> Any:
    """The value of a key in a part of a trial; None if the trial has no such part or key."""
    return (part(run) or {}).get(key)


def _metric_names(results: Results) -> list[str]:
    """The metrics of all arenas, each once, in the order of the suite."""
    names: dict[str, None] = {}
    for arena in results.study.suite.arenas:
        names |= dict.fromkeys(results.metrics[arena])
    return [*names]


def _metric_columns(results: Results) -> Iterator[RecordColumn]:
    """A column for each metric at the end of a trial, on the validation split and on the test split."""
    selection = results.study.suite.selection
    for split, words in (("val", "validation"), ("test", "test")):
        for metric in _metric_names(results):
            yield RecordColumn(
                name=f"{split}_{metric}",
                type="number",
                description=f"{metric} at the end on the {words} split",
                value=partial(_final, selection, split, metric),
            )


def _final(selection: str, split: str, metric: str, run: Run) -> float | None:
    """A metric on a split at the end of a trial; None if it was not measured.

    Records keep the metrics of the split that selects under "val", even if that is the test split.
    """
    if selection == "val":
        return run.metric(split, metric)
    if split == "test":
        return run.metric("val", metric)
    return None


def _curve_columns(results: Results) -> Iterator[RecordColumn]:
    """The columns of the learning curves, whose cells are lists."""
    yield RecordColumn(
        name="train_steps",
        type="array",
        description="steps after which the training loss was logged",
        item="integer",
        value=_logged_steps,
    )
    yield RecordColumn(
        name="train_loss",
        type="array",
        description="mean loss of the window that ends with each of `train_steps`",
        item="number",
        value=_logged_losses,
    )
    yield RecordColumn(
        name="evaluated_at",
        type="array",
        description="steps after which the trial was evaluated",
        item="integer",
        value=_evaluated_steps,
    )
    for metric in _metric_names(results):
        yield RecordColumn(
            name=f"evaluation_{metric}",
            type="array",
            description=f"{metric} after each of `evaluated_at`",
            item="number",
            value=partial(_evaluations, results, metric),
        )


def _logged_steps(run: Run) -> list[int] | None:
    """The steps after which the training loss was logged; None for a failed trial."""
    if run.result is None:
        return None
    return [*run.details.loss_curve.steps]


def _logged_losses(run: Run) -> list[float] | None:
    """The logged training losses; None for a failed trial."""
    if run.result is None:
        return None
    return [*run.details.loss_curve.values.get("loss", ())]  # a program may report no training loss


def _evaluated_steps(run: Run) -> list[int] | None:
    """The steps after which a trial was evaluated; None for a failed trial."""
    if run.result is None:
        return None
    return [*run.details.evaluations.steps]


def _evaluations(results: Results, metric: str, run: Run) -> list[float] | None:
    """The values of a metric at each evaluation; None for a failed trial, or if the arena does not measure it."""
    if run.result is None or metric not in results.metrics[run.arena]:
        return None
    return [*run.details.evaluations.values.get(metric, ())]


def _mechanism_columns(runs: Sequence[Run]) -> Iterator[RecordColumn]:
    """The columns of what the mechanisms of optimizers report in final trials."""
    this_name = "of what the mechanism reports by this name"
    yield from _key_columns(
        runs,
        part=_totals,
        prefix="mechanism_total_",
        type_="number",
        description=f"total over tensors and steps {this_name}",
    )
    yield from _key_columns(
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
    quantities = _keys(runs, _totals)
    for name in quantities:
        yield RecordColumn(
            name=f"mechanism_added_{name}",
            type="array",
            description=f"increase up to each of `mechanism_read_at` {this_name}",
            item="number",
            value=partial(_added, name),
        )
    yield RecordColumn(
        name="mechanism_tensors",
        type="array",
        description="names of the tensors",
        item="string",
        value=_tensors,
    )
    for name in quantities:
        yield RecordColumn(
            name=f"mechanism_in_tensor_{name}",
            type="array",
            description=f"total in each of `mechanism_tensors` {this_name}",
            item="number",
            value=partial(_in_tensors, name),
        )


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
