"""The columns of the Parquet file of all records."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec

from fairbench.analysis.results import Results, Run
from fairbench.report.render.mechanism_columns import mechanism_columns
from fairbench.report.render.record_column import RecordColumn, Value, key_columns
from fairbench.report.render.record_facts import FACTS, Fact
from fairbench.study.record import plain_values
from fairbench.suites.schema import Suite


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
    all_columns += key_columns(
        runs,
        part=_seconds,
        prefix="seconds_",
        type_="number",
        description="seconds of the trial in this phase; total: in all",
    )
    all_columns += key_columns(
        runs,
        part=attrgetter("environment"),
        prefix="environment_",
        type_="string",
        description="machine or version with which the trial ran",
    )
    all_columns += mechanism_columns(runs)
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


def _metric_names(results: Results) -> list[str]:
    """The metrics of all arenas, each once, in the order of the suite."""
    names: dict[str, None] = {}
    for arena in results.study.suite.arenas:
        names |= dict.fromkeys(results.metrics[arena])
    return [*names]


def _metric_columns(results: Results) -> Iterator[RecordColumn]:
    """A column for each metric at the end of a trial, on validation examples and on test examples."""
    suite = results.study.suite
    for split, words in (("val", "validation"), ("test", "test")):
        recorded = _recorded(suite, split)
        for metric in _metric_names(results):
            yield RecordColumn(
                name=f"{split}_{metric}",
                type="number",
                description=f"{metric} at the end on {words} examples",
                value=partial(_final, recorded, metric),
            )


def _recorded(suite: Suite, split: str) -> str | None:
    """The name under which the records of a study keep the metrics of a split; None if they have none.

    Records keep the metrics of the split that selects under "val", even if that is the test split. They have those of
    the split that decides under "test", even if that is the validation split.
    """
    if split == suite.selected_on:
        return "val"
    if split == suite.decides:
        return "test"
    return None


def _final(recorded: str | None, metric: str, run: Run) -> float | None:
    """A metric at the end of a trial; None if it was not measured."""
    if recorded is None:
        return None
    return run.metric(recorded, metric)


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
