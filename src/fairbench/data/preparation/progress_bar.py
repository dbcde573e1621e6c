"""The progress of a preparation on standard output: a bar on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fairbench.common.console import Terminal
from fairbench.common.formatting import format_bytes
from fairbench.common.terminal import LINE_SECONDS, say


@contextmanager
def progress_bar(label: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    """Show the progress of some work.

    Args:
        label: the name of the work.
        total: the number of units; None if it is unknown.
        unit: the name of the units. "bytes" are shown as kB, MB and GB.

    Yields:
        A function that takes the number of units that were done since its last call.
    """
    console = Terminal()
    done = 0
    began = time.monotonic()
    last_shown = began

    def amount(units: int) -> str:
        return format_bytes(units) if unit == "bytes" else f"{units:,}"

    def progress(with_total: bool) -> str:
        text = amount(done)
        if with_total and total is not None:
            text += f" of {amount(total)}"
        if unit != "bytes":
            text += f" {unit}"
        return f"{label}: {text} in {time.monotonic() - began:.1f} s"

    columns = [TextColumn("  {task.description}", markup=False), BarColumn(20), TimeRemainingColumn()]
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=total)

        def advance(more: int) -> None:
            nonlocal done, last_shown
            done += more
            if console.is_terminal:
                bar.update(task, completed=done, description=progress(with_total=True))
            elif time.monotonic() - last_shown >= LINE_SECONDS:
                last_shown = time.monotonic()
                say(f"  {progress(with_total=True)}")

        yield advance
    if not console.is_terminal:
        say(f"  {progress(with_total=False)}")
