"""Anyone's table is judged as scipy and statsmodels judge its numbers, and as a study with these values."""

import csv

import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from fairbench.analysis.published.user_table import table_comparisons
from fairbench.cli.main import main
from fairbench.common.errors import UsageError

VALUES = {
    ("gpt", "Mine"): (1.50, 1.52, 1.49, 1.55),
    ("gpt", "AdamW"): (1.60, 1.64, 1.59, 1.66),
    ("gpt", "+Lion"): (1.51, 1.53, 1.47, 1.56),
    ("vit", "Mine"): (0.61, 0.60, 0.66, 0.64),
    ("vit", "AdamW"): (0.60, 0.55, 0.57, 0.58),
    ("vit", "+Lion"): (0.64, 0.60, 0.66, 0.61),
}
BETTER = {"gpt": "lower", "vit": "higher"}


@pytest.fixture
def by_seed(tmp_path):
    rows = [(*arm, seed, x, BETTER[arm[0]]) for arm, values in VALUES.items() for seed, x in enumerate(values)]
    return write(tmp_path / "by_seed.csv", "arena,optimizer,seed,value,better", *rows)


def write(path, head, *rows):
    with path.open("w", encoding="utf-8-sig", newline="") as file:  # as spreadsheets write it
        csv.writer(file).writerows([head.split(","), *rows])
    return path


def test_the_tests_are_those_of_scipy_and_statsmodels(by_seed):
    judged = table_comparisons(by_seed)
    assert [(c.arena, c.optimizer, c.baseline) for c in judged] == [
        (arena, "Mine", baseline) for arena in BETTER for baseline in ("AdamW", "+Lion")
    ]
    tests = [stats.ttest_rel(VALUES[c.arena, "Mine"], VALUES[c.arena, c.baseline]) for c in judged]
    assert {c.test for c in judged} == {"paired"}
    assert_judged_by(judged, tests, [True, False, False, False])


def assert_judged_by(judged, tests, won):
    """The comparisons are those of scipy's tests, with the correction of statsmodels."""
    assert [c.p for c in judged] == pytest.approx([test.pvalue for test in tests])
    rejected, corrected, *_ = multipletests([test.pvalue for test in tests], method="holm")
    assert [c.p_holm for c in judged] == pytest.approx(corrected)
    assert [c.verdict == "better" for c in judged] == [*rejected] == won
    sign = [-1 if BETTER[c.arena] == "lower" else 1 for c in judged]
    ends = [sorted(s * x for x in test.confidence_interval()) for s, test in zip(sign, tests, strict=True)]
    assert [x for c in judged for x in (c.ci_low, c.ci_high)] == pytest.approx([x for pair in ends for x in pair])


def test_means_and_standard_deviations_are_judged_by_welchs_test(by_seed, tmp_path):
    summaries = [(*arm, len(x), stats.tmean(x), stats.tstd(x), BETTER[arm[0]]) for arm, x in VALUES.items()]
    table = write(tmp_path / "summaries.csv", "arena,optimizer,n,mean,std,better", *summaries)
    of_seeds, of_summaries = table_comparisons(by_seed), table_comparisons(table)
    tests = [
        stats.ttest_ind(VALUES[c.arena, "Mine"], VALUES[c.arena, c.baseline], equal_var=False) for c in of_summaries
    ]
    assert_judged_by(of_summaries, tests, [True, False, False, False])
    assert {c.test for c in of_summaries} == {"welch"}
    for name in ("arena", "baseline", "gain", "hedges_g", "seeds"):
        expected = [getattr(c, name) for c in of_seeds]
        assert [getattr(c, name) for c in of_summaries] == pytest.approx(expected), name
    assert [c.p for c in of_summaries] == pytest.approx([c.p_other for c in of_seeds])


def test_a_smaller_family_another_reference_and_direction(by_seed):
    gpt, vit = table_comparisons(by_seed, optimizer="AdamW", baselines=["Mine"], better="higher")
    assert (gpt.verdict, gpt.baseline, vit.baseline) == ("better", "Mine", "Mine")
    assert [gpt.p_holm, vit.p_holm] == pytest.approx(multipletests([gpt.p, vit.p], method="holm")[1])


def test_lost_seeds_give_no_test(tmp_path, capsys):
    rows = [("gpt", "Mine", 1, 1.5), ("gpt", "Mine", 2, 1.6), ("gpt", "AdamW", 1, "diverged"), ("gpt", "AdamW", 2, 1.5)]
    rows += [("gpt", "Lion", 1, 1.5), ("vit", "Mine", 1, 1.0), ("vit", "Lion", 1, 1.0)]
    table = write(tmp_path / "lost.csv", "arena,optimizer,seed,value", *rows)
    judged = table_comparisons(table, better="lower")
    assert [c.statement for c in judged] == [
        "diverged (AdamW diverged 1/2)",
        "incomplete (Lion missing 1/2)",
        "identical values (in every seed)",
    ]
    assert main(["verdicts", str(table), "--better", "lower"]) == 0
    shown = capsys.readouterr().out
    assert all(c.statement in shown for c in judged)
    assert "Mine is better in 0 of 3 comparisons at 0.05" in shown


HEAD = "arena,optimizer,seed,value"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("arena,optimizer,value\n", "t.csv must have the columns arena, optimizer, seed, value or arena, optimizer, m"),
        ("", "t.csv must have the columns .* it has none"),
        (HEAD, "t.csv has no rows; add one for each seed or arm"),
        (f"{HEAD}\na,X,1,good", "t.csv, line 2: value must be a number or 'diverged', got 'good'"),
        (f"{HEAD}\na,X,1,1\na,X,1,2", "t.csv, line 3: seed 1 of X has a value already; keep one"),
        (f"{HEAD}\na,X,1,1,5", "t.csv, line 2: must have 4 cells, as the first line"),
        (f"{HEAD}\na,X,1", "t.csv, line 2: must have 4 cells, as the first line"),
        (f"{HEAD}\na,X,1,1", "X shares no arena with another optimizer; add rows, or --optimizer"),
        (f"{HEAD}\na,X,1,1\na,Y,1,1", "t.csv, line 2: which values are better. Give --better lower or higher"),
        (f"{HEAD},better\na,X,1,1,up\na,Y,1,1,up", "t.csv, line 2: better must be lower or higher, got 'up'"),
        (f"{HEAD},better\na,X,1,1,lower\na,Y,1,1,higher", "t.csv, line 3: better must be the same in all rows of"),
        ("arena,optimizer,mean,std,n\na,X,1,-1,3", "line 2: n must be at least 1, .* std finite and not negative"),
        ("arena,optimizer,mean,std,n\na,X,1,1,2.5", "t.csv, line 2: n must be a whole number, got '2.5'"),
        ("arena,optimizer,mean,std,n\na,X,1,1,2\na,X,1,1,2", "t.csv, line 3: X has a row already; keep one"),
    ],
)
def test_mistakes_in_a_table_are_named_with_their_line(tmp_path, text, complaint):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UsageError, match=complaint):
        table_comparisons(tmp_path / "t.csv")


def test_names_that_a_table_lacks_and_a_file_that_is_absent(by_seed):
    with pytest.raises(UsageError, match=r"unknown optimizer of by_seed.csv 'Min'; did you mean 'Mine'"):
        table_comparisons(by_seed, optimizer="Min")
    with pytest.raises(UsageError, match=r"absent.csv cannot be read: .*; give a CSV file in UTF-8"):
        table_comparisons(by_seed.with_name("absent.csv"))
