"""LaTeX tables, set by a real TeX in the layouts of papers; Table 1; bold verdicts; budget and treatment."""

import csv
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import jinja2
import pytest
from fabricated import EVERY_PAIR, analysed, given, study
from pages import FOUND, HOSTILE
from rich.console import Console
from rich.style import Style

from fairbench import report
from fairbench.analysis.budget import budgets
from fairbench.analysis.comparison.verdicts import Comparison, Verdict
from fairbench.analysis.curves import Aggregate, aggregates
from fairbench.common.formatting import (
    column_of_intervals,
    column_of_means,
    column_of_percents,
    duration,
    exact,
    interval,
    mean_and_deviation,
    percent,
    rate,
)
from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan, ResolvedOptimizer
from fairbench.report.render.latex import ESCAPED, escape, to_latex
from fairbench.report.sections.verdict_grid import verdict_text
from fairbench.report.sections.verdicts import main_table
from fairbench.report.study import study_report
from fairbench.report.view import Cell, TableView, TextColumn, page_only
from fairbench.suites.loader import load_suite

pytestmark = pytest.mark.xdist_group("tables")

NEEDS_TEX = pytest.mark.skipif(
    not shutil.which("pdflatex"), reason="no TeX; on Debian: apt-get install texlive-latex-recommended"
)
MANY = [f"schedule_free_adamw_{i:08}_no_weight_decay" for i in range(24)]


def zoo_table():
    """Table 1 of the published study of 27 optimizers in four arenas, as if some of them were better than AdamW."""
    folder = Path(__file__).parents[3] / "docs" / "results" / "zoo"
    with (folder / "aggregate.csv").open(encoding="utf-8") as file:
        rows = [{**row, "n": 5, "diverged": 0, "failed": 0, "missing": 0} for row in csv.DictReader(file)]
    found = [Aggregate(**{**row, "mean": float(row["mean"]), "std": float(row["std"])}) for row in rows]
    best = {"gpt": "SOAP", "vit": "ScheduleFree", "resnet": "Kron", "ddpm": "Shampoo"}
    won = [Comparison(arena, "loss", "min", "AdamW", name, verdict="worse") for arena, name in best.items()]
    return main_table(SimpleNamespace(suite=load_suite("zoo"), of={aggregates: found}.get, comparisons=won))


def tables(*optimizers, **fields):
    the_study = study(optimizers=("AdamW", "Lion", *optimizers, "PsiLogic"), **fields)
    scores = {name: [0.7, 0.71, 0.73] for name in optimizers}
    scores["PsiLogic"] = [0.9, 0.92, 0.91]
    scores["AdamW"] = [0.5, 0.51, 0.52]
    scores["Lion"] = [0.6, "diverged", "failed"]
    return study_report(given(analysed(the_study, **scores), FOUND)).tables


def complaints(folder, body):
    """What the log of LaTeX says of an article: lines wider than its text, characters that are missing."""
    packages = "array,booktabs,longtable,textcomp,graphicx"
    head = f"\\documentclass{{article}}\n\\usepackage{{{packages}}}\n\\hfuzz=0.1pt\n\\begin{{document}}\n"
    (folder / "all.tex").write_text(f"{head}{body}\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-draftmode", "all.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="latin-1")
    assert done.returncode == 0, done.stdout[-2000:]
    log = (folder / "all.log").read_text("latin-1")
    return [line for line in log.splitlines() if re.search("Overfull|Missing character|undefined", line)]


@pytest.mark.xdist_group("browser")  # its worker has the small study
@NEEDS_TEX
def test_every_table_fits_a_paper(tmp_path, small_study):
    """No line is wider than the text of an article, 345 pt.

    The tables of a study that ran, and of studies with names that no small study has.
    """
    letters = "".join(character for character in ESCAPED if character > "~")
    printable = TableView("x", caption="", columns=[TextColumn("All", str)], rows=[[Cell(letters)]])
    studies = [tables(HOSTILE), tables(*MANY), tables("Adam β₂, ε=1e-08", *MANY[:2], compare=EVERY_PAIR)]
    ran = [path.read_text() for path in sorted((small_study / "tables").glob("*.tex"))]
    assert len(ran) > 12
    views = [zoo_table(), printable]
    for found in studies:
        views += found.values()
    assert complaints(tmp_path, "\\clearpage\n".join([*ran, *map(to_latex, views)])) == []


def test_means_of_27_optimizers_have_one_number_of_decimals():
    """Each column has one number of decimals, with which its deviations have about two digits."""
    table = zoo_table()
    text = to_latex(table)
    assert text.count(r"\textbf") == 4
    _, *columns = zip(*table.rows, strict=True)
    assert [decimals_in(column) for column in columns] == [{3}, {4}, {4}, {4}]


def decimals_in(column):
    """The numbers of decimals of the numbers in a column."""
    found = set()
    for cell in column:
        found |= {len(digits) for digits in re.findall(r"\.(\d+)", str(cell.text))}
    return found


def test_every_row_has_all_columns():
    found = tables(HOSTILE)
    assert {"main", "comparisons", "causes", "shocks", "schedules", "ranking"} <= found.keys()
    for table in found.values():
        text = to_latex(table)
        assert text.isascii()
        rows = [line for line in text.splitlines() if line.endswith(r"\\")]
        assert len(rows) == 1 + len(table.rows)
        assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {len(re.findall(r"p\{", text))}


def test_only_wins_are_bold():
    """In vit, where higher is better, PsiLogic is better than the two that finished, in gpt worse than both."""
    found = tables("Muon")
    bold = {name: re.findall(r"\\textbf\{([^}]+)", to_latex(table)) for name, table in found.items()}
    assert {name: texts for name, texts in bold.items() if texts} == {
        "verdicts": ["better"] * 2,
        "comparisons": ["better"] * 2,
        "main": ["0.510", "0.713"],
    }


def test_a_table():
    columns = [TextColumn("A & B", str), *page_only(TextColumn("x_1", str)), TextColumn("Holm p", str, float)]
    rows = [
        [Cell("adam_1"), Cell(""), Cell("−1.5 ± 0.3")],
        [Cell("adam_1"), Cell(""), Cell("3.75e−08")],
        [Cell("β"), Cell(""), Cell("")],
    ]
    assert to_latex(TableView("x", "50% of it", columns, rows)).splitlines() == [
        r"% 50\% of it",
        r"% Only in the page: x\_1.",
        "% Needs the packages array, booktabs, longtable and textcomp.",
        r"\begingroup\footnotesize\setlength{\tabcolsep}{0.25em}%",
        r"\begin{longtable}{@{}>{\raggedright\arraybackslash}p{3.96em}>{\raggedleft\arraybackslash}p{6.44em}@{}}",
        r"\toprule",
        r"A \& B & Holm $p$ \\",
        r"\midrule",
        r"\endhead",
        r"adam\_1 & $-$1.5 $\pm$ 0.3 \\",
        r"adam\_1 & $3.75\times10^{-8}$ \\",
        r"$\beta$ &  \\",
        r"\bottomrule",
        r"\end{longtable}\endgroup",
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
        (interval(0.0, -5e-324, 5e-324), "0.0e−324 [−4.9e−324, +4.9e−324]"),
        (interval(0.01, None, None), "+0.0100"),
        (mean_and_deviation(2.5291, 0.0312), "2.529 ± 0.031"),
        (mean_and_deviation(1.0000001, 2e-8), "1.00000010 ± 0.00000002"),
        (mean_and_deviation(0.5, 0.0), "0.5000 ± 0"),
        (" ".join(map(rate, (3.16228e-05, 0.00316228, 0.0125, 0.001, 0.1234))), "3.16e-05 0.00316 0.0125 0.001 0.1234"),
        (" ".join(map(percent, (0.00235, 0.24, 0.9996, 1.0, 1.5))), "0.24% 24% over 99% 100% 150%"),
        (" ".join(column_of_percents((1e-30, 1e-30, 0.24))), "1.0e−28% 1.0e−28% 24%"),
        (" ".join(map(duration, (59.6, 3599, 359_999, 360_000, 2.7e9))), "1:00 59:59 99:59:59 4 days 31,250 days"),
        (" ".join(map(exact, (8400.0, 1410, 1e6, -2.5))), "8400 1410 1000000 −2.5"),
    ],
)
def test_numbers(written, shown):
    assert written.replace("\N{NO-BREAK SPACE}", " ") == shown


@pytest.mark.parametrize(
    ("pairs", "column"),
    [
        (
            [(0.50584, 0.00394), (0.70912, 0.00031), (10.642, 0.035), (0.6, 0.0), (0.6, None), (None, None)],
            ["0.5058 ± 0.0039", "0.7091 ± 0.0003", "10.6420 ± 0.0350", "0.6000 ± 0", "0.6000", "–"],
        ),
        ([(0.5, 0.02), (0.6, 0.03), (0.7, 0.0000004)], ["0.500 ± 0.020", "0.600 ± 0.030", "0.70000000 ± 0.00000040"]),
        ([(0.5, 0.02), (0.6, 0.03), (0.7, 0.0003)], ["0.5000 ± 0.0200", "0.6000 ± 0.0300", "0.7000 ± 0.0003"]),
        ([(2.5291, None), (12.25, None), (0.1, None)], ["2.529", "12.250", "0.100"]),
        ([(-2e12, 3e11), (1.5, 0.25)], ["−2.00e+12 ± 0.30e+12", "1.50 ± 0.25"]),
        ([(None, None)], ["–"]),
    ],
)
def test_a_column_of_means_has_one_number_of_decimals(pairs, column):
    """But for a value whose deviation would be 0 in them, and where one needs an exponent."""
    assert [text.replace("\N{NO-BREAK SPACE}", " ") for text in column_of_means(pairs)] == column


def test_gains_and_shares_of_a_column_have_one_number_of_decimals():
    gains = [(0.0112, -0.0101, 0.0325), (0.1234, 0.1, 0.1468), (-0.00004, -0.0003, 0.0002), (0.01, None, None)]
    texts = ["+0.0112 [−0.0101, +0.0325]", "+0.1234 [+0.1000, +0.1468]", "0.0000 [−0.0003, +0.0002]", "+0.0100"]
    assert column_of_intervals(gains) == texts
    shares = [0.0024, 0.24, 0.05, 1.0, 0.9999, None]
    assert column_of_percents(shares) == ["0.24%", "24%", "5%", "100%", "over 99%", "–"]


@pytest.mark.parametrize(
    ("scores", "margin", "compared"),
    [
        ([3140.0, 3120.0, 3100.0], 50.0, ["3120", "4330", "+1210 [+1111, +1309]", "50"]),
        ([-210.0, -200.0, -190.0], 4000.0, ["−200", "1010", "+1210", "4000"]),
    ],
)
def test_metrics_on_any_scale(scores, margin, compared):
    """Squared errors of thousands and negative log-likelihoods are written out, with their margins."""
    the_study = study(("gpt",), ("AdamW", "PsiLogic"), margin=margin)
    analyses = analysed(the_study, PsiLogic=scores, AdamW=[x + 1210 for x in scores[::-1]])
    found = study_report(analyses).tables
    cells = [cell.text for cell in found["comparisons"].rows[0]]
    assert compared[:2] == cells[4:6]
    assert cells[6].startswith(compared[2])
    assert cells[7] == compared[3]


@pytest.mark.parametrize("character", [chr(code) for code in range(32, 127)])
def test_every_character_is_itself(character):
    """What LaTeX would take for its own is escaped, the rest is left alone."""
    special = character in "\\{}$&%#_^~<>|\"[]-'`"
    assert (escape(character) != character) == special


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("中\n\x00", r"\texttt{U+4E2D} \texttt{U+0000}"),
        ("β₂ × λ", r"$\beta$\textsubscript{2} $\times$ $\lambda$"),
        ("eps = 1e-08, −3.75e+10", r"eps = $10^{-8}$, $-3.75\times10^{10}$"),
        ("00e123 1e5 lr_1e-03", r"00e123 1e5 lr\_1e{-}03"),
    ],
)
def test_in_latex(text, source):
    """Greek letters and exponents are formulas, but not in a hash or a name; what cannot be printed is named."""
    assert escape(text) == source


SIGNIFICANT = Comparison(
    "vit", "accuracy", "max", "PsiLogic", "AdamW", gain=0.9, p=1e-9, p_holm=1e-9, ci_low=0.8, ci_high=1.0
)
"""Everything that tempts one to set it in bold, but for the verdict."""


def shown(statement):
    """The statement in a page, and whether any of it is bold in a terminal."""
    page = jinja2.Environment(autoescape=True).from_string("{{ it }}").render(it=statement)
    styles = [Style.parse(str(part.style)) for part in Console().render(statement) if part.style]
    return page, any(style.bold for style in styles)


@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_only_better_is_bold(verdict):
    page, bold = shown(verdict_text(replace(SIGNIFICANT, verdict=verdict, note="a <note>")))
    text = f"{verdict} (a &lt;note&gt;)"
    assert page == (f'<strong class="win">{text}</strong>' if verdict == "better" else text)
    assert bold == (verdict == "better")


def test_nothing_else_in_the_report_makes_a_win_bold():
    """The class stands in one place of the code; the template has it in its style alone, and asks for no verdict."""
    folder = Path(str(report.__file__)).parent
    marked = {file.name for file in folder.rglob("*.py") if re.search(r"""class=.win""", file.read_text())}
    assert marked == {"view.py"}
    for template in (folder / "page").glob("*.j2"):
        assert not re.search(r"""class="[^"]*\bwin\b|verdict ==""", template.read_text())


def shares(resolved=None, plans=None, **scores):
    """The budgets of a study in vit; some of its optimizers and their plans are as the test says."""
    the_study = study(("vit",), ("AdamW", "PsiLogic"))
    optimizers = {**the_study.optimizers, **(resolved or {})}
    suite = replace(the_study.suite, optimizers={**the_study.suite.optimizers, **(plans or {})})
    changed = replace(the_study, suite=suite, optimizers=optimizers)
    return budgets(analysed(changed, **scores))


def test_trials_and_steps_are_those_with_a_record():
    found = shares(PsiLogic=[0.9, "diverged", "failed"], AdamW=[0.5, None, 0.5])
    counts = [(x.optimizer, x.sweep_trials, x.sweep_steps, x.final_trials, x.final_steps) for x in found]
    assert counts == [("AdamW", 3, 30, 2, 20), ("PsiLogic", 3, 30, 3, 15)]  # it diverged after 5 steps of 10


def of(name, factory="", **options):
    """What the budgets says of an optimizer with these options, by the bench's own way of reading them."""
    plan = OptimizerPlan(factory, options)
    found = shares(resolved={name: resolve_optimizer(name, plan)}, plans={name: plan})
    return next(row for row in found if row.optimizer == name)


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
    resolved = ResolvedOptimizer("AdamW", "torch.optim:AdamW", {"weight_decay": 0.1}, plan.arenas, "", "", {})
    found = shares({"AdamW": resolved}, {"AdamW": plan})[0]
    assert (found.options, found.decay) == ("weight_decay = 0.3", "0.3, decoupled")
