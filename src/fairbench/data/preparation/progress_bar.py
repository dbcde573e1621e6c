"""Progress of data preparation on standard output: a bar on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fairbench.common.console import Terminal
from fairbench.common.formatting import format_bytes
from fairbench.common.terminal import LINE_SECONDS, say


@contextmanager
def progress_bar(label: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    """Show work in progress; yields a function that takes the number of units done since its last call.

    The total may be unknown; "bytes" are shown as kB, MB and GB.
    """
    console, done, began = Terminal(), 0, time.monotonic()
    amount, of_unit = (format_bytes, "") if unit == "bytes" else ("{:,}".format, f" {unit}")
    columns = TextColumn("  {task.description}", markup=False), BarColumn(20), TimeRemainingColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task, shown = bar.add_task(label, total=total), began

        def state(*amounts: int | None) -> str:
            known = " of ".join(amount(x) for x in amounts if x is not None)
            return f"{label}: {known}{of_unit} in {time.monotonic() - began:.1f} s"

        def advance(more: int) -> None:
            nonlocal done, shown
            done += more
            if console.is_terminal:
                bar.update(task, completed=done, description=state(done, total))
            elif time.monotonic() - shown >= LINE_SECONDS:
                shown = time.monotonic()
                say(f"  {state(done, total)}")

        yield advance
    if not console.is_terminal:
        say(f"  {state(done)}")
