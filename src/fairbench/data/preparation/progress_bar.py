"""Progress of long work: a bar with its rate on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fairbench.common.formatting import format_bytes

PLAIN_SECONDS = 15.0
"""Seconds between the lines of progress where standard output is no terminal."""


class Display:
    """Shows progress on standard output."""

    def note(self, text: str) -> None:
        """Print a line."""
        print(text, flush=True)

    @contextmanager
    def work(self, label: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
        """Show work in progress.

        Args:
            label: what is being done.
            total: how much there is to do, in units; None if it is not known.
            unit: what is counted; "bytes" are shown as kB, MB and GB.

        Returns:
            A function that takes the number of units done since its last call.
        """
        terminal = sys.stdout.isatty()
        columns = TextColumn(f"  {label}", markup=False), BarColumn(), TextColumn("{task.fields[state]}")
        began = shown = time.monotonic()
        done = 0
        with Progress(*columns, TimeRemainingColumn(), disable=not terminal) as progress:
            task = progress.add_task(label, total=total, state="")

            def advance(more: int) -> None:
                nonlocal done, shown
                done += more
                now = time.monotonic()
                if terminal:
                    progress.update(task, completed=done, state=_state(done, total, unit, now - began))
                elif now - shown >= PLAIN_SECONDS:
                    shown = now
                    self.note(f"  {label}: {_state(done, total, unit, now - began)}")

            yield advance
        if not terminal:
            self.note(f"  {label}: done, {_state(done, None, unit, time.monotonic() - began)}")


def _state(done: int, total: int | None, unit: str, seconds: float) -> str:
    """What is done, of how much, and the rate since the beginning."""
    if total and unit != "bytes":
        amount = f"{done:,} of {total:,} {unit}"
    else:
        amount = _amount(done, unit) + (f" of {_amount(total, unit)}" if total else "")
    rate = _amount(round(done / max(seconds, 1e-9)), unit)
    return f"{amount} in {seconds:.1f} s ({rate}/s)"


def _amount(count: int, unit: str) -> str:
    return format_bytes(count) if unit == "bytes" else f"{count:,} {unit}"
