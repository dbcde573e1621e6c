"""A study compared with a publication: CSV files, and tables for a terminal."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from rich.console import Console
from rich.text import Text

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import audit
from fairbench.analysis.cost import Cost, costs
from fairbench.analysis.published.publication import Entry, Publication
from fairbench.analysis.published.replication import ValueRow, VerdictRow, value_rows, verdict_rows
from fairbench.common.checks import Flag
from fairbench.common.files import write_atomically
from fairbench.report.console import add_numbers, plain_table, print_flags
from fairbench.report.findings import Finding
from fairbench.report.replication_findings import find_replication, in_words, other_settings
from fairbench.report.tables.csv_files import of_dataclass
from fairbench.report.tables.numbers import mean_and_deviation, number, p_value, rate, signed

WIDE = 100
"""Columns of a terminal from which seeds, learning rates and p-values are shown."""


@dataclass(frozen=True)
class CostRow:
    """The published cost of an arm and ours; None where a side has no value.

    Attributes:
        place: where it is printed.
        published_wall_s: the printed wall time in seconds; the paper does not define it.
        our_trial_s: median seconds of our final trials, all phases included.
        published_peak_mb, our_peak_mb: peak memory, ours in 10^6 bytes.
        baseline: the optimizer that the ratio refers to, empty where none is printed.
        published_ratio: wall time over the baseline's, as it is printed.
        our_ratio: our time of a training step over the baseline's.
    """

    place: str
    arena: str
    optimizer: str
    published_wall_s: Decimal
    our_trial_s: float | None
    published_peak_mb: Decimal | None
    our_peak_mb: float | None
    baseline: str
    published_ratio: Decimal | None
    our_ratio: float | None


@dataclass(frozen=True)
class Replication:
    """The comparison of a study with a publication: its name, tables, failed checks, and the tables in sentences."""

    publication: str
    values: list[ValueRow]
    verdicts: list[VerdictRow]
    costs: list[CostRow]
    flags: list[Flag]
    findings: list[Finding]


def replicated(publication: Publication, analyses: Analyses) -> Replication:
    """Compare the last plan of a study with a publication; incomplete if the study is."""
    values = value_rows(publication, analyses.results)
    verdicts = verdict_rows(publication, analyses.results, analyses.comparisons)
    flags = [*other_settings(publication, analyses.results), *analyses.of(audit)]
    alarming = [flag for flag in flags if flag.severity == "fail"]
    findings = find_replication(publication, analyses.results, values, verdicts)
    paid = cost_rows(publication, analyses.of(costs))
    return Replication(publication.name, values, verdicts, paid, alarming, findings)


def write_replication(found: Replication, directory: Path) -> list[Path]:
    """Write the tables as CSV files.

    Raises:
        UsageError: the directory cannot be written.
    """
    tables = {
        "": of_dataclass(ValueRow, found.values),
        "_verdicts": of_dataclass(VerdictRow, found.verdicts),
        "_cost": of_dataclass(CostRow, found.costs),
    }
    files = [directory / f"comparison_{found.publication}{suffix}.csv" for suffix in tables]
    for file, table in zip(files, tables.values(), strict=True):
        write_atomically(file, table.to_csv())
    return files


def cost_rows(publication: Publication, costs: Iterable[Cost]) -> list[CostRow]:
    """The published cost of every arm with ours, in the order of the publication."""
    ours = {(cost.arena, cost.optimizer): cost for cost in costs}
    return [_cost_row(publication, entry, ours) for entry in publication.all("wall_s")]


def _cost_row(publication: Publication, entry: Entry, costs: dict[tuple[str, str], Cost]) -> CostRow:
    about = {"arena": entry.arena, "optimizer": entry.optimizer}
    ratios = (x for x in publication.all("ratio") if (x.arena, x.optimizer) == (entry.arena, entry.optimizer))
    ratio = next(ratios, None)
    baseline = ratio.baseline if ratio else ""
    ours, theirs = costs.get((entry.arena, entry.optimizer)), costs.get((entry.arena, baseline))
    return CostRow(
        place=entry.place,
        **about,
        published_wall_s=entry.number,
        our_trial_s=ours.trial_s if ours else None,
        published_peak_mb=publication.number("peak_mb", **about),
        our_peak_mb=ours.peak_memory_mb if ours else None,
        baseline=baseline,
        published_ratio=ratio.number if ratio else None,
        our_ratio=ours.train_ms / theirs.train_ms if ours and theirs else None,
    )


def print_replication(replication: Replication, files: Sequence[Path], console: Console) -> None:
    """Print the flags, a table for each arena that both sides have, verdicts, costs and findings.

    Values of single seeds are only in the files.
    """
    print_flags(replication.flags, console)
    _print_values([row for row in replication.values if not row.seed], console)
    _print_verdicts([row for row in replication.verdicts if row.our_p is not None], console)
    _print_costs([row for row in replication.costs if row.our_ratio is not None], console)
    for finding in replication.findings:
        console.print(Text.assemble((finding.topic, "bold"), ": ", finding.text))
    console.print(Text(f"tables in {', '.join(map(str, files))}"), soft_wrap=True)


def _print_values(rows: Sequence[ValueRow], console: Console) -> None:
    wide = console.width >= WIDE
    for arena in dict.fromkeys(row.arena for row in rows if row.our_mean is not None):
        shown = [row for row in rows if row.arena == arena]
        console.print(Text(f"{arena}, {shown[0].place}", "bold"))
        table = plain_table("metric", "optimizer")
        rates = ("published rate", "our rate") if wide else ()
        add_numbers(table, "published", "ours", *(("n",) if wide else ()), "difference", "inside", *rates)
        for row in shown:
            theirs, ours = str(row.published_mean), mean_and_deviation(row.our_mean, row.our_std)
            theirs += f" ± {row.published_std}" if row.published_std is not None else ""
            cells = [signed(row.difference), yes_or_no(row.inside)]
            if wide:
                cells = [str(row.n), *cells, str(row.published_lr or "–"), rate(row.our_lr)]
            table.add_row(row.metric, row.optimizer, theirs, ours, *cells)
        console.print(table)


def _print_verdicts(rows: Sequence[VerdictRow], console: Console) -> None:
    if not rows:
        return
    wide = console.width >= WIDE
    console.print(Text(f"{rows[0].optimizer} against each baseline, {rows[0].place}", "bold"))
    p = ("Welch p",) if wide else ()
    table = plain_table("arena", "metric", "baseline", "published", "ours", *p, "Holm", "agree")
    for row in rows:
        theirs = in_words(row.published_direction, row.published_significant)
        ours = in_words(row.our_direction, row.our_significant)
        tested = [*([p_value(row.our_p)] if wide else []), row.holm or "–"]
        table.add_row(row.arena, row.metric, row.baseline, theirs, ours, *tested, yes_or_no(row.agree))
    console.print(table)


def _print_costs(rows: Sequence[CostRow], console: Console) -> None:
    if not rows:
        return
    console.print(Text(f"time of {rows[0].optimizer} / {rows[0].baseline}, {rows[0].place}", "bold"))
    table = plain_table("arena")
    add_numbers(table, "published", "ours")
    for row in rows:
        table.add_row(row.arena, str(row.published_ratio), number(row.our_ratio, 3))
    console.print(table)


def yes_or_no(value: bool | None) -> str:
    """A boolean as text; a dash for None."""
    return "–" if value is None else "yes" if value else "no"
