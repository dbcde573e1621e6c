"""The CSV files: each a pure function of the study's results; numbers are written so that they read back exactly."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING, Any, cast

from fairbench.analysis.mechanism import Quantity, quantities
from fairbench.analysis.results import ArmResults, Results, Run, once
from fairbench.analysis.verdicts import Comparison

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

STEP_PHASES = ("data", "forward", "backward", "step")
"""The phases of a training step; evaluation is none."""


@dataclass(frozen=True)
class Table:
    """Columns and rows, in the order in which they are written."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def to_csv(self) -> str:
        """The table as CSV: floats by `repr`, None as an empty cell, truth as yes or no, no text as a formula."""
        return "".join(map(_line, (self.columns, *self.rows)))


class _Echo:
    """A file that gives back what is written into it, so that `csv.writer` gives back each line."""

    def write(self, text: str) -> str:
        return text


_WRITER = csv.writer(_Echo(), lineterminator="\n")


def _line(cells: Iterable[Any]) -> str:
    """A line of CSV."""
    return cast(str, _WRITER.writerow(map(_cell, cells)))


def _cell(value: Any) -> Any:
    """A value as `csv` writes what we want; of itself it writes floats by `repr`, and nothing for None."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@")):
        return f"'{value}"  # spreadsheets compute what begins so
    return value


def lr_sweep(results: Results) -> Table:
    """A row for each sweep trial and metric: what the setting was selected from."""
    trial = _Trial(results)

    def rows() -> Iterator[tuple[Any, ...]]:
        for arm in results.arms:
            planned = results.study.search(arm.optimizer).first()
            for run in arm.sweep:
                for metric in results.metrics(arm.arena):
                    value, extension = run.metric("val", metric), run.setting not in planned
                    yield (*trial.cells(run), metric, value, run.status, arm.selected(run), extension)

    columns = (*trial.columns, "metric", "val", "status", "selected", "extension")
    return Table(columns, list(rows()))


class _Trial:
    """The columns that say which trial a row is about: what is searched is among them."""

    def __init__(self, results: Results) -> None:
        self._others = [name for name in results.study.suite.sweep.extra if name != "weight_decay"]
        self.columns = ("arena", "optimizer", "lr", "weight_decay", *self._others, "seed")

    def cells(self, run: Run) -> tuple[Any, ...]:
        others = (run.options.get(name) for name in self._others)
        return (run.arena, run.optimizer, run.lr, run.weight_decay, *others, run.seed)


def steps(results: Results) -> Iterator[str]:
    """The CSV text of every training-loss window and validation evaluation, a line for each number, trial by trial."""
    about = _Trial(results)
    cells = {x: {metric: _line([metric])[:-1] for metric in results.metrics(x)} for x in results.study.suite.arenas}
    yield _line((*about.columns, "stage", "step", "split", "metric", "value"))
    for run in results.select(lambda run: run.result is not None):
        trial = _line((*about.cells(run), run.stage))[:-1]
        result = run.result or {}
        told = [f"{trial},{step},train,loss,{loss!r}\n" for step, loss in result["loss_curve"]]  # finite numbers
        for evaluation in result["evaluations"]:
            at, val = f"{trial},{evaluation['step']},val", evaluation["val"]
            told += [f"{at},{cell},{val[metric]!r}\n" for metric, cell in cells[run.arena].items()]
        yield "".join(told)


HASHES = ("initial_weights", "batches", "noise", "final_weights")


def summary(results: Results) -> Table:
    """A row for each planned final trial, whatever became of it."""
    metrics = list(dict.fromkeys(name for arena in results.study.suite.arenas for name in results.metrics(arena)))
    measured = [(split, metric) for split in ("val", "test") for metric in metrics]
    finals, trial = results.select(lambda run: run.stage == "final"), _Trial(results)
    facts = list(dict.fromkeys(name for run in finals for name in run.environment))
    counted = list(dict.fromkeys(name for run in finals for name in _mechanism(run)))

    def row(run: Run) -> tuple[Any, ...]:
        result = run.result or {}
        return (
            *(*trial.cells(run), run.status, result.get("steps")),
            *(run.metric(split, metric) for split, metric in measured),
            *(result.get("parameters"), result.get("clip_rate")),
            *(run.hash(name) for name in HASHES),
            result.get("way"),
            *(_mechanism(run).get(name) for name in counted),
            *(run.environment.get(name) for name in facts),
        )

    columns = (
        *(*trial.columns, "status", "steps"),
        *(f"{split}_{metric}" for split, metric in measured),
        *("parameters", "clip_rate"),
        *(f"hash_{name}" for name in HASHES),
        "way",
        *(f"mechanism_{name}" for name in counted),
        *(f"environment_{name.replace('-', '_')}" for name in facts),
    )
    return Table(columns, [row(run) for run in finals])


def _mechanism(run: Run) -> dict[str, float]:
    """The totals of a trial's mechanism; empty if it has none."""
    found = (run.result or {}).get("mechanism")
    return found["totals"] if found else {}


@dataclass(frozen=True)
class Aggregate:
    """A metric of an arm over the finished seeds, and how many seeds did not finish.

    Attributes:
        arena: name of the arena.
        optimizer: name of the optimizer.
        metric: name of the metric.
        split: always "test".
        mean: mean over the finished seeds, None when there are none.
        std: standard deviation, ddof = 1; None for fewer than two seeds.
        n: finished seeds.
        diverged: diverged seeds.
        failed: failed seeds.
        missing: seeds without a record.
    """

    arena: str
    optimizer: str
    metric: str
    split: str
    mean: float | None
    std: float | None
    n: int
    diverged: int
    failed: int
    missing: int


@once
def aggregates(results: Results) -> list[Aggregate]:
    """Every metric of every arm, in the order of the suite."""

    def one(arm: ArmResults, metric: str) -> Aggregate:
        values = arm.scores(metric)
        mean, std = (fmean(values) if values else None), (stdev(values) if len(values) > 1 else None)
        lost = arm.count("diverged"), arm.count("failed"), arm.count("missing")
        return Aggregate(arm.arena, arm.optimizer, metric, "test", mean, std, len(values), *lost)

    return [one(arm, metric) for arm in results.arms for metric in results.metrics(arm.arena)]


def aggregate(results: Results) -> Table:
    """A row for each arm and metric."""
    return of_dataclass(Aggregate, aggregates(results))


def significance(comparisons: Sequence[Comparison]) -> Table:
    """A row for each comparison."""
    return of_dataclass(Comparison, comparisons)


def mechanism(results: Results) -> Table:
    """A row for each quantity of each arm whose optimizer tells what its mechanism does."""
    return of_dataclass(Quantity, quantities(results))


def of_dataclass(kind: "type[DataclassInstance]", values: Iterable["DataclassInstance"]) -> Table:
    """Columns are the dataclass's fields."""
    return Table([field.name for field in fields(kind)], [tuple(asdict(value).values()) for value in values])


@dataclass(frozen=True)
class Cost:
    """What the training of an arm costs; medians over trials that did not fail and had their device to themselves.

    Attributes:
        arena: name of the arena.
        optimizer: name of the optimizer.
        source: "timing" for trials that took turns with those of the other optimizers, "final" where there are none.
        trials: trials that are counted.
        data_ms: milliseconds per training step to get the batch.
        forward_ms: milliseconds per step of the forward pass.
        backward_ms: milliseconds per step of the backward pass.
        step_ms: milliseconds per step of clipping, optimizer and schedule.
        train_ms: milliseconds per training step in all.
        eval_s: seconds of evaluation in a trial.
        trial_s: seconds of a trial in all.
        total_s: seconds of all the arm's trials, both stages, summed.
        data_on: kind of the device on which the data lie; "cpu" beside a GPU: there was no room, batches were sent.
        peak_memory_mb: highest peak memory of a final trial, in 10^6 bytes.
    """

    arena: str
    optimizer: str
    source: str
    trials: int
    data_ms: float
    forward_ms: float
    backward_ms: float
    step_ms: float
    train_ms: float
    eval_s: float
    trial_s: float
    total_s: float
    data_on: str
    peak_memory_mb: float


@once
def costs(results: Results) -> list[Cost]:
    """The cost of every arm with a final trial; alone among all tables it is not the same twice."""
    return [cost for arm in results.arms if (cost := _cost(arm)) is not None]


def _cost(arm: ArmResults) -> Cost | None:
    costly = [run.record for run in arm.timing or arm.final if run.record and run.record["cost"]]
    records = [record for record in costly if record["cost"]["alone"]]
    everything = [run.record for run in arm.runs if run.record and run.record["cost"]]
    if not records:
        return None

    def per_step(*phases: str) -> float:
        seconds = [sum(r["cost"]["seconds"][phase] for phase in phases) / r["cost"]["steps"] for r in records]
        return float(1000 * median(seconds))

    def per_trial(phase: str) -> float:
        return float(median(record["cost"]["seconds"][phase] for record in records))

    return Cost(
        arm.arena,
        arm.optimizer,
        source="timing" if arm.timing else "final",
        trials=len(records),
        data_ms=per_step("data"),
        forward_ms=per_step("forward"),
        backward_ms=per_step("backward"),
        step_ms=per_step("step"),
        train_ms=per_step(*STEP_PHASES),
        eval_s=per_trial("eval"),
        trial_s=per_trial("total"),
        total_s=sum(record["cost"]["seconds"]["total"] for record in everything),
        data_on=" ".join(sorted({record["cost"]["data_on"] for record in records})),
        peak_memory_mb=max(record["cost"]["peak_memory_bytes"] for record in records) / 1e6,
    )


def cost(results: Results) -> Table:
    """A row for each arm with a final trial."""
    return of_dataclass(Cost, costs(results))
