"""Looks: shares of the level against published spending functions, repeated p-values, and how often looks err."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from fairbench.analysis.statistics.sequential import Design, Look
from fairbench.suites.stages import SPENDING

# The level that is spent by the first looks. A first bound z is that of the level alone: 1 - Phi(z).
PUBLISHED = [
    # SeqBounds.jl, README: O'Brien-Fleming, alpha 0.05
    ("obrien-fleming", 0.05, (1, 2, 3, 4), [8.85754e-5, 0.0055746, 0.0236251, 0.05]),
    # Reboussin, DeMets, Kim and Lan, "Computations for group sequential boundaries", Controlled Clinical Trials 2000
    ("obrien-fleming", 0.025, (1, 2, 3, 4, 5), [special.ndtr(-4.8769)]),
    ("pocock", 0.025, (1, 2, 3, 4, 5), [special.ndtr(-2.4380)]),
    # rpact, tests/testthat/test-f_design_group_sequential.R, "asOF" and "asP"
    ("obrien-fleming", 0.13, (8, 15, 20), [special.ndtr(-2.1280732)]),
    ("pocock", 0.13, (7, 14, 20), [special.ndtr(-1.5446617)]),
]
NUMBERS = st.lists(st.integers(2, 60), min_size=1, max_size=6, unique=True)
DESIGNS = st.builds(
    Design, NUMBERS.map(lambda x: tuple(sorted(x))), st.sampled_from(SPENDING), st.sampled_from([0.01, 0.05, 0.2])
)


@pytest.mark.parametrize(("spending", "alpha", "looks", "published"), PUBLISHED)
def test_shares_are_those_of_published_spending_functions(spending, alpha, looks, published):
    spent = alpha * np.cumsum(Design(looks, spending, alpha).shares)
    assert spent[: len(published)] == pytest.approx(published, rel=3e-4)


@given(DESIGNS, st.floats(1e-9, 1), st.data())
def test_a_repeated_p_is_the_smallest_level_that_rejects(design, p, data):
    look = data.draw(st.sampled_from(range(len(design.looks))))
    smallest = Look(design.looks[look], design.shares[look]).repeated(p)
    assert p > design.shares[look] * (smallest * (1 - 1e-9))
    assert p < design.shares[look] * (smallest * (1 + 1e-9)) or smallest == 1
    assert smallest == p or len(design.looks) > 1


@given(DESIGNS)
def test_looks_that_never_err_together_use_the_level_up(design):
    assert sum(design.shares) == pytest.approx(1, abs=1e-12)
    numbers, uniform = range(len(design.looks)), (np.arange(2000) + 0.5) / 2000
    for level in (0.01, 0.1):  # looks whose p-values are uniform, and low in different studies
        rejects = [(uniform + k / len(numbers)) % 1 <= design.shares[k] * level for k in numbers]
        assert np.any(rejects, axis=0).mean() == pytest.approx(level, abs=len(numbers) / 2000)


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("spending", SPENDING)
@pytest.mark.parametrize("level", [0.05, 0.05 / 12])
@pytest.mark.parametrize("looks", [(3, 4, 6, 8), (4, 8)])
def test_looks_at_pairs_that_do_not_differ_err_at_most_as_often_as_declared(looks, level, spending, sides):
    """The paired t-test, in either direction or as the half of an equivalence test in one."""
    design, studies, p = Design(looks, spending, 0.05), 100_000, []
    differences = np.random.default_rng(3).standard_normal((studies, looks[-1]))
    for n in looks:
        t = differences[:, :n].mean(-1) / differences[:, :n].std(-1, ddof=1) * np.sqrt(n)
        p.append(sides * special.stdtr(n - 1, -abs(t) if sides == 2 else t))
    wrong = np.any([p[k] <= design.shares[k] * level for k in range(len(looks))], axis=0)
    assert 0.7 * level * studies < wrong.sum() <= stats.binom.isf(1e-3, studies, level)
