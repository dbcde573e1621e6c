"""LaTeX tables, read by a small parser and compiled where there is a TeX; bold verdicts; budget and treatment."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import get_args

import jinja2
import pytest
from fabricated import Records, finals, history, study
from pages import FOUND, HOSTILE
from rich.console import Console
from rich.style import Style

from fairbench import report
from fairbench.analysis.analyse import analyse
from fairbench.analysis.comparison.verdicts import Comparison, Verdict
from fairbench.analysis.results import collect
from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan, ResolvedOptimizer
from fairbench.report.tables.budget import budgets
from fairbench.report.tables.latex import to_latex
from fairbench.report.tables.model import Cell, Column, TableView
from fairbench.report.tables.numbers import exact, interval, mean_and_deviation, percent, rate
from fairbench.report.tables.results import all_tables
from fairbench.report.tables.tex import ESCAPED, escape
from fairbench.report.tables.verdict_text import VerdictText

pytestmark = pytest.mark.xdist_group("libraries")  # one worker imports what studies need

TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|[{}$&]|[^\\{}$&]+", re.DOTALL)
COMMANDS = {
    *(r"\begin", r"\end", r"\toprule", r"\midrule", r"\bottomrule", r"\textbf", r"\texttt", r"\\"),
    *(match for text in ESCAPED.values() for match in re.findall(r"\\(?:[a-zA-Z]+|.)", text)),
}


def rows_of(text):
    """The cells of each row of a table, as LaTeX.

    Groups and environments must be closed in order, dollars come in pairs, and nothing but known commands occurs.
    """
    body = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("%"))
    tokens, open_groups, environments, math = TOKEN.findall(body), 0, [], False
    assert "".join(tokens) == body
    found, cells, cell = [], [], ""
    for i, token in enumerate(tokens):
        assert not token.startswith("\\") or token in COMMANDS, token
        assert token.startswith("\\") or not re.search(r"[#%_^<>|]", token), token
        math ^= token == "$"
        open_groups += (token == "{") - (token == "}")
        assert open_groups >= 0
        if token in (r"\begin", r"\end"):
            name = tokens[i + 2]
            environments.append(name) if token == r"\begin" else environments.remove(name)
        if open_groups == 0 and token in ("&", r"\\"):
            cells.append(cell.strip())
            cell = ""
            if token == r"\\":
                found.append(cells)
                cells = []
        elif token in (r"\toprule", r"\midrule", r"\bottomrule"):
            cell = ""
        else:
            cell += token
    assert (open_groups, environments, math) == (0, [], False)
    return found


def tables():
    the_study = study(optimizers=("AdamW", "Lion", HOSTILE, "PsiLogic"))
    scores = {"PsiLogic": [0.9, 0.91, 0.92], "AdamW": [0.5, 0.51, 0.52], "Lion": [0.6, "diverged", "failed"]}
    analyses = analyse(history(the_study), Records(finals(the_study, **scores)))
    return all_tables(replace(analyses, **FOUND))


def test_every_row_has_all_columns():
    found = tables()
    assert {"comparisons", "causes", "shocks", "ranking", "time_to_target", "quantities"} <= found.keys()
    for table in found.values():
        text = to_latex(table)
        assert text.isascii()
        (columns,) = re.findall(r"\\begin\{tabular\}\{([lr]+)\}", text)
        assert columns == "".join("r" if column.value else "l" for column in table.columns)
        rows = rows_of(text)
        assert [len(row) for row in rows] == [len(columns)] * (1 + len(table.rows))


def test_only_wins_are_bold():
    found = tables()
    bold = [cell for table in found.values() for row in rows_of(to_latex(table)) for cell in row if r"\textbf" in cell]
    assert bold == [r"\textbf{better}"] * 2  # vit, where higher is better, against the two that finished


def test_a_table():
    table = TableView("x", "50% of it", [Column("A & B", str), Column("p", str, float)], [[Cell("a_1"), Cell("−1")]])
    assert to_latex(table).splitlines() == [
        r"% 50\% of it",
        "% needs the packages booktabs and textcomp",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"A \& B & p \\",
        r"\midrule",
        r"a\_1 & $-$1 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (interval(2.65e-05, -0.00139, 0.00144), "+0.00003 [−0.00139, +0.00144]"),
        (interval(-1.4e-5, -0.0439, 0.0410), "0.000 [−0.044, +0.041]"),
        (interval(0.16, 0.0194, 0.3012), "+0.160 [+0.019, +0.301]"),
        (interval(1.23e12, -4e11, 2.86e12), "+1.23e+12 [−0.40e+12, +2.86e+12]"),
        (interval(1e-12, -4e-13, 2e-12), "+1.00e−12 [−0.40e−12, +2.00e−12]"),
        (interval(0.5, 0.5 - 1e-15, 0.5 + 1e-15), "+0.500000000 [+0.500000000, +0.500000000]"),
        (interval(1e200, -1e308, 1e308), "+1.00e+200"),
        (interval(0.01, None, None), "+0.0100"),
        (mean_and_deviation(2.5291, 0.0312), "2.529 ± 0.031"),
        (mean_and_deviation(1.0000001, 2e-8), "1.00000010 ± 0.00000002"),
        (mean_and_deviation(0.5, 0.0), "0.5000 ± 0"),
        (" ".join(map(rate, (3.16228e-05, 0.00316228, 0.0125, 0.001, 0.1234))), "3.16e-05 0.00316 0.0125 0.001 0.1234"),
        (" ".join(map(percent, (0.00235, 0.24, 0.9996, 1.0, 1.5))), "0.24% 24% over 99% 100% 150%"),
        (" ".join(map(exact, (8400.0, 1410, 1e6, -2.5))), "8400 1410 1000000 −2.5"),
    ],
)
def test_numbers(written, shown):
    assert written.replace("\N{NO-BREAK SPACE}", " ") == shown


@pytest.mark.parametrize(
    ("scores", "margin", "target", "compared", "reached"),
    [
        (
            [3140.0, 3120.0, 3100.0],
            50.0,
            3125.0,
            ["3120", "4330", "+1210 [+1165, +1255]", "50"],
            ["3125", "5", "67%"],
        ),
        ([-210.0, -200.0, -190.0], 4000.0, -195.5, ["−200.0", "1010.0", "+1210", "4000"], ["−195.5", "5", "67%"]),
    ],
)
def test_metrics_on_any_scale(scores, margin, target, compared, reached):
    """Squared errors of thousands and negative log-likelihoods are written out, with their margins and targets."""
    the_study = study(("gpt",), ("AdamW", "PsiLogic"))
    arenas = {"gpt": replace(the_study.suite.arenas["gpt"], margin=margin, target=target)}
    the_study = replace(the_study, suite=replace(the_study.suite, arenas=arenas))
    found = all_tables(
        analyse(history(the_study), Records(finals(the_study, PsiLogic=scores, AdamW=[x + 1210 for x in scores])))
    )
    cells = {
        name: [[cell.text for cell in row] for row in found[name].rows] for name in ("comparisons", "time_to_target")
    }
    assert compared[:2] == cells["comparisons"][0][4:6]
    assert cells["comparisons"][0][6].startswith(compared[2])
    assert cells["comparisons"][0][7] == compared[3]
    assert reached in [[row[2], row[3], row[5]] for row in cells["time_to_target"]]


@pytest.mark.parametrize("character", [chr(code) for code in range(32, 127)])
def test_every_character_is_itself(character):
    """What LaTeX would take for its own is escaped, the rest is left alone."""
    special = character in "\\{}$&%#_^~<>|\"[]-'`"
    assert (escape(character) != character) == special


def test_characters_that_latex_cannot_print_are_named():
    assert escape("中\n\x00") == r"\texttt{U+4E2D} \texttt{U+0000}"


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no TeX; on Debian: apt-get install texlive-latex-recommended")
def test_all_tables_compile(tmp_path):
    """In one document, with nothing but what the tables say that they need."""
    found = tables()
    for name, table in found.items():
        (tmp_path / f"{name}.tex").write_text(to_latex(table))
    printable = "".join(map(chr, range(33, 127)))
    inputs = "\n\n".join(rf"\input{{{name}}}" for name in found)
    document = rf"""\documentclass{{article}}
\usepackage{{booktabs,textcomp}}
\usepackage[paperwidth=3000mm,paperheight=900mm,margin=5mm]{{geometry}}
\begin{{document}}
{inputs}

{escape(printable)}
\end{{document}}
"""
    (tmp_path / "all.tex").write_text(document)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Missing character" not in done.stdout + (tmp_path / "all.log").read_text()
    assert "Overfull" not in done.stdout


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


def shares(resolved=None, plans=None, **scores):
    """The budgets of a study in vit; some of its optimizers and their plans are as the test says."""
    the_study = study(("vit",), ("AdamW", "PsiLogic"))
    optimizers = {**the_study.optimizers, **(resolved or {})}
    suite = replace(the_study.suite, optimizers={**the_study.suite.optimizers, **(plans or {})})
    changed = replace(the_study, suite=suite, optimizers=optimizers)
    return budgets(collect(changed, Records(finals(changed, **scores))))


def test_trials_and_steps_are_those_with_a_record():
    found = shares(PsiLogic=[0.9, "diverged", "failed"], AdamW=[0.5, None, 0.5])
    counts = [(x.optimizer, x.sweep_trials, x.sweep_steps, x.final_trials, x.final_steps) for x in found]
    assert counts == [("AdamW", 3, 30, 2, 20), ("PsiLogic", 3, 30, 3, 15)]  # it diverged after 5 steps of 10


def of(name, factory="", **options):
    """What the budgets says of an optimizer with these options, by the bench's own way of reading them."""
    plan = OptimizerPlan(factory, options)
    return next(x for x in shares({name: resolve_optimizer(name, plan)}, {name: plan}) if x.optimizer == name)


@pytest.mark.parametrize(
    ("factory", "options", "decay"),
    [
        ("torch.optim:AdamW", {}, "0.01, decoupled"),
        ("torch.optim:Adam", {"weight_decay": 0.1}, "0.1, coupled"),
        ("torch.optim:Adam", {"weight_decay": 0.1, "decoupled_weight_decay": True}, "0.1, decoupled"),
        ("torch.optim:Adam", {}, "0"),
        ("torch.optim:Adagrad", {"weight_decay": 0.1}, "0.1"),
        ("torch.optim:LBFGS", {}, "–"),
        ("pytorch_optimizer:Lion", {"weight_decay": 0.1}, "0.1, decoupled"),
        ("pytorch_optimizer:Lion", {"weight_decay": 0.1, "weight_decouple": False}, "0.1, coupled"),
        ("psilogic:PsiLogic", {}, "0.0001, decoupled"),
        ("psilogic:PsiLogicViT", {}, "by the preset"),
        ("psilogic:PsiLogicViT", {"weight_decay": 0.1}, "0.1, decoupled"),
    ],
)
def test_weight_decay(factory, options, decay):
    assert of("AdamW", factory, **options).decay == decay


@pytest.mark.parametrize(
    ("factory", "options", "treatment"),
    [
        ("torch.optim:AdamW", {}, ("norm 1", "none", "none")),
        ("psilogic:PsiLogic", {"max_grad_norm": 2.5}, ("norm 1, its own 2.5", "none", "none")),
        ("psilogic:PsiLogic", {"grad_centralize": True, "agc_clip": 0.02}, ("norm 1", "on", "0.02")),
        ("psilogic:PsiLogicNLP", {}, ("norm 1", "by the preset", "by the preset")),
        ("psilogic:PsiLogicNLP", {"grad_centralize": False}, ("norm 1", "none", "by the preset")),
    ],
)
def test_treatment(factory, options, treatment):
    found = of("AdamW", factory, **options)
    assert (found.clipping, found.centralization, found.adaptive_clipping) == treatment
    assert found.groups == "one for all"


def test_options_of_the_arena_win_and_are_named():
    plan = OptimizerPlan("", {"weight_decay": 0.1}, {"vit": {"weight_decay": 0.3}, "gpt": {"weight_decay": 0.2}})
    resolved = ResolvedOptimizer("AdamW", "torch.optim:AdamW", {"weight_decay": 0.1}, plan.arenas, False, "", {})
    found = shares({"AdamW": resolved}, {"AdamW": plan})[0]
    assert (found.options, found.decay) == ("weight_decay = 0.3", "0.3, decoupled")
