"""The CSV files: each a pure function of the study's results; numbers are written so that they read back exactly."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, cast

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.ladder import Contribution
from fairbench.analysis.comparison.leaderboard import Standing
from fairbench.analysis.comparison.ranking import Rank
from fairbench.analysis.comparison.shocks import ShockCost
from fairbench.analysis.comparison.time_to_target import ProfilePoint, TimeToTarget
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.cost import Cost
from fairbench.analysis.mechanism import Quantity
from fairbench.analysis.results import Aggregate, Results, Run
from fairbench.analysis.tuning import Tuning
from fairbench.common.files import Content

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Table:
    """The columns and rows of a CSV file."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def to_csv(self) -> str:
        """The table as CSV: floats by `repr`, None as an empty cell, booleans as yes or no, no text as a formula."""
        return "".join(map(_line, (self.columns, *self.rows)))


class _Echo:
    """A file whose `write` returns the text, so that `csv.writer` returns each line."""

    def write(self, text: str) -> str:
        return text


_WRITER = csv.writer(_Echo(), lineterminator="\n")


def _line(cells: Iterable[Any]) -> str:
    """A line of CSV."""
    return cast(str, _WRITER.writerow(map(_cell, cells)))


def _cell(value: Any) -> Any:
    """The value to pass to `csv`, which writes floats by `repr` and None as an empty cell."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@")):
        return f"'{value}"  # spreadsheets would read a formula
    return value


def lr_sweep(results: Results) -> Table:
    """A row for each metric of the trials from which the setting was selected, the sweep and what confirms it."""
    trial = _Trial(results)

    def rows() -> Iterator[tuple[Any, ...]]:
        for arm in results.arms:
            planned = {setting.lr for setting in results.study.search(arm.optimizer).first()}
            for run in (*arm.sweep, *arm.confirm):
                selected = arm.selected.by_seed.get(run.seed) == run.setting
                for metric in results.metrics[arm.arena]:
                    value, added = run.metric("val", metric), run.lr not in planned
                    yield (*trial.cells(run), run.stage, metric, value, run.status, selected, added)

    columns = (*trial.columns, "stage", "metric", results.study.suite.selection, "status", "selected", "added")
    return Table(columns, list(rows()))


class _Trial:
    """The columns that identify a trial, the searched hyperparameters among them."""

    def __init__(self, results: Results) -> None:
        self._extra = [name for name in results.study.suite.sweep.extra if name != "weight_decay"]
        self.columns = ("arena", "optimizer", "lr", "weight_decay", *self._extra, "seed")

    def cells(self, run: Run) -> tuple[Any, ...]:
        searched = {} if run.setting is None else dict(run.setting.extra)
        extra = (searched.get(name, run.options.get(name)) for name in self._extra)
        return (run.arena, run.optimizer, run.lr, run.weight_decay, *extra, run.seed)


def steps(results: Results) -> Iterator[str]:
    """The CSV text of every training-loss window and validation evaluation, a line for each number, trial by trial."""
    about = _Trial(results)
    cells = {x: {metric: _line([metric])[:-1] for metric in results.metrics[x]} for x in results.study.suite.arenas}
    yield _line((*about.columns, "stage", "step", "split", "metric", "value"))
    for run in results.select(lambda run: run.result is not None):
        trial = _line((*about.cells(run), run.stage))[:-1]
        result = run.result or {}
        lines = [f"{trial},{step},train,loss,{loss!r}\n" for step, loss in result["loss_curve"]]  # finite numbers
        for evaluation in result["evaluations"]:
            at, val = f"{trial},{evaluation['step']},{results.study.suite.selection}", evaluation["val"]
            lines += [f"{at},{cell},{val[metric]!r}\n" for metric, cell in cells[run.arena].items()]
        yield "".join(lines)


HASHES = ("initial_weights", "batches", "noise", "final_weights")
ALWAYS_WRITTEN = ("aggregate.csv", "significance.csv", "mechanism.csv", "cost.csv", "tuning.csv")
"""Files that are written even without a row."""


def trial_summary(results: Results) -> Table:
    """A row for each planned final trial, finished or not."""
    metrics = list(dict.fromkeys(name for arena in results.study.suite.arenas for name in results.metrics[arena]))
    splits = dict.fromkeys((results.study.suite.selection, "test"))
    measured = [(split, metric) for split in splits for metric in metrics]
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
    mechanism = (run.result or {}).get("mechanism")
    return mechanism["totals"] if mechanism else {}


def of_dataclass(kind: type[DataclassInstance], values: Iterable[DataclassInstance]) -> Table:
    """A table with a column for each field of a dataclass."""
    return Table([field.name for field in fields(kind)], [tuple(asdict(value).values()) for value in values])


def csv_files(analyses: Analyses) -> dict[str, Content]:
    """The content of every CSV file by its name; a study without the data of an optional file has none."""
    tables: dict[str, tuple[type[DataclassInstance], Sequence[DataclassInstance]]] = {
        "aggregate.csv": (Aggregate, analyses.aggregates),
        "significance.csv": (Comparison, analyses.comparisons),
        "mechanism.csv": (Quantity, analyses.quantities),
        "cost.csv": (Cost, analyses.costs),
        "leaderboard.csv": (Standing, analyses.leaderboard),
        "ranking.csv": (Rank, analyses.ranking),
        "time_to_target.csv": (TimeToTarget, analyses.times_to_target),
        "profiles.csv": (ProfilePoint, analyses.profiles),
        "shocks.csv": (ShockCost, analyses.shock_costs),
        "causes.csv": (Contribution, analyses.contributions),
        "tuning.csv": (Tuning, analyses.tuning),
    }
    results = analyses.results
    return {
        "lr_sweep.csv": lr_sweep(results).to_csv(),
        "steps.csv": steps(results),
        "summary.csv": trial_summary(results).to_csv(),
        **{name: of_dataclass(*x).to_csv() for name, x in tables.items() if x[1] or name in ALWAYS_WRITTEN},
    }
