"""What a terminal shows of a user's optimizer: the results of its checks, and a preview."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairbench.common.checks import SEVERITIES, STYLES, Flag
from fairbench.report.tables.numbers import number
from fairbench.runner.preview import Preview


def print_checks(flags: Sequence[Flag], console: Console) -> None:
    """Print the result of every check, what to do about it, and the number of each severity."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for flag in flags:
        advice = f"\n-> {flag.advice}" if flag.advice else ""
        table.add_row(Text(flag.severity, STYLES[flag.severity]), flag.name, Text(flag.evidence + advice))
    console.print(table, highlight=False)
    counts = (f"{sum(flag.severity == x for flag in flags)} {x}" for x in SEVERITIES)
    console.print(", ".join(counts), highlight=False)


def print_preview(preview: Preview, reference: str, console: Console) -> None:
    """Print a preview: a row for each learning rate, a column for each optimizer, and the time of a step.

    Args:
        preview: its records.
        reference: the optimizer whose step time is 1.
        console: where to print.
    """
    plan, facts = preview.suite.arenas[preview.arena], preview.suite.facts(preview.arena)
    better = "lower" if facts.metrics[preview.metric] == "min" else "higher"
    seen = f"{preview.metric} ({better} is better) on the validation split after {plan.sweep_steps} steps, one seed"
    console.print(Text.assemble(("A preview, not a result: ", "bold"), f"{preview.arena}, {seen}"), highlight=False)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("lr")
    for name in preview.records:
        table.add_column(name, justify="right")
    for lr in sorted({lr for each in preview.records.values() for lr in each}):
        table.add_row(f"{lr:g}", *(_cell(preview, name, lr) for name in preview.records))
    seconds = {name: preview.step_seconds(name) for name in preview.records}
    one = seconds[reference]
    ratios = [number(x / one, 2) if x and one else "" for x in seconds.values()]
    table.add_row("step time", *(f"about {ratio}x" if ratio else "" for ratio in ratios), style="dim")
    console.print(table, highlight=False)
    for record in preview.failed:
        console.print(Text(f"failed: {record['error']['type']}: {record['error']['message']}", "bold red"))


def _cell(preview: Preview, optimizer: str, lr: float) -> Text:
    """The value at a rate, the best of its optimizer in bold."""
    if lr not in preview.records[optimizer]:
        return Text("")
    value = preview.value(optimizer, lr)
    if value is None:
        return Text(preview.records[optimizer][lr]["status"], "red")
    return Text(number(value), "bold" if lr == preview.best(optimizer) else "")
