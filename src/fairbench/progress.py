"""Live progress of a study: a table that updates on a terminal, plain lines elsewhere."""

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from fairbench.executors import Record
from fairbench.plan import Outlook
from fairbench.spec import TrialSpec

PLAIN_SECONDS = 15.0
"""Without a terminal, how often progress is told of."""


def duration(seconds: float) -> str:
    """Seconds as m:ss, or h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@dataclass
class Running:
    """A trial that runs."""

    spec: TrialSpec
    began: float
    step: int = 0
    loss: float = float("nan")

    def eta(self, now: float) -> str:
        """How long it will still take, at the pace so far."""
        return duration((now - self.began) / self.step * (self.spec.training.steps - self.step)) if self.step else "?"


class Progress:
    """Shows how many trials are done, what runs, with which loss, and how long it will take; use it in a `with` block.

    Args:
        console: where to write.
        workers: trials that run at the same time.
        clock: seconds now; tests hand in their own.
    """

    def __init__(self, console: Console, workers: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._workers, self._clock = console, workers, clock
        self._running: dict[str, Running] = {}
        self._outlook = Outlook(0, 0, {})
        self._seconds: dict[str, float] = defaultdict(float)  # spent in finished trials, by arena
        self._steps: dict[str, int] = defaultdict(int)
        self._last_line = clock()
        self._live = Live(console=console, get_renderable=self._view, refresh_per_second=4, transient=True)

    def __enter__(self) -> "Progress":
        """Begin to show."""
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to show."""
        self._live.stop()

    def say(self, text: str) -> None:
        """Show a text for good; nothing if it is empty."""
        if text:
            self._console.print(text, style="yellow", highlight=False, soft_wrap=True)

    def planned(self, outlook: Outlook) -> None:
        """State what is done and what is left."""
        self._outlook = outlook

    def started(self, spec: TrialSpec) -> None:
        """A trial begins."""
        self._running[spec.id] = Running(spec, self._clock())

    def running(self, spec: TrialSpec, step: int, loss: float) -> None:
        """A trial goes on."""
        state = self._running[spec.id]
        state.step, state.loss = step, loss
        if not self._console.is_terminal and self._clock() - self._last_line >= PLAIN_SECONDS:
            self._last_line = self._clock()
            trials = "; ".join(
                f"{state.spec.label} step {state.step}/{state.spec.training.steps} loss {state.loss:.4g}"
                for state in self._running.values()
                if state.step
            )
            self._console.print(f"{self._summary()} | {trials}", highlight=False, soft_wrap=True)

    def ended(self, spec: TrialSpec, record: Record) -> None:
        """A trial has ended."""
        state = self._running.pop(spec.id)
        if record["status"] == "failed":
            reason = f"failed: {spec.label}: {record['error']['type']}: {record['error']['message']}"
            self._console.print(reason, style="red", highlight=False, markup=False, soft_wrap=True)
            return
        self._seconds[spec.arena.name] += self._clock() - state.began
        self._steps[spec.arena.name] += record["result"]["steps"]
        if record["status"] == "diverged":
            self._console.print(f"diverged: {spec.label} at step {record['result']['steps']}", highlight=False)

    def eta(self) -> float | None:
        """Seconds until the study is done, at each arena's own pace; None while nothing is known."""
        if not self._steps:
            return None
        mean = sum(self._seconds.values()) / max(sum(self._steps.values()), 1)
        pace = {arena: self._seconds[arena] / self._steps[arena] for arena in self._steps if self._steps[arena]}
        left = sum(steps * pace.get(arena, mean) for arena, steps in self._outlook.steps_left.items())
        return left / self._workers

    def _summary(self) -> str:
        eta = self.eta()
        left = f", about {duration(eta)} left" if eta is not None else ""
        return f"{self._outlook.done} of {self._outlook.trials} trials{left}"

    def _view(self) -> Group:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for column in ("trial", "step", "loss", "left"):
            table.add_column(column, justify="left" if column == "trial" else "right")
        for state in list(self._running.values()):  # the display has its own thread
            steps = f"{state.step}/{state.spec.training.steps}"
            table.add_row(state.spec.label, steps, f"{state.loss:.4f}", state.eta(self._clock()))
        bar = ProgressBar(total=max(self._outlook.trials, 1), completed=self._outlook.done, width=40)
        return Group(self._summary(), bar, table)
