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
    console = Terminal()
    done = 0
    began = time.monotonic()
    shown = began

    def amount(units: int) -> str:
        return format_bytes(units) if unit == "bytes" else f"{units:,}"

    def progress(with_total: bool) -> str:
        known = amount(done)
        if with_total and total is not None:
            known += f" of {amount(total)}"
        if unit != "bytes":
            known += f" {unit}"
        return f"{label}: {known} in {time.monotonic() - began:.1f} s"

    columns = [TextColumn("  {task.description}", markup=False), BarColumn(20), TimeRemainingColumn()]
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=total)

        def advance(more: int) -> None:
            nonlocal done, shown
            done += more
            if console.is_terminal:
                bar.update(task, completed=done, description=progress(with_total=True))
            elif time.monotonic() - shown >= LINE_SECONDS:
                shown = time.monotonic()
                say(f"  {progress(with_total=True)}")

        yield advance
    if not console.is_terminal:
        say(f"  {progress(with_total=False)}")
