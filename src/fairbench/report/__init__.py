"""All derived files of a study, made from its records alone."""

import re
from dataclasses import dataclass
from pathlib import Path

from fairbench.analysis.analyses import Analyses
from fairbench.common.files import Content, remove, write_files
from fairbench.common.reading import read_text
from fairbench.report.figures.all_figures import draw_figures
from fairbench.report.figures.paper import paper_figures
from fairbench.report.findings import Finding, find
from fairbench.report.page import render_page
from fairbench.report.tables.csv_files import csv_files
from fairbench.report.tables.dictionary import data_package
from fairbench.report.tables.latex import to_latex
from fairbench.report.tables.parquet import RECORDS, columns, recorded, to_parquet
from fairbench.report.tables.results import all_tables
from fairbench.study.folder import LISTING, PAGE
from fairbench.study.history import History
from fairbench.study.plan import Lookup

MADE = re.compile(r"\w+\.csv|tables/\w+\.tex|figures/(paper/)?[\w.-]+\.(svg|pdf|png)")
"""The names of files that some reports have and others do not; no other file is ever removed."""


@dataclass(frozen=True)
class Report:
    """The analyses of a study, its verdicts in sentences, and the written files, the page last."""

    analyses: Analyses
    findings: list[Finding]
    files: list[Path]

    @property
    def page(self) -> Path:
        """The HTML report."""
        return self.files[-1]


def write_report(history: History, lookup: Lookup, directory: Path, for_paper: bool = False) -> Report:
    """Write every table, figure and the HTML page; an incomplete study gives an incomplete report that says so.

    The same plans and records give the same bytes. Files of an earlier report that this one does not have are removed.

    Args:
        history: the plans of the study, the last of which is reported.
        lookup: returns the record of a trial, or None; always the same one.
        directory: where the files go; figures into `figures/` below it.
        for_paper: whether to draw the figures in the sizes of a paper too, into `figures/paper/`.

    Raises:
        UsageError: the directory cannot be written.
    """
    analyses = Analyses(history, lookup)
    runs = recorded(analyses.results)
    of_records = columns(analyses.results, runs)
    contents = {
        **csv_files(analyses),
        RECORDS: to_parquet(of_records, runs),
        "datapackage.json": data_package(analyses, of_records),
    }
    write_files(directory, contents)  # before the figures, which take longer
    findings, figures, tables = find(analyses), draw_figures(analyses), all_tables(analyses)
    shown: dict[str, Content] = {f"tables/{name}.tex": to_latex(table) for name, table in tables.items()}
    for figure in figures:
        at = f"figures/{figure.name}"
        shown |= {f"{at}.svg": figure.svg, f"{at}.pdf": figure.save("pdf"), f"{at}.png": figure.save("png")}
    shown |= paper_figures(analyses) if for_paper else {}
    earlier = _earlier(directory)
    shown[LISTING] = "".join(f"{name}\n" for name in (*contents, *shown, LISTING, PAGE))
    shown[PAGE] = render_page(analyses, findings, figures, tables)
    write_files(directory, shown)
    for name in earlier - {*contents, *shown}:
        remove(directory / name)
    return Report(analyses, findings, [directory / name for name in (*contents, *shown)])


def _earlier(directory: Path) -> set[str]:
    """The names of the files that the last report wrote."""
    listing = read_text(directory / LISTING)
    return {name for name in listing.splitlines() if MADE.fullmatch(name)} if isinstance(listing, str) else set()
