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
from fairbench.common.formatting import with_minus_signs
from fairbench.report.document import Document, Output, Section
from fairbench.report.figures.colors import declarations
from fairbench.report.figures.drawing import Drawing
from fairbench.report.figures.panel import Panel
from fairbench.report.page.inline import colors, inline, swatch
from fairbench.report.render.latex import to_latex
from fairbench.report.view import Cell, TableView

TABLE_SCRIPTS = ("view.js", "tables.js", "bar.js")
FIGURE_SCRIPTS = ("arms.js", "values.js", "figures.js")
STYLES = ("figures.css", "style.css")
JOINT = re.compile(r"(?<=[a-z][._:/-])(?=[A-Za-z])")
"""A place in a name after a sign that joins its words."""
NUMBER = re.compile(r"\d+(\.\d+)?")
"""A number as both Python and a browser read it."""
SHORT = 16
"""The most letters of text that never wraps."""
PROSE = 60
"""The most letters of text that wraps in narrow lines."""


def render_page(document: Document[Any]) -> str:
    """A report as one self-contained page, with its figures. Without styles of arms it has no script for figures."""
    figures = {figure.name: figure for figure in document.figures}
    panels = {name: _panels(figure) for name, figure in figures.items()}
    sections = [section for section in document.sections if _is_shown(section, document, figures)]
    script = _script(document)
    return _template("page.html.j2").render(
        light=declarations(dark=False),
        dark=declarations(dark=True),
        style=_style(),
        script=script,
        script_sha256=_sha256(script),
        latex=_packed_latex(document.tables),
        document=document,
        tables=document.tables,
        figures=figures,
        panels=panels,
        curves=_curve_anchors(figures),
        sections=sections,
        styles=document.styles,
    )


def _style() -> str:
    """All CSS of the page."""
    parts = [_text(name) for name in STYLES]
    parts.append(colors())
    return "\n".join(parts)


def _script(document: Document[Any]) -> str:
    """The script of the page."""
    names = [*TABLE_SCRIPTS]
    if document.styles:
        names += FIGURE_SCRIPTS
    return "\n".join(map(_text, names))


def _sha256(script: str) -> str:
    """The hash of the script, in the form that a content security policy needs."""
    digest = hashlib.sha256(script.encode()).digest()
    return base64.b64encode(digest).decode()


def _packed_latex(tables: Mapping[str, TableView]) -> str:
    """All tables in LaTeX, compressed to a quarter of their size."""
    latex = {name: to_latex(table) for name, table in tables.items()}
    packed = zlib.compress(json.dumps(latex).encode(), 9)
    return base64.b64encode(packed).decode()


def _panels(figure: Drawing) -> list[tuple[str, Panel]]:
    """Each panel of a figure as SVG, with the panel, from which the script gets its data."""
    return list(zip(inline(figure), figure.parts, strict=True))


def _curve_anchors(figures: Mapping[str, Drawing]) -> dict[str, str]:
    """The anchor of the learning curves of each arena."""
    if "learning_curves" not in figures:
        return {}
    parts = figures["learning_curves"].parts
    return {part.arena: f"learning_curves-{number}" for number, part in enumerate(parts)}


def write_document(document: Document[Any], directory: Path) -> list[Path]:
    """Write the data files of a report, and its page if it has one. Returns the paths of the files, the page last.

    Raises:
        UsageError: the directory cannot be written.
    """
    document.write_data(directory)
    if document.page_name:
        write_atomically(directory / document.page_name, render_page(document))
        document.files.append(directory / document.page_name)
    return document.files


def _is_shown(section: Section[Any], document: Document[Any], figures: Mapping[str, Drawing]) -> bool:
    """Whether the page has a section: always, or if one of its outputs is shown."""
    if section.always:
        return True
    return any(_is_output_shown(output, document, figures) for output in section.outputs)


def _is_output_shown(output: Output[Any], document: Document[Any], figures: Mapping[str, Drawing]) -> bool:
    """Whether an output has a table, a figure or a text for the page."""
    if output.has_table and output.name in document.tables:
        return True
    if output.figure and output.name in figures:
        return True
    first_text = next(iter(output.texts(document.source)), "")
    return bool(first_text)


def _text(name: str) -> str:
    """The text of a file in this folder."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


@cache
def _template(name: str) -> jinja2.Template:
    """A template in this folder, with the filters that it uses."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "kinds": _kinds,
        "swatch": swatch,
        "value": _value,
        "more": _more,
        "breakable": _breakable,
        "minus": with_minus_signs,
    }
    return environment.get_template(name)


def _kinds(view: TableView) -> list[Markup]:
    """The class of each column of a table as an HTML attribute. Columns of short text have none."""
    attributes = []
    for index in range(len(view.columns)):
        kind = _kind(view, index)
        attributes.append(Markup(f' class="{kind}"' if kind else ""))
    return attributes


def _kind(view: TableView, index: int) -> str:
    """The class of a column: `n` for numbers, `t` for names that may wrap, `p` for prose, empty for short text."""
    if view.columns[index].value:
        return "n"
    longest = max(len(str(row[index].text)) for row in view.rows)
    if longest > PROSE:
        return "p"
    if longest > SHORT:
        return "t"
    return ""


def _value(cell: Cell) -> Markup:
    """The HTML attribute with the value of a cell.

    It is empty if the text of the cell is the same number, since a page has many cells.
    """
    if cell.value is None:
        return Markup("")
    text = str(cell.text)
    if NUMBER.fullmatch(text) and float(text) == cell.value:
        return Markup("")
    return Markup(f' data-value="{cell.value}"')


def _breakable(text: Any) -> Any:
    """A text that may be broken after the signs that join the words of a name, as in "torch.optim:AdamW"."""
    if not isinstance(text, str) or isinstance(text, Markup):
        return text
    return Markup("<wbr>").join(JOINT.split(text))


def _more(numbers: Iterable[Any]) -> Markup:
    """The HTML attribute with the further numbers of a cell, or with their names for the head of a column.

    It is empty without further numbers.
    """
    text = ",".join("" if number is None else str(number) for number in numbers)
    if not text:
        return Markup("")
    return Markup(f' data-more="{text}"')
