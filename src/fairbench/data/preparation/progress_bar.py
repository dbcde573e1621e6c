"""What the user sees of long work: a bar with its rate on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fairbench.common.formatting import in_words

PLAIN_SECONDS = 15.0
"""Without a terminal, how often progress is told of."""


class Display:
    """Tells what is going on, on standard output."""

    def note(self, text: str) -> None:
        """Say something in a line of its own."""
        print(text, flush=True)

    @contextmanager
    def work(self, label: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
        """Show work in progress.

        Args:
            label: what is being done.
            total: how much there is to do, in units; None: nobody knows.
            unit: what is counted; "bytes" are shown as kB, MB and GB.

        Returns:
            A function to be told how many units more are done.
        """
        if sys.stdout.isatty():
            with _bar(label, total, unit) as advance:
                yield advance
        else:
            lines = _Lines(self, label, total, unit)
            yield lines.advance
            lines.tell("done")


class _Lines:
    def __init__(self, display: Display, label: str, total: int | None, unit: str) -> None:
        self._display, self._label, self._total, self._unit = display, label, total, unit
        self._done, self._began, self._told = 0, time.monotonic(), time.monotonic()

    def advance(self, more: int) -> None:
        self._done += more
        if time.monotonic() - self._told >= PLAIN_SECONDS:
            self._told = time.monotonic()
            self.tell(f"{100 * self._done // self._total}%" if self._total else "so far")

    def tell(self, state: str) -> None:
        seconds = max(time.monotonic() - self._began, 1e-9)
        done, rate = _amount(self._done, self._unit), _amount(round(self._done / seconds), self._unit)
        self._display.note(f"  {self._label}: {state}, {done} in {seconds:.1f} s ({rate}/s)")


def _amount(count: int, unit: str) -> str:
    return in_words(count) if unit == "bytes" else f"{count:,} {unit}"


@contextmanager
def _bar(label: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{_amount(round(task.speed or 0), unit)}/s")

    count = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    with Progress(
        TextColumn(f"  {label}", markup=False), BarColumn(), count, Rate(), TimeRemainingColumn()
    ) as progress:
        task = progress.add_task(label, total=total)
        yield lambda more: progress.advance(task, more)
