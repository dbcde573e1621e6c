"""The paper's numbers: complete, consistent with each other, and judged as a study's own records."""

import math
from collections import Counter
from decimal import Decimal
from itertools import product
from statistics import mean, stdev

import pytest
from scipy import stats

from fairbench.analysis.published.publication import load_publication, published_comparisons

PAPER = load_publication("paper")
NAMES = ("Adam", "AdamW", "Lion", "PsiLogic")
LEVELS = {"n.s.": (0.05, 1), "*": (0.01, 0.05), "**": (0.001, 0.01), "***": (0, 0.001)}
"""The least and the largest p-value of each mark."""
HALF = Decimal("0.0005")
"""Half of the last digit of the accuracies that are printed."""


def printed(statistic, **where):
    """The characters that are printed, of the one entry with these properties."""
    (entry,) = [entry for entry in PAPER.all(statistic) if entry.has(**where)]
    return entry.value


def printed_number(statistic, **where):
    return float(printed(statistic, **where))


def test_every_number_that_the_tables_print_is_there_once():
    counts = Counter((entry.place, entry.statistic) for entry in PAPER.entries)
    assert counts == {
        ("Table 2", "n"): 1,
        ("Table 2", "mean"): 20,
        ("Table 2", "std"): 20,
        ("section 4.2, Selected LRs", "lr"): 16,
        ("Table 5", "verdict"): 15,
        ("Table 5", "p"): 2,
        ("abstract", "p"): 6,
        ("Table 6", "peak_mb"): 16,
        ("Table 6", "wall_s"): 16,
        ("Table 6", "ratio"): 4,
        ("Table 7", "value"): 12,
    }
    assert len(set(PAPER.entries)) == len(PAPER.entries)


@pytest.mark.parametrize("arena", ["gpt", "vit", "resnet", "ddpm"])
def test_the_printed_ratio_is_that_of_the_printed_times(arena):
    ours = printed_number("wall_s", arena=arena, optimizer="PsiLogic")
    theirs = printed_number("wall_s", arena=arena, optimizer="AdamW")
    ratio = printed("ratio", arena=arena, optimizer="PsiLogic", baseline="AdamW")
    assert f"{ours / theirs:.2f}" == ratio


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_and_spread_of_the_printed_seeds_are_those_that_are_printed(name):
    """Within the rounding of both; the spread divides by n - 1 then."""
    seeds = [Decimal(printed("value", arena="vit", optimizer=name, seed=seed)) for seed in "012"]
    about = {"arena": "vit", "metric": "accuracy", "optimizer": name}
    assert abs(mean(seeds) - Decimal(printed("mean", **about))) <= 2 * HALF
    spreads = []
    for shifts in product((-HALF, HALF), repeat=3):
        shifted = [seed + shift for seed, shift in zip(seeds, shifts, strict=True)]
        spreads.append(stdev(shifted))
    std = Decimal(printed("std", **about))
    assert min(spreads) - HALF <= std <= max(spreads) + HALF


def test_the_printed_perplexity_is_that_of_the_printed_loss():
    for name in NAMES:
        loss = printed_number("mean", metric="loss", optimizer=name)
        spread = printed_number("std", metric="loss", optimizer=name)
        perplexity = printed_number("mean", metric="perplexity", optimizer=name)
        std = printed_number("std", metric="perplexity", optimizer=name)
        assert perplexity == pytest.approx(math.exp(loss), rel=0.003)
        assert std == pytest.approx(perplexity * spread, rel=0.06)


@pytest.mark.parametrize("entry", PAPER.all("verdict"), ids=lambda x: f"{x.arena} {x.metric} {x.baseline}")
def test_the_marks_are_those_of_welchs_test_on_the_printed_means_and_spreads(entry):
    """Of 3 seeds each, with p off by a quarter at most for the rounding of what is printed."""
    ours = {"arena": entry.arena, "metric": entry.metric, "optimizer": entry.optimizer}
    theirs = {"arena": entry.arena, "metric": entry.metric, "optimizer": entry.baseline}
    test = stats.ttest_ind_from_stats(
        mean1=printed_number("mean", **ours),
        std1=printed_number("std", **ours),
        nobs1=3,
        mean2=printed_number("mean", **theirs),
        std2=printed_number("std", **theirs),
        nobs2=3,
        equal_var=False,
    )
    low, high = LEVELS[entry.value]
    assert low / 1.25 <= test.pvalue <= high * 1.25


def test_no_win_over_adamw_survives_holms_correction():
    rows = published_comparisons(PAPER, 0.05, ["AdamW"])
    assert [row.comparison.arena for row in rows] == ["gpt", "vit", "resnet", "ddpm"]
    for row in rows:
        assert row.comparison.verdict == "inconclusive"
    gpt, vit, *_ = rows
    # the p-values that the paper prints, of values with more digits than it prints
    assert (vit.printed_p, vit.printed_p_holm) == (0.015, pytest.approx(0.060))
    assert (gpt.printed_p, gpt.printed_p_holm) == (0.049, pytest.approx(0.147))


def test_a_published_comparison_is_welchs_test_of_its_first_metric():
    comparisons = [row.comparison for row in published_comparisons(PAPER, 0.05, ["AdamW"])]
    assert [c.metric for c in comparisons] == ["perplexity", "accuracy", "accuracy", "mse"]
    vit = comparisons[1]
    expected = stats.ttest_ind_from_stats(0.244, 0.006, 3, 0.223, 0.002, 3, equal_var=False)
    assert vit.t == pytest.approx(expected.statistic)
    assert vit.p == pytest.approx(expected.pvalue)
    assert vit.p_holm == pytest.approx(4 * expected.pvalue)
    assert (vit.n_optimizer, vit.seeds, vit.test) == (3, 3, "welch")
    assert vit.margin is None
    assert vit.p_equivalence is None


def test_all_baselines_are_one_family_of_twelve():
    judged = published_comparisons(PAPER, 0.05)
    assert len(judged) == 12
    wins = set()
    for row in judged:
        assert row.printed_p_holm is None  # not all twelve are printed
        if row.comparison.is_win:
            wins.add((row.comparison.arena, row.comparison.baseline))
    assert wins == {("gpt", "Adam"), ("gpt", "Lion"), ("vit", "Adam"), ("resnet", "Adam")}
