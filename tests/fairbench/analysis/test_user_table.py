"""Anyone's table is judged as scipy and statsmodels judge its numbers, or refused with the choice that it leaves."""

import ast
import csv

import pytest
from scipy import stats

import fairbench as fb
from fairbench.common.errors import UsageError

GPT = {
    "Mine": (1.50, 1.52, 1.49, 1.55),
    "AdamW": (1.60, 1.64, 1.59, 1.66),
    "+Lion": (1.51, 1.53, 1.47, 1.56),
}
VIT = {
    "Mine": (0.61, 0.60, 0.66, 0.64),
    "AdamW": (0.60, 0.55, 0.57, 0.58),
    "+Lion": (0.64, 0.60, 0.66, 0.61),
}
VALUES = {"gpt": GPT, "vit": VIT}
"""The values of each optimizer by seed in two arenas."""
BETTER = {"gpt": "lower", "vit": "higher"}


def write(path, head, *rows):
    with path.open("w", encoding="utf-8-sig", newline="") as file:  # as spreadsheets write it
        writer = csv.writer(file)
        writer.writerow(head.split(","))
        writer.writerows(rows)
    return path


@pytest.fixture
def by_seed(tmp_path):
    rows = []
    for arena, arms in VALUES.items():
        for optimizer, values in arms.items():
            for seed, value in enumerate(values):
                rows.append((arena, optimizer, seed, value, BETTER[arena]))
    return write(tmp_path / "by_seed.csv", "arena,optimizer,seed,value,better", *rows)


@pytest.fixture
def by_mean(tmp_path):
    rows = []
    for arena, arms in VALUES.items():
        for optimizer, values in arms.items():
            mean = stats.tmean(values)
            std = stats.tstd(values)
            rows.append((arena, optimizer, len(values), mean, std, BETTER[arena]))
    return write(tmp_path / "summaries.csv", "arena,optimizer,n,mean,std,better", *rows)


def arms_of(comparison):
    """The values of the two arms of a comparison."""
    arms = VALUES[comparison.arena]
    return arms["Mine"], arms[comparison.baseline]


def holm(ps):
    """The corrected values of statsmodels, which takes a second to load, and whether each is significant."""
    from statsmodels.stats.multitest import multipletests

    rejected, corrected, *_ = multipletests(ps, method="holm")
    return list(rejected), corrected


def assert_judged_by(judged, tests):
    """The comparisons are those of scipy's tests, with the correction of statsmodels, and the first one is a win.

    The first interval has the level of the first step of Holm's correction, all others that of the second one.
    """
    ps = [test.pvalue for test in tests]
    assert [c.p for c in judged] == pytest.approx(ps)
    rejected, corrected = holm(ps)
    assert [c.p_holm for c in judged] == pytest.approx(corrected)
    assert rejected == [True, False, False, False]
    levels = [0.05 / 4, 0.05 / 3, 0.05 / 3, 0.05 / 3]
    for c, test, is_significant, level in zip(judged, tests, rejected, levels, strict=True):
        assert (c.verdict == "better") == is_significant
        sign = -1 if BETTER[c.arena] == "lower" else 1
        ends = sorted(sign * end for end in test.confidence_interval(1 - level))
        assert c.ci_level == pytest.approx(1 - level)
        assert [c.ci_low, c.ci_high] == pytest.approx(ends)


def test_the_tests_are_those_of_scipy_and_statsmodels(by_seed):
    judged = fb.verdicts(by_seed)
    assert [(c.arena, c.optimizer, c.baseline) for c in judged] == [
        ("gpt", "Mine", "AdamW"),
        ("gpt", "Mine", "+Lion"),
        ("vit", "Mine", "AdamW"),
        ("vit", "Mine", "+Lion"),
    ]
    assert {c.test for c in judged} == {"paired"}
    tests = [stats.ttest_rel(*arms_of(c)) for c in judged]
    assert_judged_by(judged, tests)


def test_means_and_standard_deviations_are_judged_by_welchs_test(by_seed, by_mean):
    of_seeds = fb.verdicts(by_seed)
    of_summaries = fb.verdicts(by_mean)
    assert {c.test for c in of_summaries} == {"welch"}
    tests = [stats.ttest_ind(*arms_of(c), equal_var=False) for c in of_summaries]
    assert_judged_by(of_summaries, tests)
    for found, expected in zip(of_summaries, of_seeds, strict=True):
        assert (found.arena, found.baseline, found.seeds) == (expected.arena, expected.baseline, expected.seeds)
        assert found.gain == pytest.approx(expected.gain)
        assert found.hedges_g == pytest.approx(expected.hedges_g)
        assert found.p == pytest.approx(expected.p_other)


def test_a_smaller_family_another_reference_and_direction(by_seed):
    gpt, vit = fb.verdicts(by_seed, "AdamW", "higher", baselines="Mine")
    assert (gpt.verdict, gpt.baseline, vit.baseline) == ("better", "Mine", "Mine")
    _, corrected = holm([gpt.p, vit.p])
    assert [gpt.p_holm, vit.p_holm] == pytest.approx(corrected)


def test_each_pair_is_judged_by_what_it_has(tmp_path, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    rows = [
        ("gpt", "Mine", 1, 1.5),
        ("gpt", "Mine", 2, 1.6),
        ("gpt", "AdamW", 1, "diverged"),
        ("gpt", "AdamW", 2, 1.5),
        ("gpt", "Lion", 1, 1.5),
        ("gpt", "SGD", 2, "OOM"),
        ("vit", "Mine", 1, 1.0),
        ("vit", "Lion", 1, 1.0),
    ]
    table = write(tmp_path / "lost.csv", "arena,optimizer,seed,value", *rows)
    judged = fb.verdicts(table, better="lower")
    statements = [c.statement for c in judged]
    assert statements == [
        "diverged (AdamW diverged 1/2)",
        "incomplete (Lion without seed 2)",
        "incomplete (SGD without a value 1/1, SGD without seed 1)",
        "identical values (in every seed)",
    ]
    shown = command("verdicts", str(table), "--better", "lower")
    for statement in statements:
        assert statement in shown
    assert "Mine is better in 0 of 4 comparisons at 0.05" in shown


MANY_SEEDS = {
    "a": {0: 1.5, 1: 1.53, 2: 1.51, "3.0": 1.4},
    "b": {"0.0": 1.6, 1: 1.61, 2: 1.65, 7: 1.9, 8: 1.2},
}
"""The losses of two optimizers by seed, three of which both have."""


def rows_by_seed(name_of_seed=lambda optimizer, seed: seed):
    rows = []
    for optimizer, losses in MANY_SEEDS.items():
        for seed, loss in losses.items():
            rows.append({"optimizer": optimizer, "seed": name_of_seed(optimizer, seed), "loss": loss})
    return rows


def test_a_row_that_is_missing_is_like_a_run_without_a_value():
    rows = rows_by_seed()
    verdicts = fb.verdicts(rows)
    (c,) = verdicts
    assert (c.verdict, c.note) == ("incomplete", "a without seed 7, 8, b without seed 3")
    assert "add the run, remove the seed from both, or give --test paired" in verdicts.notes[0]
    all_rows = [*rows, *({"optimizer": "a", "seed": seed, "loss": ""} for seed in (7, 8))]
    (c,) = fb.verdicts([*all_rows, {"optimizer": "b", "seed": 3, "loss": ""}])
    assert (c.verdict, c.note) == ("incomplete", "a without a value 2/6, b without a value 1/6")


def test_the_seeds_in_common_are_compared_where_the_paired_test_is_asked_for():
    verdicts = fb.verdicts(rows_by_seed(), test="paired")
    (c,) = verdicts
    expected = stats.ttest_rel([1.5, 1.53, 1.51], [1.6, 1.61, 1.65])
    assert c.p == pytest.approx(expected.pvalue)
    assert (c.verdict, c.seeds, c.note) == ("better", 3, "3 seeds in common, of 4 and 5")
    assert (c.n_optimizer, c.n_baseline) == (3, 3)  # as the means are of
    assert c.mean_baseline == pytest.approx(stats.tmean([1.6, 1.61, 1.65]))
    assert not verdicts.notes
    (c,) = fb.verdicts(rows_by_seed(), test="welch")
    assert (c.test, c.n_optimizer, c.n_baseline) == ("welch", 4, 5)


def test_some_seeds_of_the_other_arm_are_a_lack_and_no_other_design():
    few = [row for row in rows_by_seed() if row["optimizer"] == "b" or row["seed"] == 1]
    (c,) = fb.verdicts(few)
    assert (c.verdict, c.note) == ("incomplete", "a without seed 0, 2, 7, 8")


def test_other_seeds_are_judged_by_welchs_test():
    (c,) = fb.verdicts(rows_by_seed(lambda optimizer, seed: f"{optimizer}{seed}"))
    first = [*MANY_SEEDS["a"].values()]
    second = [*MANY_SEEDS["b"].values()]
    expected = stats.ttest_ind(first, second, equal_var=False)
    assert c.p == pytest.approx(expected.pvalue)
    assert c.note == "Welch's test, no seed in common"


NEAR = {"A": (3.278, 3.2784, 3.2788, 3.2781), "B": (3.2781, 3.2783, 3.2785, 3.2784)}
"""Losses that hardly differ."""


@pytest.fixture
def near(tmp_path):
    rows = []
    for optimizer, losses in NEAR.items():
        for seed, loss in enumerate(losses):
            rows.append((optimizer, seed, loss))
    return write(tmp_path / "records.txt", "optimizer,seed,val_loss", *rows)


def test_a_margin(near):
    (c,) = fb.verdicts(near, margin=0.01)
    below = stats.ttest_rel(NEAR["A"], [loss - 0.01 for loss in NEAR["B"]])
    above = stats.ttest_rel(NEAR["A"], [loss + 0.01 for loss in NEAR["B"]])
    expected = max(below.pvalue, above.pvalue) / 2  # each test has one side
    assert (c.verdict, c.p_equivalence) == ("equivalent", pytest.approx(expected))


def test_a_number_to_compare_with(near, command):
    judged = fb.verdicts(near, reference_value=3.28, alpha=0.01)
    assert [c.optimizer for c in judged] == ["A", "B"]
    for c in judged:
        losses = NEAR[c.optimizer]
        assert (c.baseline, c.verdict) == ("3.28", "better")
        assert c.p == pytest.approx(stats.ttest_1samp(losses, 3.28).pvalue)
        assert c.gain == pytest.approx(3.28 - stats.tmean(losses))
    shown = command("verdicts", str(near), "--reference-value", "3.28", "--optimizer", "A", "--alpha", "0.01")
    assert "A is better in 1 of 1 comparison at 0.01: t-test of the mean" in shown


@pytest.mark.parametrize("size", [1e300, 1e-300, 3e222, 1e308])
def test_values_at_the_ends_of_the_range_of_numbers(size):
    units = {"a": (0.1, 0.3, 0.7, 0.97), "b": (0.1, 0.3, 0.7, 0.98)}
    rows = []
    for optimizer, values in units.items():
        for seed, value in enumerate(values):
            rows.append({"optimizer": optimizer, "seed": seed, "loss": value * size})
    (c,) = fb.verdicts(rows, margin=size)
    if size == 1e308:
        assert c.verdict == "diverged"
    else:
        assert c.p == pytest.approx(stats.ttest_rel(units["a"], units["b"]).pvalue)


def test_mistakes_in_tables_and_options_are_named_with_their_line(tmp_path, check_errors):
    table = tmp_path / "t.csv"

    def judge(case):
        text, *options = ast.literal_eval(f"({case},)")
        table.write_text(text)
        if options:
            fb.verdicts(table, **options[0])
        else:
            fb.verdicts(table)

    check_errors("tables.txt", judge, UsageError)


def test_a_table_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match=r"there is no file .*absent.csv in .*; give a table in CSV or JSON"):
        fb.verdicts(tmp_path / "absent.csv")
