"""The trials: those that did not finish, and the data files that have a row, or several, for each trial."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import Results, Run
from fairbench.common.formatting import rate
from fairbench.common.grouping import grouped
from fairbench.report.document import Output, Section
from fairbench.report.render.parquet import RECORDS, RecordTable, record_table
from fairbench.report.table import SEARCHED, Table, csv_line, names_of
from fairbench.report.view import ARM, Column, integers, numbers, words
from fairbench.study.record import Hashes


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
        val: the metric on the validation split; empty unless the trial finished, or if the suite never reads the split.
        test: the metric on the test split; empty unless the trial finished.
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


def _searched(results: Results) -> list[str]:
    """The searched hyperparameters that have a column, apart from learning rate and weight decay."""
    return [name for name in results.study.suite.sweep.extra if name != "weight_decay"]


def _trial(results: Results, run: Run) -> dict[str, Any]:
    """The fields of a `Trial`, in their order."""
    found = {} if run.setting is None else dict(run.setting.extra)
    searched = {name: found.get(name, run.options.get(name)) for name in _searched(results)}
    about = {"arena": run.arena, "optimizer": run.optimizer, "lr": run.lr, "weight_decay": run.weight_decay}
    return {**about, SEARCHED: searched, "seed": run.seed}


def _columns(kind: type, results: Results) -> tuple[str, ...]:
    """The columns of a table of trials, in which the searched hyperparameters follow the weight decay."""
    names = list(names_of(kind))
    names[names.index("seed") : names.index("seed")] = _searched(results)
    return tuple(names)


def search_table(results: Results) -> Table[SearchedValue]:
    """A row for each metric of the trials from which the setting was selected, those of the sweep and of stage 2."""
    split, rows = results.study.suite.selection, list[SearchedValue]()
    for arm in results.arms:
        planned = {setting.lr for setting in results.study.search(arm.optimizer).first()}
        for run in (*arm.sweep, *arm.full_length):
            about = {**_trial(results, run), "stage": run.stage, "split": split, "status": run.status}
            about |= {"selected": run.selected, "added": run.lr not in planned}
            for metric in results.metrics[arm.arena]:
                rows.append(SearchedValue(**about, metric=metric, value=run.metric("val", metric)))
    return Table(rows, _columns(SearchedValue, results), kind=SearchedValue)


def final_table(results: Results) -> Table[FinalValue]:
    """A row for each metric of each final trial at the selected setting, finished or not."""
    rows = []
    for run in (run for arm in results.arms for run in arm.final):
        facts = ("steps", "parameters", "clip_rate", "path_length")
        about = {**_trial(results, run), "status": run.status, **{x: getattr(run.result, x, None) for x in facts}}
        about |= {f"hash_{name}": run.hash(name) for name in Hashes.__struct_fields__}
        for metric in results.metrics[run.arena]:
            val = run.metric("val", metric) if results.study.suite.selection == "val" else None
            rows.append(FinalValue(**about, metric=metric, val=val, test=run.metric("test", metric)))
    return Table(rows, _columns(FinalValue, results), kind=FinalValue)


def _points(results: Results, run: Run) -> Iterator[tuple[int, str, str, float]]:
    """Step, split, metric and value of every training-loss window and validation evaluation of a trial."""
    split, evaluations = results.study.suite.selection, run.details.evaluations
    for step, loss in run.details.loss_curve.points("loss"):
        yield step, "train", "loss", loss
    for i, step in enumerate(evaluations.steps):
        for metric in results.metrics[run.arena]:
            yield step, split, metric, evaluations.values[metric][i]


def curve_table(results: Results, arena: str, metric: str) -> Table[CurveValue]:
    """The values of a metric during the trainings in an arena."""
    rows = []
    for run in results.select(lambda run: run.arena == arena and run.result is not None):
        about = {**_trial(results, run), "stage": run.stage, "selected": run.selected}
        for step, split, name, value in _points(results, run):
            if name == metric:
                rows.append(CurveValue(**about, step=step, split=split, metric=name, value=value))
    return Table(rows, _columns(CurveValue, results), kind=CurveValue)


@dataclass(frozen=True, repr=False, kw_only=True)
class CurveFile(Table[CurveValue]):
    """All learning curves, written trial by trial: the objects of all points would fill the memory."""

    results: Results

    def to_csv(self) -> Iterator[str]:
        """The lines, those of a trial together."""
        cells = {name: csv_line([name])[:-1] for of in self.results.metrics.values() for name in (*of, "loss")}
        yield csv_line(self.columns)
        for run in self.results.select(lambda run: run.result is not None):
            *about, searched, seed = _trial(self.results, run).values()
            trial = csv_line((*about, *searched.values(), seed, run.stage, run.selected))[:-1]
            points = _points(self.results, run)  # of finite numbers
            yield "".join(f"{trial},{step},{split},{cells[name]},{value!r}\n" for step, split, name, value in points)


def _all_curves(results: Results) -> CurveFile:
    return CurveFile((), _columns(CurveValue, results), kind=CurveValue, results=results)


def _outcome(run: Run) -> str:
    return f"diverged, detected at step {run.result.steps}" if run.result else f"failed, {run.error}"


def _tracebacks(analyses: Analyses) -> Iterator[tuple[str, str]]:
    """Each traceback with its trials, since many trials may fail for the same reason."""
    trials = grouped((run.error.traceback, run) for run in analyses.results.select(lambda _: True) if run.error)
    for traceback, (x, *others) in trials.items():
        first = f"{x.arena} {x.optimizer}, {x.stage}, learning rate {rate(x.lr)}, seed {x.seed}"
        yield first + (f" and {len(others)} more with the same traceback" if others else ""), traceback


def _missing(analyses: Analyses) -> Iterator[str]:
    """The number of trials without a record, by arena and optimizer."""
    counts: dict[str, Counter[str]] = {}
    for run in analyses.results.select(lambda run: run.status == "missing"):
        counts.setdefault(run.arena, Counter())[run.optimizer] += 1
    for arena, optimizers in counts.items():
        each = ", ".join(f"{optimizer} {n}" for optimizer, n in optimizers.items())
        yield f"{arena}: {optimizers.total()} without a record ({each})."


TRIALS = Section[Analyses](
    "lost",
    "Unfinished trials",
    (
        Output(
            "lost",
            "Trials",
            lambda a: a.results.select(lambda run: run.status in ("failed", "diverged")),
            (
                *ARM,
                words("Stage", "stage"),
                numbers("Learning rate", "lr", rate),
                numbers("Weight decay", "weight_decay", rate),
                integers("Seed", "seed"),
                Column("Outcome", _outcome),
            ),
            "Trials that diverged or failed.",
            folded=_tracebacks,
            texts=_missing,
        ),
        Output("lr_sweep", kind=SearchedValue, data=lambda a: search_table(a.results), always=True),
        Output("steps", kind=CurveValue, data=lambda a: _all_curves(a.results), always=True),
        Output("summary", kind=FinalValue, data=lambda a: final_table(a.results), always=True),
        Output("records", kind=RecordTable, data=lambda a: record_table(a.results), file=RECORDS, always=True),
    ),
)
