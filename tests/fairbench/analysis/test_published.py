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
HALF = Decimal("0.0005")
"""Half of the last digit of the accuracies that are printed."""


def printed(statistic, **where):
    """The characters that are printed, of the one entry with these properties."""
    (entry,) = (x for x in PAPER.all(statistic) if all(getattr(x, key) == value for key, value in where.items()))
    return entry.value


def test_every_number_that_the_tables_print_is_there_once():
    places = Counter((entry.place, entry.statistic) for entry in PAPER.entries)
    assert places == {
        ("Table 2", "n"): 1, ("Table 2", "mean"): 20, ("Table 2", "std"): 20, ("section 4.2, Selected LRs", "lr"): 16,
        ("Table 5", "verdict"): 15, ("Table 5", "p"): 2, ("abstract", "p"): 6, ("Table 6", "peak_mb"): 16,
        ("Table 6", "wall_s"): 16, ("Table 6", "ratio"): 4, ("Table 7", "value"): 12,
    }  # fmt: skip
    assert len(set(PAPER.entries)) == len(PAPER.entries)


@pytest.mark.parametrize("arena", ["gpt", "vit", "resnet", "ddpm"])
def test_the_printed_ratio_is_that_of_the_printed_times(arena):
    time = {name: float(printed("wall_s", arena=arena, optimizer=name)) for name in ("PsiLogic", "AdamW")}
    ratio = printed("ratio", arena=arena, optimizer="PsiLogic", baseline="AdamW")
    assert f"{time['PsiLogic'] / time['AdamW']:.2f}" == ratio


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_and_spread_of_the_printed_seeds_are_those_that_are_printed(name):
    """Within the rounding of both; the spread divides by n - 1 then."""
    seeds = [Decimal(printed("value", arena="vit", optimizer=name, seed=seed)) for seed in "012"]
    about = {"arena": "vit", "metric": "accuracy", "optimizer": name}
    assert abs(mean(seeds) - Decimal(printed("mean", **about))) <= 2 * HALF
    shifts = product((-HALF, HALF), repeat=3)
    spreads = [stdev([seed + shift for seed, shift in zip(seeds, of_seeds, strict=True)]) for of_seeds in shifts]
    std = Decimal(printed("std", **about))
    assert min(spreads) - HALF <= std <= max(spreads) + HALF


def test_the_printed_perplexity_is_that_of_the_printed_loss():
    for name in NAMES:
        loss, spread = (float(printed(x, metric="loss", optimizer=name)) for x in ("mean", "std"))
        perplexity, std = (float(printed(x, metric="perplexity", optimizer=name)) for x in ("mean", "std"))
        assert perplexity == pytest.approx(math.exp(loss), rel=0.003)
        assert std == pytest.approx(perplexity * spread, rel=0.06)


@pytest.mark.parametrize("entry", PAPER.all("verdict"), ids=lambda x: f"{x.arena} {x.metric} {x.baseline}")
def test_the_marks_are_those_of_welchs_test_on_the_printed_means_and_spreads(entry):
    """Of 3 seeds each, with p off by a quarter at most for the rounding of what is printed."""
    of = [{"arena": entry.arena, "metric": entry.metric, "optimizer": x} for x in (entry.optimizer, entry.baseline)]
    numbers = [float(printed(statistic, **where)) for where in of for statistic in ("mean", "std")]
    p = stats.ttest_ind_from_stats(*numbers[:2], 3, *numbers[2:], 3, equal_var=False).pvalue
    level = {"n.s.": (0.05, 1), "*": (0.01, 0.05), "**": (0.001, 0.01), "***": (0, 0.001)}[entry.value]
    assert level[0] / 1.25 <= p <= level[1] * 1.25


def test_no_win_over_adamw_survives_holms_correction():
    judged = published_comparisons(PAPER, 0.05, ["AdamW"])
    assert {row.comparison.arena: row.comparison.verdict for row in judged} == dict.fromkeys(
        ("gpt", "vit", "resnet", "ddpm"), "inconclusive"
    )
    # the p-values that the paper prints, of values with more digits than it prints
    p_values = {row.comparison.arena: (row.printed_p, row.printed_p_holm) for row in judged}
    assert p_values["vit"] == (0.015, pytest.approx(0.060))
    assert p_values["gpt"] == (0.049, pytest.approx(0.147))
    assert [row.comparison.metric for row in judged] == ["perplexity", "accuracy", "accuracy", "mse"]
    vit = judged[1].comparison
    reference = stats.ttest_ind_from_stats(0.244, 0.006, 3, 0.223, 0.002, 3, equal_var=False)
    assert (vit.t, vit.p, vit.p_holm) == pytest.approx((*reference, 4 * reference.pvalue))
    assert (vit.n_optimizer, vit.seeds, vit.margin, vit.p_equivalence, vit.test) == (3, 3, None, None, "welch")


def test_all_baselines_are_one_family_of_twelve():
    judged = published_comparisons(PAPER, 0.05)
    assert len(judged) == 12
    wins = {(row.comparison.arena, row.comparison.baseline) for row in judged if row.comparison.is_win}
    assert wins == {("gpt", "Adam"), ("gpt", "Lion"), ("vit", "Adam"), ("resnet", "Adam")}
    assert {row.printed_p_holm for row in judged} == {None}  # not all twelve are printed
