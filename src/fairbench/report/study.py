"""The report of a study: all of its derived files, made from its records alone."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import audit
from fairbench.common.errors import attempted
from fairbench.common.files import Content, remove, write_atomically
from fairbench.common.formatting import some
from fairbench.common.reading import read_text
from fairbench.report.document import Document
from fairbench.report.fields import purpose
from fairbench.report.figures.canvas import not_drawn
from fairbench.report.figures.drawing import Drawing, figure_options
from fairbench.report.figures.glyphs import tell_what_is_replaced
from fairbench.report.figures.panel import Panel
from fairbench.report.figures.style import ArmStyles, styles_of
from fairbench.report.page import render_page
from fairbench.report.render.latex import to_latex
from fairbench.report.sections import SECTIONS
from fairbench.report.table import Table
from fairbench.report.worded import worded_sections
from fairbench.study.folder import LISTING, PAGE
from fairbench.study.history import History
from fairbench.study.plan import Lookup
from fairbench.suites.schema import Suite

VERSION = "4.0.0"
"""The version of all columns: the first number rises where one is removed or changes its meaning, the second where one
is added."""
MADE = re.compile(r"\w+\.csv|tables/\w+\.tex|figures/(paper/)?[\w.-]+\.(svg|pdf|png)")
"""The names of files that some reports have and others do not. No other file is ever removed."""
DICTIONARY = "datapackage.json"
"""The name of the file with `data_package`, which describes all columns."""
COLUMN_WIDTH = 3.3
"""The width in inches of a column in a paper with two columns."""
TEXT_WIDTH = 5.5
"""The width in inches of the text in a paper with one column."""
NORMAL_TEXT = 8.75
"""The size of normal text in a paper in points. The smallest text then has 7 points."""
PLAIN_NAME = re.compile(r"\w[\w.-]*")
"""A name of a panel that may stand in the name of a file. The file of another panel has its number instead."""


def data_package(suite: Suite, data: Mapping[str, Table[Any]]) -> str:
    """A description of all data files as a Data Package (https://datapackage.org), which Frictionless reads."""
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
    """The entry of a data file in the Data Package, with its columns."""
    stem, _, ending = name.rpartition(".")
    resource = {
        "name": stem,
        "type": "table",
        "path": name,
        "format": ending,
        "description": purpose(table.kind) if table.kind else "",
        "schema": {"fields": [field.to_json() for field in table.fields]},
    }
    if ending == "csv":
        resource |= {"mediatype": "text/csv", "encoding": "utf-8"}
    return resource


def study_report(analyses: Analyses) -> Document[Analyses]:
    """The report of a study, without figures."""
    suite = analyses.suite
    title = suite.name
    if suite.question:
        title += f": {suite.question}"
    facts = [
        *_programs(suite),
        f"{suite.final.in_words} in each arm",
        f"device {analyses.results.study.device}",
        *_when_and_where(analyses),
    ]
    failed = analyses.results.select(lambda run: run.status == "failed")
    return Document(
        source=analyses,
        sections=worded_sections(SECTIONS, suite.wording),
        title=title,
        lead=f"{_sentence(suite.description)} {_sentence('; '.join(facts))}",
        flags=analyses.of(audit),
        styles=styles_of(suite),
        failed=len(failed),
        page_name=PAGE,
    )


def _programs(suite: Suite) -> list[str]:
    """The command of the program, as a list of one fact; empty unless each arena has this program."""
    programs = {plan.model.get("program") for plan in suite.arenas.values()}
    if len(programs) > 1 or None in programs:
        return []
    return [f"program {programs.pop()}"]


def _when_and_where(analyses: Analyses) -> list[str]:
    """The date of the plan, the machine and the version of fairbench, in words, as far as they are known."""
    facts = []
    declared = analyses.history.plans[-1].declared
    if declared:
        date = declared[:10]  # of a time in ISO 8601
        facts.append(f"declared {date}")
    environment = analyses.results.environment
    if environment.get("device"):
        facts.append(some(environment["device"]))
    if environment.get("psilogic"):
        facts.append(f"fairbench {some(environment['psilogic'])}")
    return facts


def _sentence(text: str) -> str:
    """A text as a sentence, with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def write_report(history: History, lookup: Lookup, directory: Path, for_paper: bool = False) -> Document[Analyses]:
    """Write all tables and figures, and the HTML page. The report of an incomplete study is incomplete, and says so.

    The same plans and records give the same bytes. Files of an earlier report that this one does not have are removed.

    Args:
        history: the plans of the study, the last of which is reported.
        lookup: returns the record of a trial, or None. It must always return the same one.
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
    files = _shown_files(report, for_paper)
    earlier = _earlier_files(directory)  # before the new listing is written
    files[LISTING] = "".join(f"{name}\n" for name in (*data, DICTIONARY, *files, LISTING, PAGE))
    files[PAGE] = render_page(report)
    for name, content in files.items():
        write_atomically(directory / name, content)
    for name in earlier - {*data, *files}:
        remove(directory / name)
    report.files += [directory / name for name in files]
    return report


def _shown_files(report: Document[Analyses], for_paper: bool) -> dict[str, Content]:
    """The contents of the tables in LaTeX and of the figures, by the names of their files."""
    files: dict[str, Content] = {}
    for name, table in report.tables.items():
        files[f"tables/{name}.tex"] = to_latex(table)
    for figure in report.figures:
        files[f"figures/{figure.name}.svg"] = figure.content("svg")
        files[f"figures/{figure.name}.pdf"] = figure.content("pdf")
        files[f"figures/{figure.name}.png"] = figure.content("png")
    if for_paper:
        files.update(paper_figures(report.source))
    return files


def _earlier_files(directory: Path) -> set[str]:
    """The names of files of an earlier report that this report may not have."""
    listing = read_text(directory / LISTING)
    if not isinstance(listing, str):
        return set()
    return {name for name in listing.splitlines() if MADE.fullmatch(name)}


def draw_figures(analyses: Analyses, *size: float, name: str = "") -> list[Drawing]:
    """All figures that have data, or only the figure with a name. `size` are the arguments of `figure_options`.

    In place of a figure that cannot be drawn there is one that says why.
    """
    draw_by_name = {}
    for section in worded_sections(SECTIONS, analyses.suite.wording):
        for output in section.outputs:
            if output.figure:
                draw_by_name[output.name] = output.figure
    names = [name] if name else [*draw_by_name]
    tell_what_is_replaced((*analyses.suite.optimizers, *analyses.suite.arenas))
    drawings = []
    with figure_options(*size):
        styles = styles_of(analyses.suite)
        for figure in names:
            draw = partial(_drawn, draw_by_name[figure], analyses, styles)
            drawing = attempted(draw, partial(not_drawn, figure))
            if drawing is not None:
                drawings.append(drawing)
    return drawings


def _drawn(
    draw: Callable[[Analyses, ArmStyles], Drawing | None], analyses: Analyses, styles: ArmStyles
) -> Drawing | None:
    """Draw a figure, and place all of its text and lines; None if it has no data."""
    drawing = draw(analyses, styles)
    if drawing is not None:
        _ = drawing.svg  # matplotlib places text and lines only now
    return drawing


def paper_figures(analyses: Analyses) -> Iterator[tuple[str, Content]]:
    """The figures for a paper: the name and the content of each file.

    Each figure is drawn as PDF and SVG, at the width of a column and at that of the text. If it has several panels,
    each of them is also drawn separately, at the width of a column.
    """
    for width in (COLUMN_WIDTH, TEXT_WIDTH):
        for figure in draw_figures(analyses, width, NORMAL_TEXT):
            parts: dict[str, Panel | None] = {figure.name: None}  # None is the whole figure
            if width == COLUMN_WIDTH and len(figure.parts) > 1:
                parts |= _named_panels(figure)
            for name, panel in parts.items():
                yield f"figures/paper/{name}_{width}in.svg", figure.content("svg", panel)
                yield f"figures/paper/{name}_{width}in.pdf", figure.content("pdf", panel)


def _named_panels(figure: Drawing) -> dict[str, Panel]:
    """The panels of a figure, by the names of their files without width and ending."""
    panels = {}
    for number, panel in enumerate(figure.parts, 1):
        part = panel.arena if PLAIN_NAME.fullmatch(panel.arena) else number
        panels[f"{figure.name}_{part}"] = panel
    return panels
