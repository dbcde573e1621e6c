"""The derived files: their contents by hand, their bytes twice, and no crash on what is missing."""

import csv
import io
import math
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from disturbed import TIMED, holds_times
from fabricated import (
    EVERY_PAIR,
    QUANTITIES,
    TENSOR_STEPS,
    Records,
    edited,
    finals,
    history,
    mechanism,
    sha,
    study,
    with_horizons,
)
from pages import Page
from rich.console import Console

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import audit
from fairbench.report.study import study_report, write_report

ALWAYS = ("lr_sweep", "steps", "summary", "aggregate", "significance", "mechanism", "cost", "tuning")
TABLES, DATA = {f"{name}.csv" for name in ALWAYS}, {"records.parquet", "datapackage.json"}
FIGURES = ("leaderboard", "learning_curves", "lr_sensitivity", "mechanism", "step_time", "training_loss")
LATEX = (
    *("main", "audit", "verdicts", "comparisons", "metrics", "learning_rates", "mechanism", "quantities", "cost"),
    *("equal_time", "budget", "tuning", "treatment", "conditions", "arenas", "optimizers", "environment"),
)
FILES = {
    *(*TABLES, *DATA, "report.html", "report_files.txt"),
    *(f"tables/{name}.tex" for name in LATEX),
    *(f"figures/{name}.{ending}" for name in FIGURES for ending in ("pdf", "png", "svg")),
}
ADAMW, PSILOGIC = ("vit", "AdamW", "accuracy"), ("vit", "PsiLogic", "accuracy")
HEAD = ("At the default", "Best of 1", "Best of 2", "Best of 4", "Best of all")
HIGH, LOW, NOISY = [0.90, 0.92, 0.91], [0.50, 0.51, 0.52], [0.50, 0.60, 0.70]


@pytest.fixture
def figures():
    """For the tests that need figures."""


@pytest.fixture(autouse=True)
def no_other_figures(request, monkeypatch):
    """Drawing takes most of a report's time."""
    if "figures" not in request.fixturenames:
        monkeypatch.setattr("fairbench.report.study.draw_figures", lambda *_: [])


def write(folder, the_study=None, scores=None, **options):
    the_study = the_study or study(("vit",), ("AdamW", "PsiLogic"))
    scores = {"PsiLogic": HIGH, "AdamW": LOW} if scores is None else scores
    return write_report(history(the_study), Records(finals(the_study, **scores), **options), folder)


def rows(folder, name):
    return list(csv.DictReader(io.StringIO((folder / f"{name}.csv").read_text())))


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def page(folder):
    return Page((folder / "report.html").read_text())


def said(report):
    return {finding.topic: finding.text for finding in report.findings}


def flagged(report):
    return {flag.name: flag.text for flag in report.source.of(audit)}


def test_two_reports_of_the_same_records_are_the_same_bytes(tmp_path, figures):
    report = write(tmp_path / "a")
    write(tmp_path / "b")
    assert set(contents(tmp_path / "a")) == FILES
    assert {str(file.relative_to(tmp_path / "a")) for file in report.files} == FILES
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_the_files_that_depend_on_the_clock_are_those_that_the_readme_names(tmp_path, figures):
    """In a study with every file that has times: with horizons and a leaderboard of three optimizers."""
    three = with_horizons(study(compare=EVERY_PAIR), 0.5, 2)
    for folder, speed in (("a", 1.0), ("b", 3.7)):
        write(tmp_path / folder, three, {"PsiLogic": HIGH, "AdamW": LOW, "Lion": HIGH}, speed=speed)
    one, other = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert one.keys() == other.keys()
    differing = {Path(name) for name in one if one[name] != other[name]}
    assert differing == {Path(name) for name in one if holds_times(Path(name))}
    assert all(any(file.match(pattern) for file in differing) for pattern in TIMED)


def test_the_csv_files_of_trials(tmp_path, check_files):
    """The best of AdamW lies at the edge, so that a rate beyond it is tried; PsiLogic's lies inside."""
    two = study(("vit",), ("AdamW", "PsiLogic"), budget=4)
    scores = {"PsiLogic": [0.9, "diverged", None], "AdamW": ["failed", 0.5, 0.6]}
    write(tmp_path, two, scores, sweeps={("vit", "AdamW"): {1e-2: 0.7, 0.1: "diverged"}})
    check_files("report", *(tmp_path / f"{name}.csv" for name in ("lr_sweep", "steps", "summary", "mechanism", "cost")))
    even = ("0.001", "0.5000 (1.5)")
    assert page(tmp_path).tables["tuning"] == [
        ["Arena", "Optimizer", "Metric", "Default rate", *HEAD, "Settings", "Diverged", "Gain"],
        [*ADAMW, *even, "0.5000 (1)", "0.5625 (1)", "0.6305 (1)", "0.7000 (1)", "4", "25%", "+0.200"],
        [*PSILOGIC, *even, "0.4250 (2)", "0.4438 (2)", "0.4684 (2)", "0.5000 (2)", "4", "0%", "0"],
    ]


def test_aggregate(tmp_path):
    write(tmp_path, scores={"PsiLogic": [1.0, 2.0, 4.0], "AdamW": [0.5, "diverged", "failed"]})
    table = {(row["optimizer"], row["metric"]): row for row in rows(tmp_path, "aggregate")}
    ours, theirs = table["PsiLogic", "accuracy"], table["AdamW", "accuracy"]
    assert float(ours["mean"]) == pytest.approx(7 / 3)
    assert float(ours["std"]) == pytest.approx(math.sqrt(7 / 3))  # squares 16/9 + 1/9 + 25/9 = 42/9, halved
    assert (ours["split"], ours["n"], ours["diverged"]) == ("test", "3", "0")
    assert [theirs[name] for name in ("mean", "std", "n", "diverged", "failed", "missing")] == [
        *("0.5", "", "1", "1", "1", "0")
    ]


def test_significance_has_the_numbers_of_the_comparison(tmp_path):
    (comparison,) = write(tmp_path).source.comparisons
    (row,) = rows(tmp_path, "significance")
    assert (row["verdict"], row["arena"], row["baseline"]) == ("better", "vit", "AdamW")
    assert float(row["p_holm"]) == float(row["p"]) == comparison.p
    assert float(row["gain"]) == pytest.approx(0.4)
    assert float(row["t"]) == pytest.approx(0.4 / (0.01 / math.sqrt(3)))  # pairs differ by 0.40, 0.41 and 0.39


def test_only_better_is_bold(tmp_path):
    the_study = study(("vit", "gpt"))
    write(tmp_path, the_study, {"PsiLogic": HIGH, "AdamW": LOW, "Lion": NOISY})
    verdicts = [row["verdict"] for row in rows(tmp_path, "significance")]
    assert verdicts == ["better", "inconclusive", "worse", "inconclusive"]  # higher is better in vit, not in gpt
    adamw_in_gpt = "0.510\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.010"
    assert page(tmp_path).bold == ["better", adamw_in_gpt, "better"]  # in the grid, in Table 1, in the comparisons


def test_svg_has_no_date_and_is_well_formed(tmp_path, figures):
    write(tmp_path)
    for name in FIGURES:
        text = (tmp_path / "figures" / f"{name}.svg").read_text()
        ElementTree.fromstring(text)
        assert "dc:date" not in text
        assert b"matplotlib" not in (tmp_path / "figures" / f"{name}.png").read_bytes().lower()


def test_findings_of_a_complete_study(tmp_path):
    the_study = study(("vit",))
    findings = said(write(tmp_path, the_study, {"PsiLogic": HIGH, "AdamW": [0.85, 0.88, 0.89], "Lion": LOW}))
    assert "better in 1, inconclusive in 1." in findings["Verdicts"]
    assert "In all 4 groups of trials that share arena, stage and seed" in findings["Same start, same data"]
    assert findings["Mechanism"] == (
        "vit, PsiLogic: acted in 25% of tensor steps; "
        "cancellation did 12% of what weight decay did and 1% of the path length of the weights."
    )


class Watched(Records):
    """Every optimizer has a mechanism; that of O2 never acts."""

    def details(self, spec, outcome, finished):
        idle = dict.fromkeys(("fired", "acted"), (TENSOR_STEPS, {"a": 0.0, "b": 0.0}))
        watched = mechanism(QUANTITIES | (idle if spec.optimizer.name == "O2" else {}))
        return edited(super().details(spec, outcome, finished), "mechanism", watched)


def test_many_mechanisms_take_few_lines():
    the_study = study(("vit",), (*(f"O{i}" for i in range(1, 8)), "PsiLogic"))
    findings = study_report(Analyses(history(the_study), Watched(finals(the_study)))).findings
    found = {finding.topic: finding.text for finding in findings}
    assert re.findall(r"vit, (\w+): acted", found["Mechanism"]) == ["PsiLogic", "O1", "O3", "O4"]
    assert found["Mechanism"].endswith("4 other arms have one: see mechanism.csv.")


def test_significant_only_before_the_correction_is_named(tmp_path):
    the_study = study(("vit",))
    ours, theirs = [0.50, 0.52, 0.54], [0.46, 0.47, 0.47]
    findings = said(write(tmp_path, the_study, {"PsiLogic": ours, "AdamW": theirs, "Lion": NOISY}))
    assert "better in 0" in findings["Verdicts"]
    assert "vit against AdamW" in findings["Before correction"]


def test_incomplete_study_has_a_banner_with_counts(tmp_path):
    scores = {"PsiLogic": [0.9, "diverged", "failed"], "AdamW": [None, 0.5, 0.5]}
    report = write(tmp_path, scores=scores)
    banner = "INCOMPLETE: of 12 trials known to be needed, 1 missing and 1 failed."
    assert flagged(report)["incomplete"] == banner
    text = " ".join(page(tmp_path).text)
    assert banner in text
    assert "failed, RuntimeError: no <luck>" in text
    assert "detected at step 5" in text
    assert "1 trial diverged (1 reported)" in flagged(report)["diverged trials"]
    assert report.source.results.failed == 1


def test_unequal_conditions_are_named(tmp_path):
    report = write(tmp_path, batches={("AdamW", 2): sha("another order")})
    assert "UNEQUAL CONDITIONS" in flagged(report)["unequal conditions"]
    assert "in vit final seed 2." in flagged(report)["unequal conditions"]
    assert "DIFFER" in page(tmp_path).text


@pytest.mark.parametrize(("stage", "seed"), [("sweep", 0), ("final", 3)])
def test_trials_that_agree_with_each_other_but_not_with_a_clean_process_are_named(tmp_path, stage, seed):
    the_study = study(("vit",))
    clean = the_study.arenas["vit"]
    other = replace(clean, starts={**clean.starts, str(seed): sha("as it should be")})
    report = write(tmp_path, replace(the_study, arenas={"vit": other}))
    assert f"differ between trials in vit {stage} seed {seed}." in flagged(report)["unequal conditions"]


def test_selected_rate_at_the_edge_is_named(tmp_path):
    sweeps = {("vit", "AdamW"): {1e-2: 0.7, 0.1: 0.8}}
    flag = flagged(write(tmp_path, study(("vit",), ("AdamW", "PsiLogic"), budget=4), sweeps=sweeps))["rate at the edge"]
    assert "vit AdamW (highest, 0.1) (1 of 2 arms)" in flag
    assert "A rate beyond might be better." in " ".join(page(tmp_path).text)


def test_tables_that_a_suite_asks_for(tmp_path):
    asked = study(("vit",), ("AdamW", "Lion", "PsiLogic"), compare=EVERY_PAIR, controls=["AdamW", "PsiLogic"])
    report = write(tmp_path, asked, {"PsiLogic": HIGH, "AdamW": LOW, "Lion": NOISY})
    extra = {"ranking.csv", "causes.csv"}
    latex = {f"tables/{name}.tex" for name in ("ranking", "causes")}
    assert {name for name in contents(tmp_path) if not name.startswith("figures/")} >= TABLES | extra | latex
    assert {str(file.relative_to(tmp_path)) for file in report.files} == set(contents(tmp_path))
    in_vit = [row["optimizer"] for row in rows(tmp_path, "ranking") if row["arena"] == "vit"]
    assert in_vit == ["PsiLogic", "Lion", "AdamW"]
    (rung, whole) = rows(tmp_path, "causes")
    assert float(rung["contribution"]) == float(whole["contribution"]) == pytest.approx(0.4)
    assert said(report)["Causes"].startswith("vit: PsiLogic +0.400 ")
    assert report.title == "fabricated: every pair of AdamW, Lion, PsiLogic"
    assert "Lion against AdamW" in " ".join(page(tmp_path).text)
    text = io.StringIO()
    Console(file=text, width=100).print(report, crop=False)
    assert re.search(r"vit +AdamW +PsiLogic +worse", text.getvalue())
    assert re.search(r"vit +Lion +AdamW +inconclusive", text.getvalue())


NOTHING = {"PsiLogic": [None] * 3, "AdamW": [None] * 3}
NO_SWEEP = {("vit", name): {1e-4: None, 1e-3: None, 1e-2: None} for name in ("AdamW", "PsiLogic")}


@pytest.mark.parametrize(
    "options",
    [
        {"scores": NOTHING},
        {"scores": NOTHING, "sweeps": NO_SWEEP},
        {"scores": {"PsiLogic": ["failed"] * 3, "AdamW": ["diverged"] * 3}},
        {"sweeps": {("vit", "AdamW"): dict.fromkeys((1e-5, 1e-4, 1e-3, 1e-2), "diverged")}},
        {"sweeps": {("vit", "AdamW"): {1e-3: "failed"}}},
        {"quantities": None},
        {"the_study": study(("vit",), ("PsiLogic",))},
        {"the_study": study(("vit",), ("AdamW", "PsiLogic"), seeds=(1,)), "scores": {"PsiLogic": [1.0]}},
    ],
    ids=str,
)
def test_missing_pieces(tmp_path, options, figures):
    if options.get("the_study") and "scores" not in options:
        options = {**options, "scores": {"PsiLogic": HIGH}}
    report = write(tmp_path, **options)
    assert set(contents(tmp_path)) >= TABLES | {"report.html"}
    assert not [c for c in report.source.comparisons if c.verdict == "better" and c.p is None]
    assert "nan" not in (tmp_path / "significance.csv").read_text()
    page(tmp_path)


def test_terminal(tmp_path):
    text = io.StringIO()
    Console(file=text, width=80).print(write(tmp_path), crop=False)
    assert re.search(r"vit +AdamW +better +\+0\.400 \[\+0\.\d+, \+0\.\d+\] +0\.00021", text.getvalue())
    assert "report.html" in text.getvalue()
    assert "fairbench audit" not in text.getvalue()


def test_files_of_an_earlier_report_are_removed_and_no_others(tmp_path):
    """A failed trial gives `tables/lost.tex`; once it has been repeated, only the user's file of that kind is left."""
    write(tmp_path, scores={"PsiLogic": ["failed", 0.9, 0.9], "AdamW": LOW})
    (tmp_path / "tables/mine.tex").write_text("mine")
    assert (tmp_path / "tables/lost.tex").exists()
    write(tmp_path)
    assert not (tmp_path / "tables/lost.tex").exists()
    assert (tmp_path / "tables/mine.tex").read_text() == "mine"
    assert {*contents(tmp_path)} == {*(tmp_path / "report_files.txt").read_text().splitlines(), "tables/mine.tex"}


def test_a_suite_that_selects_on_the_test_split_never_says_validation(tmp_path):
    """Neither in a text nor in a file: it has read the test split alone."""
    suite = {"breaks": ["split"], "arenas": ("vit",), "optimizers": ("AdamW", "PsiLogic")}
    write(tmp_path, study(**suite))
    text = " ".join(page(tmp_path).text)
    assert "Selected on the test split by the same rule" in text
    assert "validation" not in text.lower()
    assert "Neither the test split" not in text
    assert {row["split"] for row in rows(tmp_path, "steps")} == {"train", "test"}
    assert {row["split"] for row in rows(tmp_path, "lr_sweep")} == {"test"}
    assert {(row["val"], row["test"]) for row in rows(tmp_path, "summary") if row["metric"] == "accuracy"} == {
        ("", str(score)) for score in (*HIGH, *LOW)
    }


def test_the_terminal_counts_notes(tmp_path):
    text = io.StringIO()
    the_study = study(("vit",), ("AdamW", "PsiLogic"), settings=3)
    report = write(tmp_path, the_study, {"PsiLogic": LOW, "AdamW": LOW}, apart=0.05, shared=True)
    Console(file=text, width=300).print(report)
    assert text.getvalue().startswith(f"1 note; fairbench audit {tmp_path} shows them\n")
    assert "AdamW 3 of 3 trials, which are not part of any cost" in " ".join(page(tmp_path).text)


@pytest.mark.usefixtures("figures")
@pytest.mark.parametrize("name", ["An optimizer whose name has forty-four letters", r"$\frac$ & <c>", "+groups"])
def test_any_name_gets_all_tables_and_figures(tmp_path, name):
    the_study = study(("vit",), ("AdamW", name, "PsiLogic"))
    write(tmp_path, the_study)
    assert all((tmp_path / "figures" / f"{figure}.svg").stat().st_size for figure in FIGURES)
    assert {row["optimizer"] for row in rows(tmp_path, "summary")} == {"AdamW", name, "PsiLogic"}


def test_tables_are_written_before_figures(tmp_path, monkeypatch):
    def broken(analyses):
        raise RuntimeError("no ink")

    monkeypatch.setattr("fairbench.report.study.draw_figures", broken)
    with pytest.raises(RuntimeError, match="no ink"):
        write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*TABLES, *DATA}
