"""All derived files of a study, made from its records alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fairbench.analysis.audit import audit
from fairbench.analysis.audit.check import Flag
from fairbench.analysis.comparison.verdicts import Comparison, beside, compare
from fairbench.analysis.further import analyse
from fairbench.analysis.results import Results, collect
from fairbench.common.files import Content, write_atomically
from fairbench.report.figures.curves_and_times import draw_figures
from fairbench.report.findings import Finding, find
from fairbench.report.page import render_page
from fairbench.report.tables import csv_files as tables
from fairbench.report.tables.csv_files import csv_tables
from fairbench.report.tables.latex import to_latex
from fairbench.report.tables.results import grids
from fairbench.study.history import History
from fairbench.study.plan import Lookup, Study, arms


@dataclass(frozen=True)
class Report:
    """What was written, and what it says.

    Attributes:
        page: the HTML report.
        comparisons: the verdict table, in the order of the suite.
        flags: what whoever reads it should know of the study, see `fairbench.analysis.audit`.
        findings: the verdicts in sentences.
        failed: how many trials failed.
        files: everything that was written, the page last.
    """

    page: Path
    comparisons: list[Comparison]
    flags: list[Flag]
    findings: list[Finding]
    failed: int
    files: list[Path]


def write_report(history: History, lookup: Lookup, directory: Path) -> Report:
    """Write every table, figure and the HTML page; an incomplete study gives an incomplete report that says so.

    All of it is a function of the plans and the records: the same records give the same bytes.

    Args:
        history: the plans of the study, the last of which is reported.
        lookup: the record of a trial, always the same one.
        directory: where the files go; figures into `figures/` below it.

    Returns:
        The paths, the comparisons, the flags and the findings.

    Raises:
        UsageError: the directory cannot be written.
    """
    results, comparisons, first = judged(history, lookup)
    contents: dict[str, Content] = {
        "lr_sweep.csv": tables.lr_sweep(results).to_csv(),
        "steps.csv": tables.steps(results),
        "summary.csv": tables.summary(results).to_csv(),
        "aggregate.csv": tables.aggregate(results).to_csv(),
        "significance.csv": tables.significance(comparisons).to_csv(),
        "mechanism.csv": tables.mechanism(results).to_csv(),
        "cost.csv": tables.cost(results).to_csv(),
    }
    analyses = analyse(results, comparisons)
    contents |= {name: table.to_csv() for name, table in csv_tables(analyses).items()}
    _write(directory, contents)
    figures, failures = draw_figures(results, comparisons)
    flags = audit(results, comparisons, history, first)
    findings = find(results, comparisons, history, failures)
    tables_shown = grids(results, comparisons, analyses, flags)
    shown: dict[str, Content] = {f"tables/{name}.tex": to_latex(table) for name, table in tables_shown.items()}
    for figure in figures:
        at = f"figures/{figure.name}"
        shown |= {f"{at}.svg": figure.svg, f"{at}.pdf": figure.pdf, f"{at}.png": figure.png}
    shown["report.html"] = render_page(results, comparisons, findings, figures, history, tables_shown, flags)
    _write(directory, shown)
    files = [directory / name for name in (*contents, *shown)]
    failed = len(results.select(lambda run: run.status == "failed"))
    return Report(files[-1], comparisons, flags, findings, failed, files)


def judged(history: History, lookup: Lookup) -> tuple[Results, list[Comparison], list[Comparison]]:
    """The study in force as far as its records take it.

    Args:
        history: the plans of the study.
        lookup: the record of a trial.

    Returns:
        Its results, its verdicts, and those of the plan that was declared before the first final trial, which are its
        own if none is known to be so old.
    """
    results, comparisons = _compared(history.study, lookup)
    if not (declared := history.declared):
        return results, comparisons, comparisons
    first = comparisons if declared is history.plans[-1] else _compared(declared.study, lookup)[1]
    return results, beside(comparisons, first), first


def _compared(study: Study, lookup: Lookup) -> tuple[Results, list[Comparison]]:
    results = collect(study, arms(study, lookup), lookup)
    return results, compare(results)


def _write(directory: Path, contents: Mapping[str, Content]) -> None:
    for name, content in contents.items():
        write_atomically(directory / name, content)
