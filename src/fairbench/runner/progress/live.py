"""Live progress of a study."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from fairbench.common.console import text_table
from fairbench.common.formatting import duration
from fairbench.common.terminal import LINE_SECONDS
from fairbench.runner.observers import Follower, RunningTrial
from fairbench.runner.progress.pace import Pace, counted_steps
from fairbench.study.record import WholeRecord
from fairbench.study.trial_queue import Progress
from fairbench.study.trial_spec import TrialSpec

CELL_SECONDS = 1.0
"""Seconds between two lines of progress in a notebook."""
QUIET_SECONDS = 10.0
"""Seconds without a message of a trial after which the table shows them."""


def progress_line(done: int, trials: int, left: float | None) -> str:
    """The progress of a study in one line."""
    line = f"{done} of {trials} trials"
    if left is None:
        return line
    return f"{line}, about {duration(left)} left"


def trials_line(trials: Iterable[RunningTrial]) -> str:
    """The running trials that have reported a step, in one line."""
    texts = []
    for trial in trials:
        if trial.step:
            texts.append(f"{trial.label} step {trial.position} loss {trial.loss:.4g}")
    return "; ".join(texts)


def trials_table(trials: Iterable[RunningTrial], now: float) -> Table:
    """A row for each running trial."""
    trials = list(trials)
    has_drivers = any(trial.driver for trial in trials)
    columns = [("trial", False), ("step", True), ("loss", True), ("left", True)]
    if has_drivers:
        columns.append(("driver", False))
    columns.append(("", False))
    rows = []
    for trial in trials:
        left = trial.left(now)
        silent = now - trial.updated
        row = [trial.label, trial.position]
        row.append("" if trial.loss is None else f"{trial.loss:.4f}")
        row.append("?" if left is None else duration(left))
        if has_drivers:
            row.append(trial.driver)
        row.append(f"last seen {silent:.0f} s ago" if silent > QUIET_SECONDS else "")
        rows.append(row)
    return text_table(columns, rows)


class LiveProgress(Follower):
    """Shows the progress of a study, its running trials with their losses, and the time left.

    A terminal shows a table, a notebook shows one line that is replaced in place, and anything else gets plain lines.
    If `verbose` is True, a line is printed for each trial that ends.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic, verbose: bool = False) -> None:
        super().__init__(clock)
        self._console = console
        self._verbose = verbose
        self._in_cell = console.is_jupyter and not console.quiet
        self._progress = Progress(0, 0, {})
        self._pace = Pace({})
        self._told: set[str] = set()  # arenas for which the user knows that their data do not fit on the GPU
        self._last_line = clock()
        self._live = Live(console=console, get_renderable=self._view, refresh_per_second=4, transient=True)

    def __enter__(self) -> "LiveProgress":
        if self._in_cell:
            from IPython.display import display  # only notebooks have it

            show: Any = display  # it has no types
            self._output = show({"text/plain": "preparing"}, raw=True, display_id=True)
        elif self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()
        if self._in_cell and self._progress.trials:
            self._show_line(self._summary())

    def say(self, text: str) -> None:
        if text:
            self._print(text, "yellow")

    def measured(self, step_seconds: Mapping[str, float], start: float) -> None:
        self._pace = Pace(step_seconds, start)

    def planned(self, progress: Progress) -> None:
        self._progress = progress
        if self._in_cell:
            self._show_line(self._summary())

    def running(self, spec: TrialSpec, step: int, loss: float) -> None:
        super().running(spec, step, loss)
        wait = CELL_SECONDS if self._in_cell else LINE_SECONDS
        if not self._console.is_terminal and self.clock() - self._last_line >= wait:
            self._last_line = self.clock()
            self._show_line(f"{self._summary()} | {trials_line(self.trials.values())}")

    def ended(self, spec: TrialSpec, record: WholeRecord) -> None:
        trial = self.trials[spec.id]
        super().ended(spec, record)
        if self._verbose:
            self._print(f"{record.status}: {trial.label}, {spec.id}", "dim")
        if record.result is None or record.cost is None:
            self._print(f"failed: {trial.label}: {record.error}", "red")
            return
        whole = self.clock() - trial.started
        steps = counted_steps(record, spec.training.steps)
        self._pace.add(spec.arena.name, steps, record.cost.seconds, whole)
        if record.status == "diverged":
            self._print(f"diverged: {trial.label} at step {record.result.steps}")
        batches_are_sent = record.cost.data_on == "cpu" and spec.training.device != "cpu"
        if batches_are_sent and spec.arena.name not in self._told:
            self._told.add(spec.arena.name)
            self.say(f"{spec.arena.name}: the data do not fit on the GPU, batches are sent from pinned memory")

    def eta(self) -> float | None:
        """The seconds until the study is complete; None if nothing is known of a step."""
        trials_left = self._progress.trials - self._progress.done
        return self._pace.left(self._progress.steps_left, trials_left, workers=max(len(self.trials), 1))

    def _summary(self) -> str:
        """The progress of the study in one line."""
        done = self._progress.done
        trials = self._progress.trials
        left = None if done == trials else self.eta()
        return progress_line(done, trials, left)

    def _show_line(self, line: str) -> None:
        """Show a line: in place of the last one in a notebook, otherwise below it."""
        if self._in_cell:
            self._output.update({"text/plain": line}, raw=True)
        else:
            self._print(line)

    def _print(self, line: str, style: str = "") -> None:
        """Print a line as it is, without markup."""
        self._console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)

    def _view(self) -> Group:
        """What a terminal shows: the summary, a bar, and the running trials."""
        table = trials_table(list(self.trials.values()), self.clock())  # the display has its own thread
        bar = ProgressBar(total=max(self._progress.trials, 1), completed=self._progress.done, width=40)
        return Group(self._summary(), bar, table)
