"""A first look at an optimizer: one arena, one seed, few rates; no finding, and nothing is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from fairbench.common.errors import UsageError
from fairbench.optimizers.spec import ResolvedOptimizer
from fairbench.runner.executors.local import ProcessExecutor
from fairbench.runner.preflight import rehearse
from fairbench.runner.run_study import check_data, preload, time_limits
from fairbench.study.plan import trial_spec
from fairbench.study.records import Record
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.schema import Suite, Sweep
from fairbench.suites.search import search_for
from fairbench.training.place import Place

PARTS = ("forward", "backward", "step")
"""What of a trial's time goes into its steps."""


@dataclass(frozen=True)
class Look:
    """What was seen.

    Attributes:
        suite: the suite, with one arena.
        records: of each optimizer the record at each rate.
    """

    suite: Suite
    records: Mapping[str, Mapping[float, Record]]

    @property
    def arena(self) -> str:
        """The arena."""
        return next(iter(self.suite.arenas))

    @property
    def metric(self) -> str:
        """The arena's primary metric."""
        return self.suite.arenas[self.arena].metric

    def value(self, optimizer: str, lr: float) -> float | None:
        """The metric on the validation split after the last step; None where the training diverged or failed."""
        record = self.records[optimizer][lr]
        return float(record["result"]["final"]["val"][self.metric]) if record["status"] == "finished" else None

    def best(self, optimizer: str) -> float | None:
        """The rate with the best value; None if no training came to its end."""
        sign = 1 if self.suite.facts(self.arena).metrics[self.metric] == "min" else -1
        values = {lr: value for lr in self.records[optimizer] if (value := self.value(optimizer, lr)) is not None}
        return min(values, key=lambda lr: sign * values[lr]) if values else None

    def step_seconds(self, optimizer: str) -> float | None:
        """Seconds of a training step, the median over the rates; None if none came to its end."""
        costs = [x["cost"] for x in self.records[optimizer].values() if x["status"] == "finished"]
        return median(sum(c["seconds"][part] for part in PARTS) / c["steps"] for c in costs) if costs else None

    @property
    def failed(self) -> list[Record]:
        """The records of trials that failed."""
        return [x for each in self.records.values() for x in each.values() if x["status"] == "failed"]


def rates(optimizer: ResolvedOptimizer, sweep: Sweep, asked: Sequence[float]) -> list[float]:
    """The rates at which an optimizer is looked at: its own if it has one, what was asked, or three of its grid."""
    if asked and optimizer.lr is None:
        return list(asked)
    known = [setting.lr for setting in search_for(sweep, optimizer.lr_scale, optimizer.lr).first()]
    return sorted({known[0], known[(len(known) - 1) // 2], known[-1]})


def look_at(suite: Suite, asked: Sequence[float], places: Sequence[Place]) -> Look:
    """Train every optimizer of a suite with one arena at few rates, from the sweep's first seed.

    Args:
        suite: the suite.
        asked: the rates; none takes three of the grid.
        places: where trials run at the same time.

    Raises:
        UsageError: an optimizer, a hyperparameter or data is not there, or cannot work.
    """
    (arena,), seed = suite.arenas, suite.sweep.seeds[0]
    check_data(suite, places[0].data_root)
    rehearsed = replace(suite, sweep=replace(suite.sweep, seeds=[seed]), final=replace(suite.final, seeds=[seed + 1]))
    with ProcessExecutor(places, lambda spec, step, loss: None, preload(suite), server=False) as executor:
        rehearsal = rehearse(rehearsed, places[0], executor.call)
        limit = time_limits(rehearsal, suite.trial_timeout)[arena]
        waiting = [
            trial_spec(rehearsal.study, arena, name, "sweep", lr, seed)
            for name, optimizer in rehearsal.study.optimizers.items()
            for lr in rates(optimizer, suite.sweep, asked)
        ]
        records = run_all(waiting, executor, limit)
    found: dict[str, dict[float, Record]] = {name: {} for name in suite.optimizers}
    for spec in waiting:
        found[spec.optimizer.name][spec.lr] = records[spec.id]
    return Look(suite, found)


def run_all(specs: Sequence[TrialSpec], executor: ProcessExecutor, limit: float) -> dict[str, Record]:
    """The record of each trial by its id."""
    waiting, records = list(reversed(specs)), dict[str, Record]()
    while len(records) < len(specs):
        while waiting and executor.has_room():
            executor.submit(waiting.pop(), limit)
        records |= {record["id"]: record for record in executor.collect()}
    return records


def read_rates(text: str) -> list[float]:
    """The rates of a text as 3e-4,1e-3.

    Raises:
        UsageError: one is no positive number, or stands there twice.
    """
    try:
        found = [float(word) for word in text.split(",") if word.strip()]
    except ValueError:
        raise UsageError(f"--lr must be learning rates, as 3e-4,1e-3; got {text!r}") from None
    if not all(0 < lr < float("inf") for lr in found) or len(set(found)) < len(found):
        raise UsageError(f"--lr must be positive and finite, each once; got {text!r}")
    return found
