"""A study compared with the paper: comparisons by hand, values that one side lacks, and the command."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from statistics import mean, stdev
from typing import Any

import pytest
from csv_columns import rows_of
from fabricated import Records, analysed, finals, saved, study, sweep, with_suite
from pages import printed
from scipy import stats

from fairbench.analysis.comparison.interim_analyses import judge_interim_analyses
from fairbench.analysis.published.publication import load_publication
from fairbench.analysis.published.replicated_values import gaps, is_inside, value_rows
from fairbench.analysis.published.replicated_verdicts import Judgement, agree, verdict_rows
from fairbench.report.page import write_document
from fairbench.report.replication import replicated
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.suites.loader import load_suite
from fairbench.suites.stages import Sweep

PAPER = load_publication("paper")
SHORT = "at learning rates that only short trials selected"
"""The note of studies without a search at the reported length."""


def judged(the_study, *cases, **scores):
    """Results and verdicts of records that score so."""
    interim_analyses = judge_interim_analyses(the_study, Records(the_study, *cases, **scores))
    return interim_analyses.results, interim_analyses.comparisons


def row_of(rows, **where):
    """The one row with these values."""
    found = rows
    for name, value in where.items():
        found = [row for row in found if getattr(row, name) == value]
    (row,) = found
    return row


def test_inside_is_decided_in_the_digits_that_are_printed():
    mean = Decimal("2.101")
    std = Decimal("0.010")
    assert is_inside(2.111, mean, std)  # in binary 2.111 - 2.101 > 0.010
    assert is_inside(2.091, mean, std)
    assert not is_inside(2.1111, mean, std)
    assert not is_inside(2.09, mean, std)


def test_agreement():
    better = Judgement("better", True)
    worse = Judgement("worse", True)
    perhaps_better = Judgement("better", False)
    perhaps_worse = Judgement("worse", False)
    assert agree(better, better)
    assert agree(perhaps_better, perhaps_worse)
    assert not agree(better, worse)
    assert not agree(better, perhaps_better)
    assert not agree(perhaps_better, better)


def test_values():
    """The paper has in vit 0.244 +- 0.006 for PsiLogic, 0.223 +- 0.002 for AdamW; in gpt a loss of 2.053 +- 0.023."""
    the_study = study(optimizers=("AdamW", "PsiLogic"))
    in_gpt = finals(arena="gpt", optimizer="PsiLogic", scores=[2.0, 2.1, 2.3])
    results, _ = judged(the_study, in_gpt, PsiLogic=[0.23, 0.24, 0.25], AdamW=[0.22, 0.22, 0.223])
    rows = value_rows(PAPER, results)
    assert len(rows) == 20 + 12

    row = row_of(rows, arena="vit", optimizer="PsiLogic", seed="")
    assert row.place == "Table 2"
    assert row.published_mean == Decimal("0.244")
    assert row.published_std == Decimal("0.006")
    assert row.our_mean == pytest.approx(0.24)
    assert row.our_std == pytest.approx(0.01)
    assert row.difference == pytest.approx(-0.004)
    assert row.n == 3
    assert row.inside is True
    assert row_of(rows, arena="vit", optimizer="AdamW", seed="").inside is True  # 0.221, the lowest that is inside

    loss = row_of(rows, metric="loss", optimizer="PsiLogic")
    assert loss.our_mean == pytest.approx(6.4 / 3)
    assert loss.inside is False
    perplexity = row_of(rows, metric="perplexity", optimizer="PsiLogic")
    perplexities = [math.exp(2.0), math.exp(2.1), math.exp(2.3)]
    assert perplexity.our_mean == pytest.approx(mean(perplexities))
    assert perplexity.our_std == pytest.approx(stdev(perplexities))


def test_a_loss_that_no_perplexity_can_hold_is_no_error():
    the_study = study(("gpt",), ("AdamW", "PsiLogic"))
    results, comparisons = judged(the_study, PsiLogic=[1.0, 2.0, 1e4], AdamW=[1e3, 1e4, 3.0])
    value = row_of(value_rows(PAPER, results), metric="perplexity", optimizer="PsiLogic")
    assert math.isfinite(value.our_std)
    verdict = row_of(verdict_rows(PAPER, results, comparisons), metric="perplexity", baseline="AdamW")
    assert 0 < verdict.our_p < 1


def test_verdicts():
    """In vit the paper finds PsiLogic significantly better than AdamW and Lion; here it is worse than Lion."""
    the_study = study(("vit",), seeds=(1, 2, 3, 4))
    scores = {
        "PsiLogic": [0.50, 0.52, 0.51, 0.51],
        "AdamW": [0.40, 0.41, 0.42, 0.41],
        "Lion": [0.60, 0.61, 0.62, 0.61],
    }
    rows = verdict_rows(PAPER, *judged(the_study, **scores))
    assert len(rows) == 15
    adamw = row_of(rows, arena="vit", baseline="AdamW")
    assert adamw.published_mark == "*"
    assert adamw.published_p == Decimal("0.015")
    by_scipy = stats.ttest_ind(scores["PsiLogic"], scores["AdamW"], equal_var=False)
    assert adamw.our_p == pytest.approx(by_scipy.pvalue)
    assert adamw.published_direction == "better"
    assert adamw.published_significant is True
    assert adamw.agree is True
    assert adamw.holm == f"better ({SHORT})"
    lion = row_of(rows, arena="vit", baseline="Lion")
    assert lion.our_direction == "worse"
    assert lion.our_significant is True
    assert lion.agree is False
    assert lion.holm == f"worse ({SHORT})"
    assert row_of(rows, arena="ddpm", baseline="Lion").note == "no ddpm in the study"


def test_verdicts_before_the_correction_and_of_metrics_that_are_not_primary():
    """In gpt the paper calls the same difference significant as perplexity, and not as loss."""
    the_study = study(optimizers=("AdamW", "Lion", "PsiLogic"), seeds=(1, 2, 3, 4))
    scores = {
        "PsiLogic": [0.50, 0.52, 0.54, 0.52],
        "AdamW": [0.58, 0.56, 0.55, 0.53],
        "Lion": [0.3, 0.5, 0.9, 0.5],
    }
    rows = verdict_rows(PAPER, *judged(the_study, **scores))
    loss = row_of(rows, metric="loss", baseline="AdamW")
    assert loss.our_p < 0.05
    assert loss.agree is False
    assert loss.holm == f"inconclusive ({SHORT})"
    assert loss.published_p == Decimal("0.054")
    perplexity = row_of(rows, metric="perplexity", baseline="AdamW")
    assert perplexity.agree is True
    assert perplexity.holm is None


def test_arms_that_are_not_complete_are_not_tested():
    the_study = study(("vit",), ("Adam", "AdamW", "PsiLogic"))
    scores = {"PsiLogic": [0.5, 0.6, 0.7], "AdamW": [0.2, "diverged", None], "Adam": [0.1] * 3}
    results, comparisons = judged(the_study, **scores)
    row = row_of(verdict_rows(PAPER, results, comparisons), arena="vit", baseline="AdamW")
    assert (row.our_p, row.our_direction, row.agree) == (None, None, None)
    assert (row.note, row.holm) == ("AdamW finished 1 of 3 seeds", "incomplete (AdamW missing 1/3)")
    value = row_of(value_rows(PAPER, results), arena="vit", optimizer="AdamW", seed="")
    assert (value.our_mean, value.our_std, value.n) == (0.2, None, 1)


def test_arms_that_do_not_vary_have_no_test():
    the_study = study(("vit",), ("Adam", "AdamW", "PsiLogic"))
    scores = {"PsiLogic": [0.5] * 3, "AdamW": [0.4] * 3, "Adam": [0.5] * 3}
    rows = verdict_rows(PAPER, *judged(the_study, **scores))
    differing = row_of(rows, arena="vit", baseline="AdamW")
    assert differing.agree is None
    assert differing.note == "every seed gives the same value, no test"
    same = row_of(rows, arena="vit", baseline="Adam")
    assert same.our_p == 1.0
    assert same.our_direction == "equal"
    assert same.agree is False


def test_gaps_are_listed():
    the_study = study(optimizers=("AdamW", "Sign", "PsiLogic"))
    results, _ = judged(the_study)
    assert gaps(PAPER, results) == [
        "arenas missing in the study: ddpm, resnet",
        "optimizers missing in the study: Adam, Lion",
        "optimizers that were not published: Sign",
        "metrics that were not published: gpt bits_per_byte, vit loss",
    ]


def of_suite(name, suite):
    """A study in vit with the settings of an included suite."""
    base = study(("vit",), list(suite.optimizers), suite.final.seeds)
    in_vit = replace(suite, name=f"{name} again", arenas={"vit": suite.arenas["vit"]})
    return replace(base, suite=in_vit)


@dataclass(frozen=True)
class Said:
    """A study of which a comparison with the paper says something; `scores` are by optimizer and seed."""

    name: str
    study: ResolvedSuite
    scores: Mapping[str, Sequence[Any]] = field(default_factory=dict)


OTHER_SETTINGS = Said(
    name="other settings",
    study=study(("vit",)),
    scores={"PsiLogic": [0.244, 0.245, 0.246], "AdamW": [0.222, 0.223, 0.224], "Lion": [0.3, 0.5, None]},
)
DIVERGED = Said(
    name="disagreement and divergence",
    study=study(("vit",)),
    scores={"PsiLogic": [0.2, 0.3, 0.4], "AdamW": [0.25, 0.35, 0.45], "Lion": [0.3, "diverged", 0.5]},
)
PAPER_RENAMED = Said(
    name="the suite paper under another name",
    study=of_suite("paper", load_suite("paper")),
)
CPU_RENAMED = Said(
    name="the suite paper-cpu under another name",
    study=of_suite("paper-cpu", load_suite("paper-cpu")),
)


def test_what_a_comparison_with_the_paper_says(tmp_path, check_files):
    """Settings are compared and not names: small models under the name of the paper do not have the paper's."""
    said = []
    for case in (OTHER_SETTINGS, DIVERGED, PAPER_RENAMED, CPU_RENAMED):
        compared = replicated(PAPER, analysed(case.study, **case.scores))
        said.append(f"== {case.name} ==")
        said += [flag.text for flag in compared.flags if flag.name in ("other settings", "incomplete")]
        said += [f"{topic}: {text}" for topic, text in compared.findings.items()]
        said.append("")
    (tmp_path / "says.txt").write_text("\n".join(said))
    check_files("replication", tmp_path / "says.txt")


@pytest.mark.parametrize("width", [30, 80, 140])
def test_terminal(tmp_path, width):
    replication = replicated(PAPER, analysed(study()))
    write_document(replication, tmp_path)
    shown = printed(replication, width=width)
    assert "gpt" in shown
    assert "resnet   " not in shown
    assert "comparison_paper.csv" in shown


NONE_FINISHED = {"AdamW": [None] * 3, "Lion": ["failed"] * 3, "PsiLogic": ["diverged"] * 3}


@pytest.mark.parametrize("scores", [{}, NONE_FINISHED])
def test_the_command(tmp_path, command, scores):
    """A directory as a run leaves it, of a study with equal scores and of one without any."""
    the_study = study()
    saved(tmp_path, the_study, Records(the_study, **scores))
    command("compare", str(tmp_path), "--output-dir", str(tmp_path / "elsewhere"))
    assert "OTHER SETTINGS" in command("compare", str(tmp_path), "paper")
    for name, count in (
        ("comparison_paper.csv", 32),
        ("comparison_paper_verdicts.csv", 15),
        ("comparison_paper_cost.csv", 16),
    ):
        assert (tmp_path / name).read_bytes() == (tmp_path / "elsewhere" / name).read_bytes()
        text = (tmp_path / name).read_text()
        assert len(rows_of(text)) == count
        assert "nan" not in text


def test_the_files(tmp_path, check_files):
    """Single seeds have no spread, rates are compared as they are printed, and what one side lacks is empty."""
    the_study = with_suite(study(("vit",)), sweep=Sweep(1e-4, 1e-2, [0], 1, points=5, budget=6))
    records = Records(
        the_study,
        sweep(optimizer="PsiLogic", lr=0.000316228, outcome=0.6),
        sweep(optimizer="Lion", lr=1e-4, outcome=0.6),
        sweep(optimizer="Lion", lr=3.16228e-5, outcome=0.5),
        PsiLogic=[0.25, 0.26, 0.27],
    )
    write_document(replicated(PAPER, analysed(the_study, records)), tmp_path)
    check_files("replication", tmp_path / "comparison_paper.csv", tmp_path / "comparison_paper_cost.csv")
