"""Pairwise grids: each value of a factor occurs with each value of every other factor."""

from itertools import combinations, product

import pytest


def pairwise(*factors):
    """All combinations of the factors' values; those without a pair that is new are left to the marker soak.

    For code that does not branch on three factors at once. The selection is deterministic: always the first of the
    remaining combinations with the most new pairs.
    """
    grid = list(product(*[range(len(factor)) for factor in factors]))
    missing = set()
    for point in grid:
        missing |= _pairs(point)
    kept = set()
    while missing:
        best = max(grid, key=lambda point: len(_pairs(point) & missing))
        kept.add(best)
        missing -= _pairs(best)

    cases = []
    for point in grid:
        values = [factor[i] for factor, i in zip(factors, point, strict=True)]
        marks = () if point in kept else pytest.mark.soak
        cases.append(pytest.param(*values, marks=marks))
    return cases


def _pairs(point):
    """The pairs of values that a combination contains; a value is its factor and its index."""
    return set(combinations(enumerate(point), 2))
