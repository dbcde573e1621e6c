"""Interim analyses: shares of the level as published, repeated p-values, and how often they err."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from fairbench.analysis.statistics.sequential import Design, InterimAnalysis
from fairbench.suites.stages import SPENDING


class Published(NamedTuple):
    """A published design; `spent`: the level that its first interim analyses have spent together."""

    source: str
    spending: str
    alpha: float
    interim_analyses: tuple[int, ...]
    spent: list[float]


def of_bound(z):
    """The level that a first bound z spends: that of z alone."""
    return [special.ndtr(-z)]


REBOUSSIN = 'Reboussin, DeMets, Kim and Lan, "Computations for group sequential boundaries", 2000'
RPACT = "rpact, tests/testthat/test-f_design_group_sequential.R, asOF and asP"
PUBLISHED = [
    Published(
        source="SeqBounds.jl, README",
        spending="obrien-fleming",
        alpha=0.05,
        interim_analyses=(1, 2, 3, 4),
        spent=[8.85754e-5, 0.0055746, 0.0236251, 0.05],
    ),
    Published(
        source=REBOUSSIN,
        spending="obrien-fleming",
        alpha=0.025,
        interim_analyses=(1, 2, 3, 4, 5),
        spent=of_bound(4.8769),
    ),
    Published(
        source=REBOUSSIN,
        spending="pocock",
        alpha=0.025,
        interim_analyses=(1, 2, 3, 4, 5),
        spent=of_bound(2.4380),
    ),
    Published(
        source=RPACT,
        spending="obrien-fleming",
        alpha=0.13,
        interim_analyses=(8, 15, 20),
        spent=of_bound(2.1280732),
    ),
    Published(
        source=RPACT,
        spending="pocock",
        alpha=0.13,
        interim_analyses=(7, 14, 20),
        spent=of_bound(1.5446617),
    ),
]
NUMBERS = st.lists(st.integers(2, 60), min_size=1, max_size=6, unique=True)
INTERIM_ANALYSES = NUMBERS.map(lambda numbers: tuple(sorted(numbers)))
DESIGNS = st.builds(Design, INTERIM_ANALYSES, st.sampled_from(SPENDING), st.sampled_from([0.01, 0.05, 0.2]))


@pytest.mark.parametrize("published", PUBLISHED)
def test_shares_are_those_of_published_spending_functions(published):
    design = Design(published.interim_analyses, published.spending, published.alpha)
    spent = published.alpha * np.cumsum(design.shares)
    assert spent[: len(published.spent)] == pytest.approx(published.spent, rel=3e-4)


@given(DESIGNS, st.floats(1e-9, 1), st.data())
def test_a_repeated_p_is_the_smallest_level_that_rejects(design, p, data):
    number = data.draw(st.sampled_from(range(len(design.interim_analyses))))
    share = design.shares[number]
    smallest = InterimAnalysis(design.interim_analyses[number], share).repeated(p)
    assert p > share * (smallest * (1 - 1e-9))
    if smallest != 1:
        assert p < share * (smallest * (1 + 1e-9))
    if len(design.interim_analyses) == 1:
        assert smallest == p


@given(DESIGNS)
def test_interim_analyses_that_never_err_together_use_the_level_up(design):
    assert sum(design.shares) == pytest.approx(1, abs=1e-12)
    count = len(design.interim_analyses)
    studies = 2000
    uniform = (np.arange(studies) + 0.5) / studies
    for level in (0.01, 0.1):
        rejects = []
        for number, share in enumerate(design.shares):
            p = (uniform + number / count) % 1  # uniform, and low in other studies than at another analysis
            rejects.append(p <= share * level)
        rejected = np.any(rejects, axis=0).mean()
        assert rejected == pytest.approx(level, abs=count / studies)


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("spending", SPENDING)
@pytest.mark.parametrize("level", [0.05, 0.05 / 12])
@pytest.mark.parametrize("interim_analyses", [(3, 4, 6, 8), (4, 8)])
def test_interim_analyses_at_pairs_that_do_not_differ_err_at_most_as_often_as_declared(
    interim_analyses, level, spending, sides
):
    """The paired t-test, in either direction or as the half of an equivalence test in one."""
    design = Design(interim_analyses, spending, 0.05)
    studies = 100_000
    differences = np.random.default_rng(3).standard_normal((studies, interim_analyses[-1]))
    rejects = []
    for n, share in zip(interim_analyses, design.shares, strict=True):
        seen = differences[:, :n]
        t = seen.mean(-1) / seen.std(-1, ddof=1) * np.sqrt(n)
        if sides == 2:
            t = -abs(t)
        p = sides * special.stdtr(n - 1, t)
        rejects.append(p <= share * level)
    wrong = np.any(rejects, axis=0).sum()
    assert wrong > 0.7 * level * studies
    assert wrong <= stats.binom.isf(1e-3, studies, level)
