"""Pairwise grids: each value of a factor occurs with each value of every other factor."""

from itertools import combinations, product

import pytest


def pairwise(*factors):
    """All combinations of the factors' values; those without a pair that is new are left to the marker soak.

    For code that does not branch on three factors at once. The selection is deterministic: always the first of the
    remaining combinations with the most new pairs.
    """
    grid = list(product(*map(range, map(len, factors))))

    def pairs(point):
        return set(combinations(enumerate(point), 2))

    missing, kept = set().union(*map(pairs, grid)), set()
    while missing:
        best = max(grid, key=lambda point: len(pairs(point) & missing))
        kept.add(best)
        missing -= pairs(best)
    marks = {point: () if point in kept else pytest.mark.soak for point in grid}
    return [pytest.param(*(x[i] for x, i in zip(factors, point, strict=True)), marks=marks[point]) for point in grid]
