"""The HTML report: one file that works offline, in light and dark, and without its script."""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import audit
from fairbench.analysis.results import Results
from fairbench.common.formatting import plural
from fairbench.report.figures.canvas import Drawing
from fairbench.report.figures.colors import declarations
from fairbench.report.figures.style import styles_of
from fairbench.report.findings import Finding
from fairbench.report.page.inline import colors, inline, swatch
from fairbench.report.tables.latex import to_latex
from fairbench.report.tables.model import Cell, TableView
from fairbench.report.tables.numbers import rate
from fairbench.report.tables.provenance import trial_counts

TABLE_SCRIPTS = ("view.js", "tables.js", "bar.js")
FIGURE_SCRIPTS = ("arms.js", "values.js", "figures.js")
STYLES = ("figures.css", "style.css")
NUMBER = re.compile(r"\d+(\.\d+)?")
"""A number as both Python and a browser read it."""
FEW = 8
"""The most baselines that the first sentences name."""
SHORT, PROSE = 16, 60
"""The most letters of text that never wraps, and of text that wraps in narrow lines."""


def render_page(
    analyses: Analyses, findings: Sequence[Finding], figures: Sequence[Drawing], tables: Mapping[str, TableView]
) -> str:
    """The report of a study as one self-contained page, with embedded figures."""
    suite, results = analyses.suite, analyses.results
    return filled(
        "page.html.j2",
        tables,
        suite=suite,
        title=suite.name,
        lead=_lead(results),
        findings=findings,
        failures=[flag for flag in analyses.of(audit) if flag.severity == "fail"],
        figures={figure.name: figure for figure in figures},
        panels={figure.name: list(zip(inline(figure), figure.parts, strict=True)) for figure in figures},
        styles=styles_of(suite),
        history=analyses.history,
        tracebacks=_tracebacks(results),
        missing=trial_counts(results.select(lambda run: run.status == "missing")),
    )


def filled(name: str, tables: Mapping[str, TableView], **content: Any) -> str:
    """A template of this folder with its tables and other content, with style, colors and script."""
    script = "\n".join(map(_text, (*TABLE_SCRIPTS, *(FIGURE_SCRIPTS if "figures" in content else ()))))
    return _template(name).render(
        light=declarations(dark=False),
        dark=declarations(dark=True),
        style="\n".join([*map(_text, STYLES), colors()]),
        script=script,
        script_sha256=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        tables=tables,
        latex=_packed({name: to_latex(table) for name, table in tables.items()}),
        **content,
    )


def _lead(results: Results) -> str:
    """The study in a few sentences."""
    suite = results.study.suite
    about = f"{suite.description[:1].upper()}{suite.description[1:]}"
    others = [name for name in suite.optimizers if name != suite.reference]
    every = ", ".join(suite.optimizers) if len(others) <= FEW else f"{len(suite.optimizers)} optimizers"
    compared = f"every pair of {every}"
    baselines = ", ".join(others) if len(others) <= FEW else f"{len(others)} baselines"
    compared = compared if suite.compare == "all" else f"{suite.reference} against {baselines}"
    seeds = f"{suite.final.in_words} in each arm; device {results.study.device}"
    return f"{about}. {f'Compared: {compared}; ' if others else ''}{seeds}."


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
    environment.filters |= {
        "rate": rate,
        "plural": plural,
        "kinds": _kinds,
        "swatch": swatch,
        "value": _value,
        "more": _more,
    }
    return environment.get_template(name)


def _packed(texts: Mapping[str, str]) -> str:
    """Texts as compressed JSON, a quarter as long."""
    return base64.b64encode(zlib.compress(json.dumps(texts).encode(), 9)).decode()


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


def _tracebacks(results: Results) -> dict[str, list[str]]:
    """Each traceback with its trials, since many trials may fail for the same reason."""
    trials: dict[str, list[str]] = {}
    for run in results.select(lambda run: run.error is not None):
        name = f"{run.arena} {run.optimizer}, {run.stage}, learning rate {rate(run.lr)}, seed {run.seed}"
        trials.setdefault(run.error.traceback if run.error else "", []).append(name)
    return trials
