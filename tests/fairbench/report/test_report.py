"""The derived files: their contents by hand, their bytes twice, and no crash on what is missing."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from csv_columns import column
from disturbed import TIMED, holds_times
from fabricated import (
    EVERY_PAIR,
    finals,
    recorded,
    seconds,
    study,
    sweep,
    timing,
    with_horizons,
    with_suite,
)
from pages import printed
from written_reports import HIGH, LOW, NOISY, TWO, contents, page, rows, text_of, write, written_by

from fairbench.arenas.base import ArenaFacts
from fairbench.study.resolved_suite import ResolvedSuite

ALWAYS = ("lr_sweep", "steps", "summary", "aggregate", "significance", "mechanism", "cost", "tuning")
TABLES = {f"{name}.csv" for name in ALWAYS}
DATA = {"records.parquet", "datapackage.json"}
FIGURES = (
    "leaderboard",
    "learning_curves",
    "learning_gains",
    "lr_sensitivity",
    "mechanism",
    "step_time",
    "training_loss",
)
LATEX = (
    "main",
    "audit",
    "verdicts",
    "comparisons",
    "metrics",
    "learning_rates",
    "mechanism",
    "quantities",
    "cost",
    "equal_time",
    "budget",
    "tuning",
    "treatment",
    "arenas",
    "optimizers",
    "environment",
)
FILES = {*TABLES, *DATA, "report.html", "report_files.txt"}
FILES |= {f"tables/{name}.tex" for name in LATEX}
for ending in ("pdf", "png", "svg"):
    FILES |= {f"figures/{name}.{ending}" for name in FIGURES}
ADAMW = ("vit", "AdamW", "accuracy")
PSILOGIC = ("vit", "PsiLogic", "accuracy")
HEAD = ("At the default", "Best of 1", "Best of 2", "Best of 4", "Best of all")


@pytest.fixture
def figures():
    """For the tests that need figures."""


@pytest.fixture(autouse=True)
def no_other_figures(request, monkeypatch):
    """Drawing takes most of a report's time."""
    if "figures" not in request.fixturenames:
        monkeypatch.setattr("fairbench.report.study.draw_figures", lambda *_: [])


@pytest.mark.parametrize("forms", ["figures", pytest.param("usual_figures", marks=pytest.mark.soak)])
def test_two_reports_of_the_same_records_are_the_same_bytes_without_a_date(tmp_path, request, figures, forms):
    """The vectors in every run; in `make soak` also what matplotlib makes of them."""
    request.getfixturevalue(forms)
    report = write(tmp_path / "a")
    write(tmp_path / "b")
    assert set(contents(tmp_path / "a")) == FILES
    assert written_by(report, tmp_path / "a") == FILES
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    for name in FIGURES:
        text = (tmp_path / f"a/figures/{name}.svg").read_text()
        ElementTree.fromstring(text)
        assert "dc:date" not in text
        png = (tmp_path / f"a/figures/{name}.png").read_bytes()
        assert b"matplotlib" not in png.lower()


def test_the_files_that_depend_on_the_clock_are_those_that_the_readme_names(tmp_path, figures):
    """In a study with every file that has times: with horizons and a leaderboard of three optimizers."""
    three = with_horizons(study(compare=EVERY_PAIR), 0.5, 2)
    for folder, speed in (("a", 1.0), ("b", 3.7)):
        times = recorded({"cost.seconds": seconds(speed)}, optimizer="PsiLogic")
        write(tmp_path / folder, three, {"PsiLogic": HIGH, "AdamW": LOW, "Lion": HIGH}, [timing(), times])
    one = contents(tmp_path / "a")
    other = contents(tmp_path / "b")
    assert one.keys() == other.keys()
    differing = {Path(name) for name in one if one[name] != other[name]}
    assert differing == {Path(name) for name in one if holds_times(Path(name))}
    for pattern in TIMED:
        is_of_variants = "pair_times" in pattern
        assert is_of_variants or any(file.match(pattern) for file in differing)


def test_the_csv_files_of_trials(tmp_path, check_files):
    """The best of AdamW lies at the edge, so that a rate beyond it is tried; PsiLogic's lies inside."""
    two = study(("vit",), ("AdamW", "PsiLogic"), budget=4)
    scores = {"PsiLogic": [0.9, "diverged", None], "AdamW": ["failed", 0.5, 0.6]}
    at_the_edge = sweep(optimizer="AdamW", lr=1e-2, outcome=0.7)
    beyond = sweep(optimizer="AdamW", lr=0.1, outcome="diverged")
    write(tmp_path, two, scores, [at_the_edge, beyond, timing()])
    names = ("lr_sweep.csv", "steps.csv", "summary.csv", "mechanism.csv", "cost.csv")
    check_files("report", *map(tmp_path.joinpath, names))
    even = ("0.001", "0.5000 (1.5)")
    assert page(tmp_path).tables["tuning"] == [
        ["Arena", "Optimizer", "Metric", "Default rate", *HEAD, "Settings", "Diverged", "Gain"],
        [*ADAMW, *even, "0.5000 (1)", "0.5625 (1)", "0.6305 (1)", "0.7000 (1)", "4", "25%", "+0.200"],
        [*PSILOGIC, *even, "0.4250 (2)", "0.4438 (2)", "0.4684 (2)", "0.5000 (2)", "4", "0%", "0.000"],
    ]


def test_aggregate(tmp_path):
    write(tmp_path, scores={"PsiLogic": [1.0, 2.0, 4.0], "AdamW": [0.5, "diverged", "failed"]})
    of_accuracy = {row["optimizer"]: row for row in rows(tmp_path, "aggregate") if row["metric"] == "accuracy"}
    ours = of_accuracy["PsiLogic"]
    theirs = of_accuracy["AdamW"]
    assert float(ours["mean"]) == pytest.approx(7 / 3)
    assert float(ours["std"]) == pytest.approx(math.sqrt(7 / 3))  # squares 16/9 + 1/9 + 25/9 = 42/9, halved
    assert (ours["split"], ours["n"], ours["diverged"]) == ("test", "3", "0")
    names = ("mean", "std", "n", "diverged", "failed", "missing")
    assert [theirs[name] for name in names] == ["0.5", "", "1", "1", "1", "0"]


def test_tables_that_a_suite_asks_for(tmp_path):
    asked = study(("vit",), ("AdamW", "Lion", "PsiLogic"), compare=EVERY_PAIR, controls=["AdamW", "PsiLogic"])
    report = write(tmp_path, asked, {"PsiLogic": HIGH, "AdamW": LOW, "Lion": NOISY})
    files = set(contents(tmp_path))
    assert files >= {"ranking.csv", "causes.csv", "tables/ranking.tex", "tables/causes.tex"}
    assert files >= TABLES
    assert files == written_by(report, tmp_path)
    in_vit = [row["optimizer"] for row in rows(tmp_path, "ranking") if row["arena"] == "vit"]
    assert in_vit == ["PsiLogic", "Lion", "AdamW"]
    ablation_step, whole = rows(tmp_path, "causes")
    assert float(ablation_step["contribution"]) == float(whole["contribution"]) == pytest.approx(0.4)
    assert report.findings["Causes"].startswith("vit: PsiLogic +0.400 ")
    assert report.title == "fabricated: every pair of AdamW, Lion, PsiLogic"
    assert "Lion against AdamW" in text_of(tmp_path)
    text = printed(report, width=100)
    assert re.search(r"vit +AdamW +PsiLogic +worse", text)
    assert re.search(r"vit +Lion +AdamW +inconclusive", text)


NOTHING = {"PsiLogic": [None] * 3, "AdamW": [None] * 3}


@dataclass(frozen=True)
class Missing:
    """A study that lacks something, and otherwise that of `write`."""

    what: str
    study: ResolvedSuite | None = None
    scores: Mapping[str, Sequence[Any]] | None = None
    cases: Sequence[Any] = ()


NO_FINALS = Missing("finals", scores=NOTHING)
NO_TRIALS = Missing("everything", scores=NOTHING, cases=[sweep(outcome=None)])
NONE_FINISHED = Missing("finished trials", scores={"PsiLogic": ["failed"] * 3, "AdamW": ["diverged"] * 3})
NO_RATES = Missing("rates", cases=[sweep(optimizer="AdamW", outcome="diverged")])
NO_RATE = Missing("a rate", cases=[sweep(optimizer="AdamW", lr=1e-3, outcome="failed")])
NO_MECHANISM = Missing("a mechanism", cases=[recorded({"details.mechanism": None})])
NO_BASELINE = Missing("a baseline", study=study(("vit",), ("PsiLogic",)), scores={"PsiLogic": HIGH})
ONE_SEED = Missing("seeds", study=study(("vit",), TWO, seeds=(1,)), scores={"PsiLogic": [1.0]})
MISSING = (NO_FINALS, NO_TRIALS, NONE_FINISHED, NO_RATES, NO_RATE, NO_MECHANISM, NO_BASELINE, ONE_SEED)


@pytest.mark.parametrize("missing", MISSING, ids=lambda missing: missing.what)
def test_missing_pieces(tmp_path, missing, figures):
    report = write(tmp_path, missing.study, missing.scores, missing.cases)
    assert set(contents(tmp_path)) >= TABLES | {"report.html"}
    for comparison in report.source.comparisons:
        assert comparison.verdict != "better" or comparison.p is not None
    assert "nan" not in (tmp_path / "significance.csv").read_text()
    page(tmp_path)


def test_terminal(tmp_path):
    the_study = study(("vit",), TWO, seeds=(1, 2, 3, 4))
    text = printed(write(tmp_path, the_study, {"PsiLogic": [*HIGH, 0.91], "AdamW": [*LOW, 0.51]}), width=80)
    assert re.search(r"vit +AdamW +better \(at +\+0\.400 \[\+0\.\d+, \+0\.\d+\] 95% +< 0\.001", text)
    assert "report.html" in text
    assert "fairbench audit" not in text


def test_files_of_an_earlier_report_are_removed_and_no_others(tmp_path):
    """A failed trial gives `tables/lost.tex`; once it has been repeated, only the user's file of that kind is left."""
    write(tmp_path, scores={"PsiLogic": ["failed", 0.9, 0.9], "AdamW": LOW})
    (tmp_path / "tables/mine.tex").write_text("mine")
    assert (tmp_path / "tables/lost.tex").exists()
    write(tmp_path)
    assert not (tmp_path / "tables/lost.tex").exists()
    assert (tmp_path / "tables/mine.tex").read_text() == "mine"
    listed = (tmp_path / "report_files.txt").read_text().splitlines()
    assert set(contents(tmp_path)) == {*listed, "tables/mine.tex"}


def test_a_suite_that_selects_on_the_test_split_never_says_validation(tmp_path):
    """Neither in a text nor in a file: it has read the test split alone."""
    suite = {"breaks": ["split"], "arenas": ("vit",), "optimizers": ("AdamW", "PsiLogic")}
    write(tmp_path, study(**suite))
    text = text_of(tmp_path)
    assert "Selected on the test split by the same rule" in text
    assert "validation" not in text.lower()
    assert "Neither the test split" not in text
    assert set(column(rows(tmp_path, "steps"), "split")) == {"train", "test"}
    assert set(column(rows(tmp_path, "lr_sweep"), "split")) == {"test"}
    accuracies = [row for row in rows(tmp_path, "summary") if row["metric"] == "accuracy"]
    assert set(column(accuracies, "val")) == {""}
    assert set(column(accuracies, "test")) == set(map(str, HIGH + LOW))


def test_a_program_without_a_test_split_is_judged_on_validation_and_no_text_says_otherwise(tmp_path):
    """Its one split serves for the selection and for the verdict."""
    the_study = study(("vit",), ("AdamW", "PsiLogic"), breaks=["split"])
    facts = ArenaFacts("a program", the_study.suite.facts("vit").metrics, kind="program")
    model = {"program": "train {lr}", "own_length": False}
    program = replace(the_study.suite.arenas["vit"], facts=facts, model=model)
    the_study = with_suite(the_study, arenas={"vit": program})
    write(tmp_path, the_study)
    text = text_of(tmp_path)
    assert "Selected on the validation split by the same rule for every optimizer" in text
    assert "Final value on the validation split" in text
    assert "test split" not in text.lower().replace("values of a test split as well", "")


def test_the_terminal_counts_notes(tmp_path):
    the_study = study(("vit",), ("AdamW", "PsiLogic"), settings=3)
    worse = [score - 0.05 - 0.001 * seed for seed, score in enumerate(LOW)]
    other_rates = finals(scores=worse)
    selected = finals(lr=1e-3, scores=LOW)
    not_alone = recorded({"cost.alone": False})
    report = write(tmp_path, the_study, {}, [other_rates, selected, timing(), not_alone])
    assert printed(report).startswith(f"1 note; fairbench audit {tmp_path} shows them\n")
    assert "AdamW 5 of 5 timing trials, which are not part of any cost" in text_of(tmp_path)


def test_a_study_without_timing_trials_shows_no_time(tmp_path, figures):
    """Final trials observe a mechanism, and train at different times of day."""
    three = study(compare=EVERY_PAIR)
    slow = recorded({"cost.seconds": seconds(3.0)}, optimizer="PsiLogic")
    write(tmp_path, three, {"PsiLogic": HIGH, "AdamW": LOW, "Lion": HIGH}, [slow])
    tables = page(tmp_path).tables
    assert not {"cost", "equal_time"} & tables.keys()
    assert not {"Step time", "Training time"} & set(tables["leaderboard"][0])
    assert not (tmp_path / "figures/step_time.svg").exists()
    assert set(column(rows(tmp_path, "cost"), "train_ms")) == {""}
    assert set(column(rows(tmp_path, "cost"), "peak_memory_mb")) == {""}
    assert set(column(rows(tmp_path, "leaderboard"), "train_ratio")) == {""}
    assert "The same command with --timing adds short trials without observation" in text_of(tmp_path)


def test_tables_are_written_before_figures(tmp_path, monkeypatch):
    def broken(analyses):
        raise RuntimeError("no ink")

    monkeypatch.setattr("fairbench.report.study.draw_figures", broken)
    with pytest.raises(RuntimeError, match="no ink"):
        write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*TABLES, *DATA}
