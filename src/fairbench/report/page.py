"""The HTML report: one file that opens offline."""

import base64
from collections.abc import Sequence

import jinja2

from fairbench.analysis.audit.flag import Flag
from fairbench.analysis.audit.search import edge
from fairbench.analysis.conditions import hash_checks
from fairbench.analysis.environments import grounds
from fairbench.analysis.mechanism import mechanisms
from fairbench.analysis.results import Results
from fairbench.analysis.verdicts import Comparison
from fairbench.data.facts import SOURCES
from fairbench.report.canvas import Drawing
from fairbench.report.findings import Finding
from fairbench.report.statement import Statement
from fairbench.report.tables import aggregates, costs


def render_page(
    results: Results,
    comparisons: Sequence[Comparison],
    flags: Sequence[Flag],
    findings: Sequence[Finding],
    figures: Sequence[Drawing],
) -> str:
    """Everything that the study shows, as one self-contained page.

    Args:
        results: the study's results so far.
        comparisons: the verdict table.
        flags: what the audit found.
        findings: the verdicts in sentences.
        figures: the figures, which are embedded.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fairbench", "report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"number": number, "signed": signed, "p": p_value, "rate": rate, "percent": percent}
    environment.filters["statement"] = Statement
    suite = results.study.suite
    ground = _environment(results)
    return environment.get_template("page.html.j2").render(
        suite=suite,
        device=results.study.device,
        facts={arena: suite.facts(arena) for arena in suite.arenas},
        sources=SOURCES,
        flags=flags,
        findings=findings,
        comparisons=comparisons,
        aggregates=aggregates(results),
        arms=[(arm, edge(arm)) for arm in results.arms],
        mechanisms=mechanisms(results),
        costs=costs(results),
        checks=hash_checks(results),
        lost=results.select(lambda run: run.status in ("failed", "diverged")),
        missing=results.select(lambda run: run.status == "missing"),
        environment=ground,
        mixed=[name for name, values in ground.items() if len(values) > 1],
        figures=[(figure, base64.b64encode(figure.svg.encode()).decode()) for figure in figures],
    )


def _environment(results: Results) -> dict[str, tuple[str, ...]]:
    """Each fact of machine and versions, with its values over all records; the study's own where there are none."""
    measured = results.select(lambda run: run.result is not None)
    return grounds(run.environment for run in measured) or grounds([results.study.environment])


def number(value: float | None, digits: int = 4) -> str:
    """A measured number for reading; a dash for what could not be computed."""
    return "–" if value is None else f"{value:#.{digits}g}".rstrip(".").replace("-", "−")


def signed(value: float | None) -> str:
    """A difference for reading, its sign always shown."""
    return "–" if value is None else f"{value:+#.3g}".rstrip(".").replace("-", "−")


def p_value(value: float | None) -> str:
    """A p-value for reading."""
    return "–" if value is None else "< 0.0001" if value < 1e-4 else f"{value:#.2g}"


def percent(value: float | None) -> str:
    """A share for reading."""
    return "–" if value is None else f"{100 * value:.3g}%"


def rate(value: float | None) -> str:
    """A learning rate or another chosen number, as short as it is."""
    return "–" if value is None else f"{value:g}"
