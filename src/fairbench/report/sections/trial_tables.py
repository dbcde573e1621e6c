"""The data files with rows for each trial: the values of the search, the curves and the final values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fairbench.analysis.results import Results, Run
from fairbench.report.fields import SEARCHED, names_of
from fairbench.report.table import Table, csv_line


@dataclass(frozen=True)
class Trial:
    """A trial, by what tells it from the others of its stage.

    Attributes:
        lr: learning rate; empty where the sweep has not selected one yet.
        weight_decay: weight decay; empty where there is none, or none is selected yet.
        searched: the other searched hyperparameters, each a column.
        seed: seed of the initial weights and of the order of the data.
    """

    arena: str
    optimizer: str
    lr: float | None
    weight_decay: float | None
    searched: Mapping[str, Any]
    seed: int


@dataclass(frozen=True)
class SearchedValue(Trial):
    """A metric at the end of a trial from which the setting was selected, of the sweep or of stage 2.

    Attributes:
        split: the split that the selection reads.
        value: the metric; empty unless the trial finished.
        added: whether its learning rate lies beyond those that were planned first.
    """

    stage: str
    metric: str
    split: str
    value: float | None
    status: str
    selected: bool
    added: bool


@dataclass(frozen=True)
class CurveValue(Trial):
    """A point of a learning curve: the training loss of a window of steps, or a metric of an evaluation.

    Attributes:
        step: steps of training done.
        split: "train" for the loss that is trained, otherwise the split that the evaluation read.
        value: the metric; of the training loss, the mean of the window that ends with this step.
    """

    stage: str
    selected: bool
    step: int
    split: str
    metric: str
    value: float


@dataclass(frozen=True)
class FinalValue(Trial):
    """A metric at the end of a final trial at the selected setting, finished or not, with the facts of that trial.

    Attributes:
        val: the metric on validation examples; empty unless the trial finished, or if the suite never reads them.
        test: the metric on test examples; empty unless the trial finished, or if the suite has none.
        steps: steps of training done; empty if the trial failed or is missing.
        parameters: number of trainable parameters of the model.
        clip_rate: share of the steps in which the gradients were clipped.
        path_length: length of the path of the weights over all steps, estimated from some of them.
        hash_initial_weights: sha256 of the weights before the first step.
        hash_batches: sha256 of the examples of all batches, in their order.
        hash_noise: sha256 of the state of the random generator after the last step.
        hash_final_weights: sha256 of the weights after the last step.
    """

    status: str
    metric: str
    val: float | None
    test: float | None
    steps: int | None
    parameters: int | None
    clip_rate: float | None
    path_length: float | None
    hash_initial_weights: str | None
    hash_batches: str | None
    hash_noise: str | None
    hash_final_weights: str | None


MEASURED = ("steps", "parameters", "clip_rate", "path_length")
"""The values of a result that each final trial has."""


def _searched(results: Results) -> list[str]:
    """The searched hyperparameters that have a column, apart from learning rate and weight decay."""
    return [name for name in results.study.suite.sweep.extra if name != "weight_decay"]


def _trial(results: Results, run: Run) -> dict[str, Any]:
    """The fields of a `Trial`, by their names."""
    return {
        "arena": run.arena,
        "optimizer": run.optimizer,
        "lr": run.lr,
        "weight_decay": run.weight_decay,
        SEARCHED: _searched_values(results, run),
        "seed": run.seed,
    }


def _searched_values(results: Results, run: Run) -> dict[str, Any]:
    """The values of the searched hyperparameters. What the setting does not have is a value of the optimizer."""
    set_values: dict[str, Any] = {}
    if run.setting is not None:
        set_values = dict(run.setting.extra)
    return {name: set_values.get(name, run.options.get(name)) for name in _searched(results)}


def _columns(kind: type, results: Results) -> tuple[str, ...]:
    """The columns of a table of trials. The searched hyperparameters stand between weight decay and seed."""
    names = names_of(kind)
    seed_index = names.index("seed")
    return (*names[:seed_index], *_searched(results), *names[seed_index:])


def search_table(results: Results) -> Table[SearchedValue]:
    """A row for each metric of each trial from which the setting was selected, of the sweep or of stage 2."""
    rows = []
    for arm in results.arms:
        if not results.study.optimizers[arm.optimizer].has_rate:
            continue  # nothing was selected
        planned = {setting.lr for setting in results.study.search(arm.optimizer).first()}
        for run in (*arm.sweep, *arm.full_length):
            trial = _trial(results, run)
            for metric in results.metrics[arm.arena]:
                row = SearchedValue(
                    **trial,
                    stage=run.stage,
                    metric=metric,
                    split=results.study.suite.selected_on,
                    value=run.metric("val", metric),
                    status=run.status,
                    selected=run.selected,
                    added=run.lr not in planned,
                )
                rows.append(row)
    return Table(rows, _columns(SearchedValue, results), kind=SearchedValue)


def final_table(results: Results) -> Table[FinalValue]:
    """A row for each metric of each final trial at the selected setting, whether it finished or not."""
    rows: list[FinalValue] = []
    for arm in results.arms:
        for run in arm.final:
            rows += _final_values(results, run)
    return Table(rows, _columns(FinalValue, results), kind=FinalValue)


def _final_values(results: Results, run: Run) -> Iterator[FinalValue]:
    """A row for each metric of a final trial."""
    trial = _trial(results, run)
    measured: dict[str, Any] = {name: getattr(run.result, name, None) for name in MEASURED}
    reads_val = results.study.suite.selected_on == "val"
    reads_test = results.study.suite.decides == "test"
    for metric in results.metrics[run.arena]:
        yield FinalValue(
            **trial,
            status=run.status,
            metric=metric,
            val=run.metric("val", metric) if reads_val else None,
            test=run.metric("test", metric) if reads_test else None,
            **measured,
            hash_initial_weights=run.hash("initial_weights"),
            hash_batches=run.hash("batches"),
            hash_noise=run.hash("noise"),
            hash_final_weights=run.hash("final_weights"),
        )


def _points(results: Results, run: Run) -> Iterator[tuple[int, str, str, float]]:
    """The points of the curves of a trial: the step, the split, the metric and the value.

    There is one for each window of the training loss, and one for each metric of each evaluation.
    """
    for step, loss in run.details.loss_curve.points("loss"):
        yield step, "train", "loss", loss
    split = results.study.suite.selected_on
    evaluations = run.details.evaluations
    for index, step in enumerate(evaluations.steps):
        for metric in results.metrics[run.arena]:
            yield step, split, metric, evaluations.values[metric][index]


def curve_table(results: Results, arena: str, metric: str) -> Table[CurveValue]:
    """A row for each value of a metric during the trainings in an arena."""
    rows = []
    for run in results.select(lambda run: run.arena == arena and run.result is not None):
        trial = _trial(results, run)
        for step, split, name, value in _points(results, run):
            if name != metric:
                continue
            point = CurveValue(
                **trial,
                stage=run.stage,
                selected=run.selected,
                step=step,
                split=split,
                metric=metric,
                value=value,
            )
            rows.append(point)
    return Table(rows, _columns(CurveValue, results), kind=CurveValue)


@dataclass(frozen=True, repr=False, kw_only=True)
class CurveFile(Table[CurveValue]):
    """All learning curves, written trial by trial: the objects of all points would fill the memory."""

    results: Results

    def to_csv(self) -> Iterator[str]:
        """The lines of the CSV file. The lines of a trial are yielded together."""
        cells = self._metric_cells()
        yield csv_line(self.names)
        for run in self.results.select(lambda run: run.result is not None):
            trial = self._trial_cells(run)
            lines = []
            for step, split, name, value in _points(self.results, run):
                metric = cells[name]
                number = repr(value)  # as a CSV needs it, since all values are finite
                lines.append(f"{trial},{step},{split},{metric},{number}\n")
            yield "".join(lines)

    def _metric_cells(self) -> dict[str, str]:
        """The name of each metric as a cell of CSV."""
        names = {"loss"}
        for metrics in self.results.metrics.values():
            names.update(metrics)
        return {name: _without_end(csv_line([name])) for name in names}

    def _trial_cells(self, run: Run) -> str:
        """The cells that are the same in all lines of a trial, as CSV."""
        trial = _trial(self.results, run)
        searched = trial.pop(SEARCHED)
        seed = trial.pop("seed")
        return _without_end(csv_line([*trial.values(), *searched.values(), seed, run.stage, run.selected]))


def all_curves(results: Results) -> CurveFile:
    """A row for each point of every learning curve."""
    return CurveFile(rows=(), columns=_columns(CurveValue, results), kind=CurveValue, results=results)


def _without_end(line: str) -> str:
    """A line without its line end."""
    return line.removesuffix("\n")
