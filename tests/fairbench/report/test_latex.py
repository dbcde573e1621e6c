"""The LaTeX tables: compiled where there is a TeX; everywhere a small parser reads groups, environments and rows."""

import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from fabricated import Records, finals, history, study
from pages import FOUND, HOSTILE

from fairbench.analysis.analyse import analyse
from fairbench.report.tables.latex import to_latex
from fairbench.report.tables.model import Cell, Column, TableView
from fairbench.report.tables.results import all_tables
from fairbench.report.tables.tex import ESCAPED, escape

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


@pytest.mark.parametrize("character", [chr(code) for code in range(32, 127)])
def test_every_character_is_itself(character):
    """What LaTeX would take for its own is escaped, the rest is left alone."""
    special = character in "\\{}$&%#_^~<>|\"[]-'`"
    assert (escape(character) != character) == special


def test_what_latex_cannot_print_is_named():
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
