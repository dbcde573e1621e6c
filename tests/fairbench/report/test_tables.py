"""LaTeX tables, set by a real TeX in the layouts of papers; Table 1; bold verdicts."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import jinja2
import pytest
from csv_columns import rows_of
from fabricated import EVERY_PAIR, analysed, given, study
from pages import FOUND, HOSTILE
from rich.console import Console
from rich.style import Style

from fairbench import report
from fairbench.analysis.comparison.verdicts import Comparison, Verdict
from fairbench.analysis.curves import Aggregate, aggregates
from fairbench.report.columns import page_only
from fairbench.report.render.latex import ESCAPED, escape, to_latex
from fairbench.report.sections.verdict_grid import verdict_text
from fairbench.report.sections.verdicts import main_table
from fairbench.report.study import study_report
from fairbench.report.view import Cell, TableView, TextColumn
from fairbench.suites.loader import load_suite

pytestmark = pytest.mark.xdist_group("tables")

NEEDS_TEX = pytest.mark.skipif(
    not shutil.which("pdflatex"), reason="no TeX; on Debian: apt-get install texlive-latex-recommended"
)
MANY = [f"schedule_free_adamw_{i:08}_no_weight_decay" for i in range(24)]


def zoo_table():
    """Table 1 of the published study of 27 optimizers in four arenas, as if some of them were better than AdamW."""
    folder = Path(__file__).parents[3] / "docs" / "results" / "zoo"
    found = [aggregate_of(row) for row in rows_of((folder / "aggregate.csv").read_text(encoding="utf-8"))]
    won = []
    for arena, name in (("gpt", "SOAP"), ("vit", "ScheduleFree"), ("resnet", "Kron"), ("ddpm", "Shampoo")):
        won.append(Comparison(arena, "loss", "min", "AdamW", name, verdict="worse"))
    analyses = SimpleNamespace(suite=load_suite("zoo"), of={aggregates: found}.get, comparisons=won)
    return main_table(analyses)


def aggregate_of(row):
    """The aggregate in a row of aggregate.csv, as if all five seeds had finished."""
    row["mean"] = float(row["mean"])
    row["std"] = float(row["std"])
    counts = {"n": 5, "diverged": 0, "failed": 0, "missing": 0}
    return Aggregate(**(row | counts))


def tables(*optimizers, **fields):
    the_study = study(optimizers=("AdamW", "Lion", *optimizers, "PsiLogic"), seeds=(1, 2, 3, 4), **fields)
    scores = {name: [0.7, 0.71, 0.73, 0.72] for name in optimizers}
    scores["PsiLogic"] = [0.9, 0.92, 0.91, 0.93]
    scores["AdamW"] = [0.5, 0.51, 0.52, 0.53]
    scores["Lion"] = [0.6, "diverged", "failed", 0.6]
    return study_report(given(analysed(the_study, **scores), FOUND)).tables


def complaints(folder, body):
    """What the log of LaTeX says of an article: lines wider than its text, characters that are missing."""
    packages = "array,booktabs,longtable,textcomp,graphicx"
    head = f"\\documentclass{{article}}\n\\usepackage{{{packages}}}\n\\hfuzz=0.1pt\n"
    article = f"{head}\\begin{{document}}\n{body}\\end{{document}}\n"
    (folder / "all.tex").write_text(article)
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
    sources = [path.read_text() for path in sorted((small_study / "tables").glob("*.tex"))]
    assert len(sources) > 12
    views = [zoo_table(), printable]
    views += tables(HOSTILE).values()
    views += tables(*MANY).values()
    views += tables("Adam β₂, ε=1e-08", *MANY[:2], compare=EVERY_PAIR).values()
    sources += map(to_latex, views)
    assert complaints(tmp_path, "\\clearpage\n".join(sources)) == []


def test_means_of_27_optimizers_have_one_number_of_decimals():
    """Each column has one number of decimals, with which its deviations have about two digits."""
    table = zoo_table()
    text = to_latex(table)
    assert text.count(r"\textbf") == 4
    assert [decimals_in(table, column) for column in range(1, 5)] == [{3}, {4}, {4}, {4}]
    assert {len(row) for row in table.rows} == {5}


def decimals_in(table, column):
    """The numbers of decimals of the numbers in a column."""
    found = set()
    for row in table.rows:
        decimals = re.findall(r"\.(\d+)", str(row[column].text))
        found.update(map(len, decimals))
    return found


def test_every_row_has_all_columns():
    found = tables(HOSTILE)
    assert {"main", "comparisons", "causes", "shocks", "schedules", "ranking"} <= found.keys()
    for table in found.values():
        text = to_latex(table)
        assert text.isascii()
        rows = [line for line in text.splitlines() if line.endswith(r"\\")]
        assert len(rows) == 1 + len(table.rows)
        columns = text.count("p{")
        for row in rows:
            assert len(re.split(r"(?<!\\)&", row)) == columns


def test_only_wins_are_bold():
    """In vit, where higher is better, PsiLogic is better than the two that finished, in gpt worse than both."""
    found = tables("Muon")
    bold = {}
    for name, table in found.items():
        texts = re.findall(r"\\textbf\{([^}]+)", to_latex(table))
        if texts:
            bold[name] = texts
    assert bold == {
        "verdicts": ["better", "better"],
        "comparisons": ["better (at learning rates that only short trials selected)"] * 2,
        "main": ["0.515", "0.715"],
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
    ("scores", "margin", "compared"),
    [
        ([3140.0, 3120.0, 3100.0], 50.0, ["3120", "4330", "+1210 [+1111, +1309]", "50"]),
        ([-210.0, -200.0, -190.0], 4000.0, ["−200", "1010", "+1210", "4000"]),
    ],
)
def test_metrics_on_any_scale(scores, margin, compared):
    """Squared errors of thousands and negative log-likelihoods are written out, with their margins."""
    the_study = study(("gpt",), ("AdamW", "PsiLogic"), margin=margin)
    of_adamw = [score + 1210 for score in reversed(scores)]
    analyses = analysed(the_study, PsiLogic=scores, AdamW=of_adamw)
    row = study_report(analyses).tables["comparisons"].rows[0]
    cells = [cell.text for cell in row]
    assert cells[4:6] == compared[:2]
    assert cells[6].startswith(compared[2])
    assert cells[7] == compared[3]


@pytest.mark.parametrize("character", list(map(chr, range(32, 127))))
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


def test_a_line_may_end_at_each_code_point_and_the_column_has_space_for_it():
    view = TableView("x", caption="", columns=[TextColumn("A", str)], rows=[[Cell("优化 AdamW")]])
    text = to_latex(view)
    assert r"\texttt{U+4F18}\allowbreak{}\texttt{U+5316} AdamW" in text
    width = float(re.search(r"p\{([\d.]+)em\}", text)[1])
    assert width >= 6 * 0.525  # the width of six letters of \texttt


SIGNIFICANT = Comparison(
    "vit", "accuracy", "max", "PsiLogic", "AdamW", gain=0.9, p=1e-9, p_holm=1e-9, ci_low=0.8, ci_high=1.0
)
"""Everything that tempts one to set it in bold, but for the verdict."""


def shown(statement):
    """The statement in a page, and whether any of it is bold in a terminal."""
    page = jinja2.Environment(autoescape=True).from_string("{{ it }}").render(it=statement)
    is_bold = False
    for part in Console().render(statement):
        if part.style and Style.parse(str(part.style)).bold:
            is_bold = True
    return page, is_bold


@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_only_better_is_bold(verdict):
    page, bold = shown(verdict_text(replace(SIGNIFICANT, verdict=verdict, note="a <note>")))
    text = f"{verdict} (a &lt;note&gt;)"
    if verdict == "better":
        assert page == f'<strong class="win">{text}</strong>'
        assert bold
    else:
        assert page == text
        assert not bold


def test_nothing_else_in_the_report_makes_a_win_bold():
    """The class stands in one place of the code; the template has it in its style alone, and asks for no verdict."""
    folder = Path(str(report.__file__)).parent
    marked = [file.name for file in folder.rglob("*.py") if re.search(r"""class=.win""", file.read_text())]
    assert marked == ["view.py"]
    for template in (folder / "page").glob("*.j2"):
        assert not re.search(r"""class="[^"]*\bwin\b|verdict ==""", template.read_text())


def test_a_gain_stands_with_the_interval_that_decides_and_what_widens_it():
    decided = Comparison(
        "vit",
        "accuracy",
        "max",
        "PsiLogic",
        "AdamW",
        gain=0.4,
        error=0.05,
        split_error=0.02,
        finer_optimizer=0.003,
        finer_baseline=None,
        ci_low=0.1,
        ci_high=0.7,
        ci_level=1 - 0.05 / 12,
        p_equivalence=0.02,
        p_equivalence_holm=0.24,
    )
    the_study = analysed(study(("vit",), ("AdamW", "PsiLogic")))
    the_study.comparisons = [decided]
    table = study_report(the_study).tables["comparisons"]
    titles = [column.title for column in table.columns]
    (row,) = table.rows
    shown = {title: str(cell.text) for title, cell in zip(titles, row, strict=True)}
    assert shown["Gain [interval] level"].replace("\N{NO-BREAK SPACE}", " ") == "+0.40 [+0.10, +0.70] 99.6%"
    assert shown["Finer search"] == "0.00300 / –"
    assert shown["Share of the split"] == "16%"  # 0.02^2 / 0.05^2
    assert shown["Holm TOST p"] == "0.240"
    assert "The 99.6% interval decides" in table.caption
