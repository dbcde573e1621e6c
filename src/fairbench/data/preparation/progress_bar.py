"""Progress of data preparation on standard output: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fairbench.common.formatting import format_bytes
from fairbench.common.terminal import LINE_SECONDS, say


@contextmanager
def progress_bar(label: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    """Show work in progress.

    Args:
        label: the kind of work.
        total: its amount in units; None if unknown.
        unit: of the amount; "bytes" are shown as kB, MB and GB.

    Returns:
        A function that takes the number of units done since its last call.
    """
    terminal = sys.stdout.isatty()
    columns = TextColumn(f"  {label}", markup=False), BarColumn(), TextColumn("{task.fields[state]}")
    began = shown = time.monotonic()
    done = 0

    def state(total: int | None) -> str:
        rate = round(done / max(time.monotonic() - began, 1e-9))
        amount = f"{done:,}" if total and unit != "bytes" else _amount(done, unit)
        amount += f" of {_amount(total, unit)}" if total else ""
        return f"{amount} in {time.monotonic() - began:.1f} s ({_amount(rate, unit)}/s)"

    with Progress(*columns, TimeRemainingColumn(), disable=not terminal) as bar:
        task = bar.add_task(label, total=total, state="")

        def advance(more: int) -> None:
            nonlocal done, shown
            done += more
            if terminal:
                bar.update(task, completed=done, state=state(total))
            elif time.monotonic() - shown >= LINE_SECONDS:
                shown = time.monotonic()
                say(f"  {label}: {state(total)}")

        yield advance
    if not terminal:
        say(f"  {label}: done, {state(None)}")


def _amount(count: int, unit: str) -> str:
    return format_bytes(count) if unit == "bytes" else f"{count:,} {unit}"
