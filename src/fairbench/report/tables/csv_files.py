"""The CSV files: each a pure function of the study's results; numbers are written so that they read back exactly."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, cast

from fairbench.analysis.aggregates import Aggregate, aggregates
from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.controls import Contribution, contributions
from fairbench.analysis.comparison.leaderboard import Standing, leaderboard
from fairbench.analysis.comparison.ranking import Rank, ranking
from fairbench.analysis.comparison.schedules import Interaction, interactions
from fairbench.analysis.comparison.shocks import ShockCost, shock_costs
from fairbench.analysis.comparison.size_trends import LadderLaw, SizeTrend, ladder_laws, size_trends
from fairbench.analysis.comparison.speedups import Speedup, speedups
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.cost import Cost, costs
from fairbench.analysis.mechanism import Quantity, quantities
from fairbench.analysis.results import Results, Run
from fairbench.analysis.tuning import Tuning, tuning
from fairbench.common.files import Content
from fairbench.report.tables.rows import CurveValue, FinalValue, SearchedValue, Trial
from fairbench.suites.schema import Suite

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Table:
    """The columns and rows of a CSV file."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def to_csv(self) -> str:
        """The table as CSV: floats by `repr`, None as an empty cell, booleans as TRUE or FALSE, lists as JSON."""
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
        return str(value).upper()  # R reads no other spelling; pandas reads this one too
    return json.dumps(value) if isinstance(value, tuple | list) else value


def lr_sweep(results: Results) -> Table:
    """A row for each metric of the trials from which the setting was selected, the sweep and what confirms it."""
    trial, split = _Trial(results), results.study.suite.selection

    def rows() -> Iterator[tuple[Any, ...]]:
        for arm in results.arms:
            planned = {setting.lr for setting in results.study.search(arm.optimizer).first()}
            for run in (*arm.sweep, *arm.confirm):
                selected = arm.selected.by_seed.get(run.seed) == run.setting
                for metric in results.metrics[arm.arena]:
                    value, added = run.metric("val", metric), run.lr not in planned
                    yield (*trial.cells(run), run.stage, metric, split, value, run.status, selected, added)

    return Table((*trial.columns, *_names(SearchedValue)), list(rows()))


def _names(kind: type[DataclassInstance]) -> list[str]:
    return [field.name for field in fields(kind)]


class _Trial:
    """The columns that identify a trial, the searched hyperparameters among them."""

    def __init__(self, results: Results) -> None:
        self._extra = further_hyperparameters(results.study.suite)
        *first, seed = _names(Trial)
        self.columns = (*first, *self._extra, seed)

    def cells(self, run: Run) -> tuple[Any, ...]:
        searched = {} if run.setting is None else dict(run.setting.extra)
        extra = (searched.get(name, run.options.get(name)) for name in self._extra)
        return (run.arena, run.optimizer, run.lr, run.weight_decay, *extra, run.seed)


def further_hyperparameters(suite: Suite) -> list[str]:
    """The searched hyperparameters that have a column, apart from learning rate and weight decay."""
    return [name for name in suite.sweep.extra if name != "weight_decay"]


def steps(results: Results) -> Iterator[str]:
    """The CSV text of every training-loss window and validation evaluation, a line for each number, trial by trial."""
    about, names = _Trial(results), {metric for of in results.metrics.values() for metric in of}
    cells = {metric: _line([metric])[:-1] for metric in (*names, "loss")}
    yield _line((*about.columns, *_names(CurveValue)))
    for run in results.select(lambda run: run.result is not None):
        trial = _line((*about.cells(run), run.stage))[:-1]
        points = _points(results, run)  # of finite numbers
        yield "".join(f"{trial},{step},{split},{cells[metric]},{value!r}\n" for step, split, metric, value in points)


def curve_rows(results: Results, arena: str, metric: str) -> list[dict[str, Any]]:
    """The rows of `steps` for a metric in an arena, by the names of the columns."""
    about = _Trial(results)
    names = (*about.columns, *_names(CurveValue))
    return [
        dict(zip(names, (*about.cells(run), run.stage, *point), strict=True))
        for run in results.select(lambda run: run.arena == arena and run.result is not None)
        for point in _points(results, run)
        if point[2] == metric
    ]


def _points(results: Results, run: Run) -> Iterator[tuple[int, str, str, float]]:
    """Step, split, metric and value of every training-loss window and validation evaluation of a trial."""
    split, evaluations = results.study.suite.selection, run.details.evaluations
    for step, loss in run.details.loss_curve.points("loss"):
        yield step, "train", "loss", loss
    for i, step in enumerate(evaluations.steps):
        for metric in results.metrics[run.arena]:
            yield step, split, metric, evaluations.values[metric][i]


HASHES = ("initial_weights", "batches", "noise", "final_weights")
ALWAYS_WRITTEN = ("aggregate.csv", "significance.csv", "mechanism.csv", "cost.csv", "tuning.csv")
"""Files that are written even without a row."""


def trial_summary(results: Results) -> Table:
    """A row for each metric of each planned final trial, finished or not."""
    suite, trial = results.study.suite, _Trial(results)

    def rows() -> Iterator[tuple[Any, ...]]:
        for run in results.select(lambda run: run.stage == "final"):
            result = run.result
            facts = [getattr(result, name, None) for name in ("parameters", "clip_rate", "path_length")]
            facts += [run.hash(name) for name in HASHES]
            for metric in results.metrics[run.arena]:
                val = run.metric("val", metric) if suite.selection == "val" else None
                steps = result.steps if result else None
                values = (run.status, metric, val, run.metric("test", metric), steps)
                yield (*trial.cells(run), *values, *facts)

    return Table((*trial.columns, *_names(FinalValue)), list(rows()))


def of_dataclass(kind: type[DataclassInstance], values: Iterable[DataclassInstance]) -> Table:
    """A table with a column for each field of a dataclass."""
    return Table(_names(kind), [tuple(asdict(value).values()) for value in values])


TRIALS: Mapping[str, type[DataclassInstance]] = {
    "lr_sweep.csv": SearchedValue,
    "steps.csv": CurveValue,
    "summary.csv": FinalValue,
}
"""The files of trials, whose columns are those of the trial and the fields of a dataclass."""


def analysis_rows(analyses: Analyses) -> dict[str, tuple[type[DataclassInstance], Sequence[DataclassInstance]]]:
    """The rows of each file of an analysis, and their dataclass; optional files are there if they have rows."""
    rows: dict[str, tuple[type[DataclassInstance], Sequence[DataclassInstance]]] = {
        "aggregate.csv": (Aggregate, analyses.of(aggregates)),
        "significance.csv": (Comparison, analyses.comparisons),
        "mechanism.csv": (Quantity, analyses.of(quantities)),
        "cost.csv": (Cost, analyses.of(costs)),
        "leaderboard.csv": (Standing, analyses.of(leaderboard)),
        "ranking.csv": (Rank, analyses.of(ranking)),
        "shocks.csv": (ShockCost, analyses.of(shock_costs)),
        "speedup.csv": (Speedup, analyses.of(speedups)),
        "size_trends.csv": (SizeTrend, analyses.of(size_trends)),
        "ladder_laws.csv": (LadderLaw, analyses.of(ladder_laws)),
        "schedules.csv": (Interaction, analyses.of(interactions)),
        "causes.csv": (Contribution, analyses.of(contributions)),
        "tuning.csv": (Tuning, analyses.of(tuning)),
    }
    return {name: each for name, each in rows.items() if each[1] or name in ALWAYS_WRITTEN}


def csv_files(analyses: Analyses) -> dict[str, Content]:
    """The content of every CSV file by its name."""
    results = analyses.results
    return {
        "lr_sweep.csv": lr_sweep(results).to_csv(),
        "steps.csv": steps(results),
        "summary.csv": trial_summary(results).to_csv(),
        **{name: of_dataclass(*each).to_csv() for name, each in analysis_rows(analyses).items()},
    }
