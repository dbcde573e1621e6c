"""The HTML report: one file that works offline, in light and dark, and without its script."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import jinja2

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.results import Results
from fairbench.report.figures.canvas import Drawing
from fairbench.report.figures.colors import declarations
from fairbench.report.figures.looks import looks_of
from fairbench.report.findings import Finding
from fairbench.report.page.inline import inline
from fairbench.report.tables.model import TableView
from fairbench.report.tables.numbers import interval, rate
from fairbench.report.tables.provenance import trial_counts
from fairbench.report.tables.verdict_text import VerdictText
from fairbench.suites.schema import Suite

SIGNS = {"better": "▲", "worse": "▼", "equivalent": "=", "identical": "=", "identical values": "="}
"""A sign for each verdict, so that they differ without color; the remaining ones get a question mark."""


def render_page(
    analyses: Analyses, findings: Sequence[Finding], figures: Sequence[Drawing], tables: Mapping[str, TableView]
) -> str:
    """The report of a study as one self-contained page, with embedded figures."""
    suite, results = analyses.suite, analyses.results
    script = _text("script.js")
    return _template().render(
        suite=suite,
        lead=_lead(results),
        light=declarations(dark=False),
        dark=declarations(dark=True),
        style=_text("style.css"),
        script=script,
        script_sha256=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        findings=findings,
        failures=[flag for flag in analyses.flags if flag.severity == "fail"],
        verdicts=verdict_table(suite, analyses.comparisons),
        tables=tables,
        figures={figure.name: figure for figure in figures},
        panels={figure.name: list(zip(inline(figure), figure.parts, strict=True)) for figure in figures},
        looks=looks_of(suite),
        history=analyses.history,
        tracebacks=_tracebacks(results),
        missing=trial_counts(results.select(lambda run: run.status == "missing")),
    )


def _lead(results: Results) -> str:
    """The study in a few sentences."""
    suite = results.study.suite
    about = f"{suite.description[:1].upper()}{suite.description[1:]}"
    others = [name for name in suite.optimizers if name != suite.reference]
    compared = f"every pair of {', '.join(suite.optimizers)}"
    compared = compared if suite.compare == "all" else f"{suite.reference} against {', '.join(others)}"
    seeds = f"{suite.final.in_words} in each arm; device {results.study.device}"
    return f"{about}. {f'Compared: {compared}; ' if others else ''}{seeds}."


def _text(name: str) -> str:
    """A file of this folder."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["rate"] = rate
    return environment.get_template("page.html.j2")


def verdict_table(suite: Suite, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """The verdicts by arena and pair: `head`, `columns`, and `rows`, each with a name and its cells.

    The rows are the arenas or the pairs, whichever are more. A cell has the verdict, its sign, its statement, and the
    advantage with its interval.
    """
    every = suite.compare == "all"
    titles = [f"{c.reference} against {c.baseline}" if every else c.baseline for c in comparisons]
    arenas = list(dict.fromkeys(c.arena for c in comparisons))
    pairs = list(dict.fromkeys(titles))
    cells = {(c.arena, title): _verdict(c) for c, title in zip(comparisons, titles, strict=True)}
    if len(arenas) >= len(pairs):
        rows = [(arena, [cells[arena, pair] for pair in pairs]) for arena in arenas]
        return {"head": "Arena", "columns": pairs, "rows": rows}
    rows = [(pair, [cells[arena, pair] for arena in arenas]) for pair in pairs]
    return {"head": "Pair" if every else "Baseline", "columns": arenas, "rows": rows}


def _verdict(c: Comparison) -> dict[str, Any]:
    advantage = interval(c.advantage, c.ci_low, c.ci_high)
    sign = SIGNS.get(c.verdict, "?")
    return {"verdict": c.verdict, "sign": sign, "statement": VerdictText(c), "advantage": advantage}


def _tracebacks(results: Results) -> dict[str, list[str]]:
    """Each traceback with its trials, since many trials may fail for the same reason."""
    trials: dict[str, list[str]] = {}
    for run in results.select(lambda run: run.status == "failed"):
        name = f"{run.arena} {run.optimizer}, {run.stage}, learning rate {rate(run.lr)}, seed {run.seed}"
        trials.setdefault((run.record or {})["error"]["traceback"], []).append(name)
    return trials
