"""The report of a study: all of its derived files, made from its records alone."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import audit
from fairbench.common.errors import attempted
from fairbench.common.files import Content, remove, write_atomically
from fairbench.common.reading import read_text
from fairbench.report.document import Document
from fairbench.report.fields import purpose
from fairbench.report.figures.canvas import Drawing, figure_options, not_drawn
from fairbench.report.figures.panel import Panel
from fairbench.report.figures.style import styles_of
from fairbench.report.page import render_page
from fairbench.report.render.latex import to_latex
from fairbench.report.sections import SECTIONS
from fairbench.report.table import Table
from fairbench.study.folder import LISTING, PAGE
from fairbench.study.history import History
from fairbench.study.plan import Lookup
from fairbench.suites.schema import Suite

VERSION = "2.0.0"
"""The version of all columns: the first number rises where one is removed or changes its meaning, the second where one
is added."""


def data_package(suite: Suite, data: Mapping[str, Table[Any]]) -> str:
    """The dictionary as a Data Package (https://datapackage.org), which the libraries of Frictionless read."""
    package = {
        "$schema": "https://datapackage.org/profiles/2.0/datapackage.json",
        "name": "fairbench-study",
        "title": suite.name,
        "description": suite.description,
        "version": VERSION,
        "resources": [_resource(name, table) for name, table in data.items()],
    }
    return json.dumps(package, indent=1, ensure_ascii=False) + "\n"


def _resource(name: str, table: Table[Any]) -> dict[str, Any]:
    """A file and its columns."""
    stem, _, ending = name.rpartition(".")
    about = purpose(table.kind) if table.kind else ""
    file = {"name": stem, "type": "table", "path": name, "format": ending, "description": about}
    schema = {"schema": {"fields": [field.to_json() for field in table.fields]}}
    return {**file, **schema, **({"mediatype": "text/csv", "encoding": "utf-8"} if ending == "csv" else {})}


MADE = re.compile(r"\w+\.csv|tables/\w+\.tex|figures/(paper/)?[\w.-]+\.(svg|pdf|png)")
"""The names of files that some reports have and others do not; no other file is ever removed."""
DICTIONARY = "datapackage.json"
COLUMN, TEXT = 3.3, 5.5
"""Inches of a column of two in a paper, and of text in a single column."""
NORMAL_TEXT = 8.75
"""Points of normal text in a paper, with which the smallest has 7."""
PLAIN = re.compile(r"\w[\w.-]*")
"""What may stand in the name of a file; a panel with another name has its number instead."""


def study_report(analyses: Analyses) -> Document[Analyses]:
    """The report of a study, without figures."""
    styles, failed = styles_of(analyses.suite), len(analyses.results.select(lambda run: run.status == "failed"))
    suite = analyses.suite
    title = ": ".join(filter(None, (suite.name, suite.question)))
    sentences = suite.description, f"{suite.final.in_words} in each arm; device {analyses.results.study.device}"
    lead = " ".join(f"{x[:1].upper()}{x[1:]}." for x in sentences)
    return Document(analyses, SECTIONS, title, lead, analyses.of(audit), (), styles, failed=failed, page_name=PAGE)


def write_report(history: History, lookup: Lookup, directory: Path, for_paper: bool = False) -> Document[Analyses]:
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
    report = study_report(Analyses(history, lookup))
    data = report.write_data(directory)  # before the figures, which take longer
    write_atomically(directory / DICTIONARY, data_package(report.source.suite, data))
    report.files.append(directory / DICTIONARY)
    report.figures = draw_figures(report.source)
    shown: dict[str, Content] = {f"tables/{name}.tex": to_latex(table) for name, table in report.tables.items()}
    for figure in report.figures:
        shown |= {f"figures/{figure.name}.{form}": figure.content(form) for form in ("svg", "pdf", "png")}
    shown |= dict(paper_figures(report.source)) if for_paper else {}
    listing = read_text(directory / LISTING)  # of an earlier report
    earlier = {x for x in listing.splitlines() if MADE.fullmatch(x)} if isinstance(listing, str) else set()
    shown[LISTING] = "".join(f"{name}\n" for name in (*data, DICTIONARY, *shown, LISTING, PAGE))
    shown[PAGE] = render_page(report)
    for name, content in shown.items():
        write_atomically(directory / name, content)
    for name in earlier - {*data, *shown}:
        remove(directory / name)
    report.files += [directory / name for name in shown]
    return report


def draw_figures(analyses: Analyses, *size: float, name: str = "") -> list[Drawing]:
    """All figures that have data, or the one with a name; their size is that of `figure_options`."""
    with figure_options(*size):
        styles = styles_of(analyses.suite)
        draw = {x.name: x.figure for section in SECTIONS for x in section.outputs if x.figure}

        def drawing(key: str) -> Drawing | None:
            drawn = draw[key](analyses, styles)
            assert drawn is None or drawn.svg is not None  # text and lines are placed only now
            return drawn

        drawings = [attempted(partial(drawing, x), partial(not_drawn, x)) for x in ([name] if name else draw)]
    return [drawing for drawing in drawings if drawing is not None]


def paper_figures(analyses: Analyses) -> Iterator[tuple[str, Content]]:
    """Each figure at both widths as PDF and SVG, and its panels at the width of a column, by the name of the file."""
    for width in (COLUMN, TEXT):
        for figure in draw_figures(analyses, width, NORMAL_TEXT):
            parts: list[tuple[str, Panel | None]] = [(figure.name, None)]
            if width == COLUMN and len(figure.parts) > 1:
                named = (x.arena if PLAIN.fullmatch(x.arena) else i for i, x in enumerate(figure.parts, 1))
                parts += [(f"{figure.name}_{name}", part) for name, part in zip(named, figure.parts, strict=True)]
            for name, part in parts:
                yield f"figures/paper/{name}_{width}in.svg", figure.content("svg", part)
                yield f"figures/paper/{name}_{width}in.pdf", figure.content("pdf", part)
