"""Rankings: groups and ranks by hand, Demsar's worked example, and missing trials."""

import math

import pytest
from fabricated import EVERY_PAIR, analysed, study
from hypothesis import given, strategies
from scipy import stats

from fairbench.analysis.comparison.ranking import Rank, critical_difference, friedman, groups, over_arenas, ranking

# Demsar 2006, table 6: ranks of C4.5, C4.5+m, C4.5+cf and C4.5+m+cf on 14 data sets
NAMES = ("C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf")
TABLE_6 = """
4   3   2   1
1   2   3   4
4   1   2   3
4   1   3   2
4   2   3   1
1   2.5 4   2.5
3   2   4   1
2.5 2.5 4   1
4   3   2   1
2.5 2.5 2.5 2.5
4   2.5 1   2.5
3   2   4   1
4   1   2   3
3   1   4   2
"""
DEMSAR = [[float(rank) for rank in line.split()] for line in TABLE_6.strip().splitlines()]


def ranks_of_arena(row, names):
    """The ranks of some optimizers in an arena."""
    ranks = []
    for name, rank in zip(names, row, strict=True):
        found = Rank(
            arena="an arena",
            optimizer=name,
            mean=None,
            rank=rank,
            rank_low=1,
            rank_high=len(names),
            groups="",
            method="",
        )
        ranks.append(found)
    return ranks


def ranks_of(rows, names=NAMES):
    """The ranks of some optimizers, a row for each arena."""
    return [ranks_of_arena(row, names) for row in rows]


def by_optimizer(ranks):
    """The ranks by the names of their optimizers."""
    return {rank.optimizer: rank for rank in ranks}


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_the_critical_values_of_demsars_table_5(k, q):
    difference = q * math.sqrt(k * (k + 1) / 60)
    assert critical_difference(k, 10, 0.05) == pytest.approx(difference, rel=3e-4)


def test_the_mean_ranks_and_the_test_of_demsars_example():
    found = by_optimizer(over_arenas(ranks_of(DEMSAR), 0.05))
    assert list(found) == ["C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"]
    assert [found[name].rank for name in NAMES] == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    # 9.28 there, which leaves out the correction for ties: chi squared is at least that
    assert found["C4.5"].p == pytest.approx(friedman(DEMSAR))
    assert 0.01 < friedman(DEMSAR) < stats.chi2.sf(9.28, 3) < 0.05
    for rank in found.values():
        assert rank.groups == "a"  # the largest difference, 1.18, is below 1.25
        assert rank.rank_low == 1
        assert rank.rank_high == 4


def test_where_the_mean_ranks_are_far_enough_apart_there_are_groups():
    # at 0.10, as Demsar: both +m are better than C4.5 by more than 1.12, C4.5+cf is not
    found = by_optimizer(over_arenas(ranks_of(DEMSAR), 0.10))
    expected = {
        "C4.5": ("b", 3, 4),
        "C4.5+m": ("a", 1, 3),
        "C4.5+cf": ("ab", 1, 4),
        "C4.5+m+cf": ("a", 1, 3),
    }
    for name, rank in found.items():
        assert (rank.groups, rank.rank_low, rank.rank_high) == expected[name]


def test_nothing_is_separated_if_friedmans_test_is_not_significant():
    """One of ten is first in all three arenas and one last, which Nemenyi alone would separate."""
    rows = [
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        [1, 9, 8, 7, 6, 5, 4, 3, 2, 10],
        [1, 5, 7, 3, 9, 2, 8, 4, 6, 10],
    ]
    found = over_arenas(ranks_of(rows, "ABCDEFGHIJ"), 0.05)
    distance = found[-1].rank - found[0].rank
    assert distance > found[0].critical_difference
    assert found[0].p > 0.05
    assert {rank.groups for rank in found} == {"a"}


def test_too_few_arenas_have_ranks_and_no_test():
    row = [1, 2, 3, 4]
    found = over_arenas(ranks_of([row, row]), 0.05)
    assert [rank.optimizer for rank in found] == [*NAMES]
    assert [rank.rank for rank in found] == row
    for rank in found:
        assert rank.method == "too few arenas"
        assert rank.p is None
        assert rank.groups == "a"
    found = over_arenas(ranks_of([row, row, row, row]), 0.05)
    assert found[0].method == "Friedman, Nemenyi"


def test_ties_everywhere_are_no_difference():
    assert friedman([[2.5] * 4] * 5) == 1


LETTERS = strategies.sampled_from("abcdef")
PAIRS = strategies.tuples(LETTERS, LETTERS).filter(lambda pair: pair[0] < pair[1])


@given(strategies.sets(PAIRS))
def test_two_share_a_group_if_and_only_if_they_are_not_separated(apart):
    found = groups("abcdef", apart)
    for a in "abcdef":
        for b in "abcdef":
            together = any(a in group and b in group for group in found)
            separated = (a, b) in apart or (b, a) in apart
            assert together != separated
    for group in found:
        assert not any(group < other for other in found)


def ranked(the_study, **scores):
    """The ranks of a study by arena and optimizer."""
    ranks = ranking(analysed(the_study, **scores))
    return {(rank.arena, rank.optimizer): rank for rank in ranks}


def best_first(found, arena):
    """The optimizers of an arena in the order of the ranking."""
    return [optimizer for name, optimizer in found if name == arena]


def test_places_within_an_arena_follow_the_verdicts():
    the_study = study(("vit", "gpt"), compare=EVERY_PAIR)
    found = ranked(the_study, PsiLogic=[0.90, 0.92, 0.91], AdamW=[0.50, 0.51, 0.52], Lion=[0.89, 0.91, 0.92])
    assert best_first(found, "vit") == ["PsiLogic", "Lion", "AdamW"]
    assert best_first(found, "gpt") == ["AdamW", "Lion", "PsiLogic"]
    ours = found["vit", "PsiLogic"]
    assert (ours.rank, ours.rank_low, ours.rank_high, ours.groups) == (1, 1, 2, "a")
    lion = found["vit", "Lion"]
    assert (lion.rank, lion.rank_low, lion.rank_high, lion.groups) == (2, 1, 2, "a")
    adamw = found["vit", "AdamW"]
    assert (adamw.rank, adamw.rank_low, adamw.rank_high, adamw.groups) == (3, 3, 3, "b")
    assert found["all arenas", "Lion"].rank == 2
    assert ours.mean == pytest.approx(0.91)


def test_an_arm_that_diverged_is_last_and_not_separated():
    the_study = study(("vit",), compare=EVERY_PAIR)
    found = ranked(the_study, PsiLogic=["diverged", 0.9, 0.9], AdamW=[0.5, 0.51, 0.52])
    last = found["vit", "PsiLogic"]
    assert (last.rank, last.rank_low, last.rank_high, last.mean) == (3, 1, 3, None)


def test_an_arena_with_missing_trials_has_no_ranks_and_no_part_in_the_mean_ranks():
    the_study = study(("vit",), compare=EVERY_PAIR)
    found = ranked(the_study, PsiLogic=[None, 0.9, 0.9])
    assert {rank.rank for rank in found.values()} == {None}
    assert best_first(found, "all arenas") == []
