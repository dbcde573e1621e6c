"""The HTML report: one file that opens offline, in light and dark, and can be read without its script."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import jinja2

from fairbench.analysis.audit.check import Flag
from fairbench.analysis.comparison.verdicts import VERDICTS, Comparison
from fairbench.analysis.results import Results
from fairbench.report.figures.canvas import Drawing, looks
from fairbench.report.figures.colors import declarations
from fairbench.report.findings import Finding
from fairbench.report.page.inline import inline
from fairbench.report.tables.model import Grid
from fairbench.report.tables.numbers import interval, rate
from fairbench.report.tables.provenance import groups_of
from fairbench.report.tables.verdict_text import Statement
from fairbench.study.history import History
from fairbench.suites.schema import Suite

SIGNS = {"better": "▲", "worse": "▼", "equivalent": "=", "identical": "=", "identical values": "="}
"""A sign for each verdict, so that no colour is needed to tell them apart; the others get a question mark."""


def render_page(
    results: Results,
    comparisons: Sequence[Comparison],
    findings: Sequence[Finding],
    figures: Sequence[Drawing],
    history: History,
    grids: Mapping[str, Grid],
    flags: Sequence[Flag],
) -> str:
    """Everything that the study shows, as one self-contained page.

    Args:
        results: the study's results so far.
        comparisons: the verdict table.
        findings: the same in sentences.
        figures: the figures, which are embedded.
        history: the plans of the study.
        grids: every table, from `fairbench.report.tables.results.grids`.
        flags: what the audit raises.
    """
    suite = results.study.suite
    script = _own("script.js")
    return _template().render(
        suite=suite,
        device=results.study.device,
        light=declarations(dark=False),
        dark=declarations(dark=True),
        style=_own("style.css"),
        script=script,
        script_sha256=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        findings=findings,
        failures=[flag for flag in flags if flag.severity == "fail"],
        reading=reading(suite, comparisons),
        verdicts=verdict_grid(suite, comparisons),
        grids=grids,
        figures={figure.name: figure for figure in figures},
        panels={figure.name: list(zip(inline(figure), figure.parts, strict=True)) for figure in figures},
        arms=list(looks(suite)),
        history=history,
        tracebacks=_tracebacks(results),
        missing=groups_of(results.select(lambda run: run.status == "missing")),
    )


def _own(name: str) -> str:
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


def reading(suite: Suite, comparisons: Sequence[Comparison]) -> str:
    """The verdicts in one sentence."""
    if not comparisons:
        return "There is no baseline, so nothing is compared."
    counts = {verdict: sum(c.verdict == verdict for c in comparisons) for verdict in VERDICTS}
    parts = [f"{verdict} in {n}" for verdict, n in counts.items() if n or verdict == "better"]
    many = "1 comparison" if len(comparisons) == 1 else f"{len(comparisons)} comparisons"
    whose = "two optimizers" if suite.compare == "all" else f"{suite.reference} with a baseline"
    return f"Of {many} of {whose}, the verdict is {', '.join(parts)}."


def verdict_grid(suite: Suite, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Arenas and baselines, or pairs, the more numerous as rows: `head`, `columns`, and `rows` of a name and its cells.

    A cell is the comparison's verdict, its sign, its statement, and its advantage with the interval.
    """
    every = suite.compare == "all"
    titles = [f"{c.reference} against {c.baseline}" if every else c.baseline for c in comparisons]
    arenas = list(dict.fromkeys(c.arena for c in comparisons))
    pairs = list(dict.fromkeys(titles))
    found = {(c.arena, title): _verdict(c) for c, title in zip(comparisons, titles, strict=True)}
    if len(arenas) >= len(pairs):
        rows = [(arena, [found[arena, pair] for pair in pairs]) for arena in arenas]
        return {"head": "Arena", "columns": pairs, "rows": rows}
    rows = [(pair, [found[arena, pair] for arena in arenas]) for pair in pairs]
    return {"head": "Pair" if every else "Baseline", "columns": arenas, "rows": rows}


def _verdict(c: Comparison) -> dict[str, Any]:
    shown = interval(c.advantage, c.ci_low, c.ci_high)
    sign = SIGNS.get(c.verdict, "?")
    return {"verdict": c.verdict, "sign": sign, "statement": Statement(c), "advantage": shown}


def _tracebacks(results: Results) -> dict[str, list[str]]:
    """Each traceback with the trials that left it, since many may fail alike."""
    found: dict[str, list[str]] = {}
    for run in results.select(lambda run: run.status == "failed"):
        name = f"{run.arena} {run.optimizer}, {run.stage}, learning rate {rate(run.lr)}, seed {run.seed}"
        found.setdefault((run.record or {})["error"]["traceback"], []).append(name)
    return found
