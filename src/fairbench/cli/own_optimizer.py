"""What a terminal shows of an optimizer that somebody brings: the results of its checks, and a first look."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairbench.common.checks import SEVERITIES, STYLES, Flag
from fairbench.report.tables.numbers import number
from fairbench.runner.preview import Look


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


def print_look(look: Look, reference: str, console: Console) -> None:
    """Print a look: a row for each rate, a column for each optimizer, and what a step takes.

    Args:
        look: what was seen.
        reference: the optimizer whose step time is 1.
        console: where to print.
    """
    plan, facts = look.suite.arenas[look.arena], look.suite.facts(look.arena)
    better = "lower" if facts.metrics[look.metric] == "min" else "higher"
    seen = f"{look.metric} ({better} is better) on the validation split after {plan.sweep_steps} steps, one seed"
    console.print(Text.assemble(("A look and no finding: ", "bold"), f"{look.arena}, {seen}"), highlight=False)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("lr")
    for name in look.records:
        table.add_column(name, justify="right")
    for lr in sorted({lr for each in look.records.values() for lr in each}):
        table.add_row(f"{lr:g}", *(_cell(look, name, lr) for name in look.records))
    seconds = {name: look.step_seconds(name) for name in look.records}
    one = seconds[reference]
    ratios = [number(x / one, 2) if x and one else "" for x in seconds.values()]
    table.add_row("step time", *(f"about {ratio}x" if ratio else "" for ratio in ratios), style="dim")
    console.print(table, highlight=False)
    for record in look.failed:
        console.print(Text(f"failed: {record['error']['type']}: {record['error']['message']}", "bold red"))


def _cell(look: Look, optimizer: str, lr: float) -> Text:
    """The value at a rate, the best of its optimizer in bold."""
    if lr not in look.records[optimizer]:
        return Text("")
    value = look.value(optimizer, lr)
    if value is None:
        return Text(look.records[optimizer][lr]["status"], "red")
    return Text(number(value), "bold" if lr == look.best(optimizer) else "")
