"""Only the verdict better is bold, on the page and in the terminal."""

import re
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import get_args

import jinja2
import pytest
from rich.console import Console
from rich.style import Style

from fairbench import report
from fairbench.analysis.comparison.verdicts import Comparison, Verdict
from fairbench.report.tables.verdict_text import VerdictText

SIGNIFICANT = Comparison(
    "vit", "accuracy", "max", "PsiLogic", "AdamW", advantage=0.9, p=1e-9, p_holm=1e-9, ci_low=0.8, ci_high=1.0
)
"""Everything that tempts one to set it in bold, but for the verdict."""


def shown(statement: VerdictText) -> tuple[str, bool]:
    """The statement in a page, and whether any of it is bold in a terminal."""
    page = jinja2.Environment(autoescape=True).from_string("{{ it }}").render(it=statement)
    console = Console()
    bold = any((Style.parse(str(part.style)) if part.style else Style()).bold for part in console.render(statement))
    return page, bold


@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_only_better_is_bold(verdict: Verdict) -> None:
    page, bold = shown(VerdictText(replace(SIGNIFICANT, verdict=verdict, note="a <note>")))
    text = f"{verdict} (a &lt;note&gt;)"
    assert page == (f'<strong class="win">{text}</strong>' if verdict == "better" else text)
    assert bold == (verdict == "better")


def test_bold_cannot_be_asked_for() -> None:
    for asking in ({"bold": True}, {"style": "bold"}, {"win": True}, {"emphasis": True}):
        with pytest.raises(TypeError):
            VerdictText(SIGNIFICANT, **asking)
    statement = VerdictText(SIGNIFICANT)
    for name in ("win", "bold", "style", "is_win"):
        with pytest.raises(AttributeError):
            setattr(statement, name, True)
    for name in ("is_win", "verdict"):
        with pytest.raises((AttributeError, FrozenInstanceError)):
            setattr(SIGNIFICANT, name, True)
    with pytest.raises(TypeError):
        replace(SIGNIFICANT, is_win=True)
    assert shown(statement) == ("inconclusive", False)


def test_nothing_else_in_the_report_makes_a_win_bold() -> None:
    """The class stands in one place of the code; the template has it in its style alone, and asks for no verdict."""
    folder = Path(str(report.__file__)).parent
    marked = {file.name for file in folder.rglob("*.py") if re.search(r"""class=.win""", file.read_text())}
    assert marked == {"verdict_text.py"}
    for template in (folder / "page").glob("*.j2"):
        assert not re.search(r"""class="[^"]*\bwin\b|verdict ==""", template.read_text())


def test_in_latex() -> None:
    assert VerdictText(replace(SIGNIFICANT, verdict="better", note="a & b")).__latex__() == r"\textbf{better (a \& b)}"
    assert VerdictText(replace(SIGNIFICANT, verdict="worse")).__latex__() == "worse"
