"""`fairbench try`: a preview of a user's optimizer."""

import argparse
from functools import partial

from rich.table import Table
from rich.text import Text

from fairbench.cli.suite_options import against, preview_suite
from fairbench.common.console import Terminal
from fairbench.common.formatting import number
from fairbench.common.terminal import say
from fairbench.runner.preview import Preview, read_rates, run_preview
from fairbench.runner.run_options import cores
from fairbench.training.place import Place


def try_(options: argparse.Namespace) -> int:
    """Preview an optimizer, and print the command for a study of it; 1 if a trial failed."""
    suite, others = preview_suite(options), against(options)
    places = [Place(alone=True)] * cores()
    preview = run_preview(suite, read_rates(options.lr), places, partial(say, is_error=True))
    print_preview(preview, next(iter(suite.optimizers)), Terminal())
    arena = f" --arenas {options.arena}" if options.arena else ""
    settings = "".join(f" --set '{text}'" for text in options.set)
    compared = f"--only-optimizers {','.join(others)} --add-optimizer {options.optimizer} " if others else ""
    say(
        f"for a result, with a search and new seeds:\n    fairbench run --suite {options.suite}{arena} "
        f"{compared}--reference {suite.reference}{settings}"
    )
    return 1 if preview.failed else 0


def print_preview(preview: Preview, reference: str, console: Terminal) -> None:
    """Print a preview: a row for each learning rate, a column for each optimizer, and step times relative to one."""
    plan = preview.suite.arenas[preview.arena]
    score = f"{preview.metric} ({preview.suite.better(preview.arena)}) on the {preview.suite.selection_name} split"
    score += f" after {plan.sweep_steps} steps, one seed"
    console.print(Text.assemble(("A preview, not a result: ", "bold"), f"{preview.arena}, {score}"), highlight=False)
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
        console.print(Text(f"failed: {record.error}", "bold red"))


def _cell(preview: Preview, optimizer: str, lr: float) -> Text:
    """The value at a rate, bold if it is the best of its optimizer."""
    if lr not in preview.records[optimizer]:
        return Text("")
    value = preview.value(optimizer, lr)
    if value is None:
        return Text(preview.records[optimizer][lr].status, "red")
    return Text(number(value), "bold" if lr == preview.best(optimizer) else "")
