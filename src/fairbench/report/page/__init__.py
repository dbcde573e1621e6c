"""The HTML report: one file that works offline, in light and dark, and without its script."""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from fairbench.common.files import write_atomically
from fairbench.report.document import Document, Section
from fairbench.report.figures.canvas import Drawing
from fairbench.report.figures.colors import declarations
from fairbench.report.page.inline import colors, inline, swatch
from fairbench.report.render.latex import to_latex
from fairbench.report.view import Cell, TableView

TABLE_SCRIPTS = ("view.js", "tables.js", "bar.js")
FIGURE_SCRIPTS = ("arms.js", "values.js", "figures.js")
STYLES = ("figures.css", "style.css")
NUMBER = re.compile(r"\d+(\.\d+)?")
"""A number as both Python and a browser read it."""
SHORT, PROSE = 16, 60
"""The most letters of text that never wraps, and of text that wraps in narrow lines."""


def render_page(document: Document[Any]) -> str:
    """A report as one self-contained page, with its figures; without them it has no script for figures."""
    tables, figures = document.tables, {figure.name: figure for figure in document.figures}
    drawn = figures.get("learning_curves")
    latex = {name: to_latex(table) for name, table in tables.items()}
    script = "\n".join(map(_text, (*TABLE_SCRIPTS, *(FIGURE_SCRIPTS if document.styles else ()))))
    return _template("page.html.j2").render(
        light=declarations(dark=False),
        dark=declarations(dark=True),
        style="\n".join([*map(_text, STYLES), colors()]),
        script=script,
        script_sha256=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        latex=base64.b64encode(zlib.compress(json.dumps(latex).encode(), 9)).decode(),  # a quarter as long
        document=document,
        tables=tables,
        figures=figures,
        panels={name: list(zip(inline(figure), figure.parts, strict=True)) for name, figure in figures.items()},
        curves={part.arena: f"learning_curves-{i}" for i, part in enumerate(drawn.parts if drawn else ())},
        sections=[section for section in document.sections if _is_shown(section, document, figures)],
        styles=document.styles,
    )


def write_document(document: Document[Any], directory: Path) -> list[Path]:
    """Write the data files of a report, and its page if it has one; returns the files, the page last.

    Raises:
        UsageError: the directory cannot be written.
    """
    document.write_data(directory)
    if document.page_name:
        write_atomically(directory / document.page_name, render_page(document))
        document.files.append(directory / document.page_name)
    return document.files


def _is_shown(section: Section[Any], document: Document[Any], figures: Mapping[str, Drawing]) -> bool:
    """Whether a section has anything that the page shows."""
    source = document.source
    return section.always or any(
        (output.has_table and output.name in document.tables)
        or (output.figure and output.name in figures)
        or next(iter(output.texts(source)), None)
        for output in section.outputs
    )


def _text(name: str) -> str:
    """A file of this folder."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


@cache
def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"kinds": _kinds, "swatch": swatch, "value": _value, "more": _more}
    return environment.get_template(name)


def _kinds(view: TableView) -> list[Markup]:
    """The class of each column: `n` for numbers, `t` for names that may wrap, `p` for prose, none for short text."""

    def kind(column: int) -> str:
        longest = max(len(str(row[column].text)) for row in view.rows)
        return "n" if view.columns[column].value else "p" if longest > PROSE else "t" if longest > SHORT else ""

    found = map(kind, range(len(view.columns)))
    return [Markup(f' class="{x}"' if x else "") for x in found]


def _value(cell: Cell) -> Markup:
    """The attribute of a cell with its value; none where the text is the same number, since a page has many of them."""
    text = str(cell.text)
    same = cell.value is None or (NUMBER.fullmatch(text) and float(text) == cell.value)
    return Markup("" if same else f' data-value="{cell.value}"')


def _more(numbers: Iterable[Any]) -> Markup:
    """The attribute of a cell with the further numbers that it shows, or of a head with their names; none for none."""
    text = ",".join("" if x is None else str(x) for x in numbers)
    return Markup(f' data-more="{text}"' if text else "")
