"""Rankings: groups and ranks by hand, Demsar's worked example, and missing trials."""

import math

import pytest
from fabricated import EVERY_PAIR, analysed, study
from hypothesis import given, strategies
from scipy import stats

from fairbench.analysis.comparison.ranking import Rank, critical_difference, friedman, groups, over_arenas, ranking

# Demsar 2006, table 6: ranks of C4.5, C4.5+m, C4.5+cf and C4.5+m+cf on 14 data sets
NAMES = ("C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf")
DEMSAR = [
    *([4, 3, 2, 1], [1, 2, 3, 4], [4, 1, 2, 3], [4, 1, 3, 2], [4, 2, 3, 1], [1, 2.5, 4, 2.5], [3, 2, 4, 1]),
    *([2.5, 2.5, 4, 1], [4, 3, 2, 1], [2.5] * 4, [4, 2.5, 1, 2.5], [3, 2, 4, 1], [4, 1, 2, 3], [3, 1, 4, 2]),
]


def ranks_of(rows, names=NAMES):
    return [
        [Rank(str(i), name, None, rank, 1, len(names), "", "") for name, rank in zip(names, row, strict=True)]
        for i, row in enumerate(rows)
    ]


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_the_critical_values_of_demsars_table_5(k, q):
    assert critical_difference(k, 10, 0.05) == pytest.approx(q * math.sqrt(k * (k + 1) / 60), rel=3e-4)


def test_the_mean_ranks_and_the_test_of_demsars_example():
    found = {rank.optimizer: rank for rank in over_arenas(ranks_of(DEMSAR), 0.05)}
    assert list(found) == ["C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"]
    assert [found[name].rank for name in NAMES] == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    # 9.28 there, which leaves out the correction for ties: chi squared is at least that
    assert found["C4.5"].p == pytest.approx(friedman(DEMSAR))
    assert 0.01 < friedman(DEMSAR) < stats.chi2.sf(9.28, 3) < 0.05
    assert {rank.groups for rank in found.values()} == {"a"}  # the largest difference, 1.18, is below 1.25
    assert all((rank.rank_low, rank.rank_high) == (1, 4) for rank in found.values())


def test_where_the_mean_ranks_are_far_enough_apart_there_are_groups():
    # at 0.10, as Demsar: both +m are better than C4.5 by more than 1.12, C4.5+cf is not
    found = {rank.optimizer: rank for rank in over_arenas(ranks_of(DEMSAR), 0.10)}
    assert [found[name].groups for name in NAMES] == ["b", "a", "ab", "a"]
    assert [(found[name].rank_low, found[name].rank_high) for name in NAMES] == [(3, 4), (1, 3), (1, 4), (1, 3)]


def test_nothing_is_separated_if_friedmans_test_is_not_significant():
    """One of ten is first in all three arenas and one last, which Nemenyi alone would separate."""
    middle = range(2, 10)
    rows = [[1, *middle, 10], [1, *reversed(middle), 10], [1, 5, 7, 3, 9, 2, 8, 4, 6, 10]]
    found = over_arenas(ranks_of(rows, "ABCDEFGHIJ"), 0.05)
    assert found[-1].rank - found[0].rank > found[0].critical_difference
    assert found[0].p > 0.05
    assert {rank.groups for rank in found} == {"a"}


def test_too_few_arenas_have_ranks_and_no_test():
    found = over_arenas(ranks_of([[1, 2, 3, 4]] * 2), 0.05)
    assert [(rank.optimizer, rank.rank) for rank in found] == list(zip(NAMES, (1, 2, 3, 4), strict=True))
    assert {(rank.method, rank.p, rank.groups) for rank in found} == {("too few arenas", None, "a")}
    assert over_arenas(ranks_of([[1, 2, 3, 4]] * 4), 0.05)[0].method == "Friedman, Nemenyi"


def test_ties_everywhere_are_no_difference():
    assert friedman([[2.5] * 4] * 5) == 1


@given(strategies.sets(strategies.tuples(*[strategies.sampled_from("abcdef")] * 2).filter(lambda x: x[0] < x[1])))
def test_two_share_a_group_if_and_only_if_they_are_not_separated(apart):
    found = groups("abcdef", apart)
    for a in "abcdef":
        for b in "abcdef":
            together = any(a in group and b in group for group in found)
            assert together == ((a, b) not in apart and (b, a) not in apart)
    assert not any(one < other for one in found for other in found)


def ranked(the_study, **scores):
    return {(rank.arena, rank.optimizer): rank for rank in ranking(analysed(the_study, **scores))}


def test_places_within_an_arena_follow_the_verdicts():
    the_study = study(("vit", "gpt"), compare=EVERY_PAIR)
    found = ranked(the_study, PsiLogic=[0.90, 0.92, 0.91], AdamW=[0.50, 0.51, 0.52], Lion=[0.89, 0.91, 0.92])
    assert [key for key in found if key[0] == "vit"] == [("vit", "PsiLogic"), ("vit", "Lion"), ("vit", "AdamW")]
    assert [(x.rank, x.rank_low, x.rank_high, x.groups) for (arena, _), x in found.items() if arena == "vit"] == [
        (1, 1, 2, "a"),
        (2, 1, 2, "a"),
        (3, 3, 3, "b"),
    ]
    assert [x.optimizer for (arena, _), x in found.items() if arena == "gpt"] == ["AdamW", "Lion", "PsiLogic"]
    assert found["all arenas", "Lion"].rank == 2
    assert found["vit", "PsiLogic"].mean == pytest.approx(0.91)


def test_an_arm_that_diverged_is_last_and_not_separated():
    found = ranked(study(("vit",), compare=EVERY_PAIR), PsiLogic=["diverged", 0.9, 0.9], AdamW=[0.5, 0.51, 0.52])
    last = found["vit", "PsiLogic"]
    assert (last.rank, last.rank_low, last.rank_high, last.mean) == (3, 1, 3, None)


def test_an_arena_with_missing_trials_has_no_ranks_and_no_part_in_the_mean_ranks():
    found = ranked(study(("vit",), compare=EVERY_PAIR), PsiLogic=[None, 0.9, 0.9])
    assert {rank.rank for rank in found.values()} == {None}
    assert not [key for key in found if key[0] == "all arenas"]
