"""Verdicts, flags and the state of a study for a terminal."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairbench.analysis.audit.flag import SEVERITIES, Flag, count
from fairbench.analysis.results import Results
from fairbench.analysis.significance import minimum_detectable_effect
from fairbench.history import History
from fairbench.progress import duration
from fairbench.rehearsal import Rehearsal
from fairbench.report import Report
from fairbench.report.page import p_value, signed

NARROW = 72
"""Columns of a terminal below which the interval is left out."""
STYLES = {"fail": "bold red", "warn": "yellow", "note": ""}


def print_verdicts(report: Report, directory: Path, console: Console) -> None:
    """Print the flags, the verdict table, the findings and where the files lie.

    Args:
        report: what `write_report` returned.
        directory: the output directory.
        console: where to print.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("arena", "baseline"):
        table.add_column(column, no_wrap=True)
    table.add_column("verdict", min_width=12)
    wide = console.width >= NARROW
    for column in ("advantage", "95% CI", "Holm p") if wide else ("advantage", "Holm p"):
        table.add_column(column, justify="right", no_wrap=True)
    for c in report.comparisons:
        verdict = Text(c.statement, "bold" if c.verdict == "better" else "")
        interval = "–" if c.ci_low is None else f"[{signed(c.ci_low)}, {signed(c.ci_high)}]"
        numbers = [signed(c.advantage), interval, p_value(c.p_holm)]
        table.add_row(c.arena, c.baseline, verdict, *(numbers if wide else numbers[::2]))
    print_flags(report.flags, console)
    if notes := sum(flag.severity == "note" for flag in report.flags):
        console.print(Text(f"{count(notes, 'note')}; fairbench audit {directory} shows them"), soft_wrap=True)
    console.print(table)
    for finding in report.findings:
        console.print(Text.assemble((finding.topic, "bold"), ": ", finding.text))
    console.print(Text(f"everything in {directory}, the report in {report.page}"), soft_wrap=True)


def print_flags(flags: Iterable[Flag], console: Console) -> None:
    """Print every flag that is more than a note."""
    for flag in flags:
        if flag.severity != "note":
            console.print(Text(flag.text, STYLES[flag.severity]))


def print_audit(flags: Sequence[Flag], console: Console) -> None:
    """Print every flag with what to do about it, and how many there are."""
    for flag in flags:
        console.print(Text.assemble(f"{flag.severity}  ", (flag.text, STYLES[flag.severity])))
        console.print(Text(f"      {flag.advice}", "dim"))
    counts = (sum(flag.severity == severity for flag in flags) for severity in SEVERITIES)
    console.print(", ".join(f"{n} {severity}" for n, severity in zip(counts, SEVERITIES, strict=True)), highlight=False)


def print_status(results: Results, console: Console) -> None:
    """Print how far each arm of a study is, and the whole of it.

    Args:
        results: the study's results so far.
        console: where to print.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("arena", "optimizer", "sweep", "rate", "final", "diverged", "failed"):
        table.add_column(column, justify="left" if column in ("arena", "optimizer") else "right", no_wrap=True)
    for arm in results.arms:
        done = [sum(run.record is not None for run in runs) for runs in (arm.sweep, arm.final)]
        rate = "diverged" if arm.diverged else "" if arm.lr is None else f"{arm.lr:g}"
        lost = [sum(run.status == status for run in arm.runs) for status in ("diverged", "failed")]
        of_each = f"{done[0]}/{len(arm.sweep)}", rate, f"{done[1]}/{len(arm.final)}", *map(str, lost)
        table.add_row(arm.arena, arm.optimizer, *of_each)
    console.print(table)
    runs = results.select(lambda run: True)
    recorded = sum(run.record is not None for run in runs)
    console.print(f"{recorded} of {len(runs)} trials that are known to be needed have a record", highlight=False)


def print_plan(rehearsal: Rehearsal, history: History, directory: Path, console: Console) -> None:
    """Print what a study would run and what it can find.

    Args:
        rehearsal: the study and how long its steps take.
        history: the plans of its directory, this one the last.
        directory: the output directory.
        console: where to print.
    """
    suite = rehearsal.study.suite
    sweeps, finals = suite.sweep.points * len(suite.sweep.seeds), len(suite.final.seeds)
    seconds = 0.0
    for name, arena in suite.arenas.items():
        steps = len(suite.optimizers) * (sweeps * arena.sweep_steps + finals * arena.steps)
        seconds += steps * rehearsal.step_seconds[name]
        console.print(
            f"{name}: {len(suite.optimizers)} optimizers, each {sweeps} sweep trials of {arena.sweep_steps} steps "
            f"(at most {suite.sweep.max_extensions * len(suite.sweep.seeds)} more) and {finals} final ones of "
            f"{arena.steps}; {arena.metric}, margin {arena.margin:g}",
            highlight=False,
        )
    family = len(suite.arenas) * (len(suite.optimizers) - 1)
    effect = minimum_detectable_effect(finals, suite.alpha / max(family, 1))
    finds = f"finds {effect:.1f} standard deviations between seeds with 80% power" if effect else "cannot reach alpha"
    console.print(f"{suite.reference} in {family} comparisons at {suite.alpha:g}: {finds}", highlight=False)
    console.print(f"about {duration(seconds)} of training at one trial at a time", highlight=False)
    for plan, differing in history.late:
        console.print(
            Text(f"changed after {plan.final_trials} final trials: {'; '.join(map(str, differing))}", "yellow")
        )
    if history.frozen:
        console.print(f"frozen in {directory}: sha256 {history.frozen}", highlight=False, soft_wrap=True)
