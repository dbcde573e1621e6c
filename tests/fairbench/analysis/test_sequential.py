"""Looks: boundaries against published ones, and repeated p-values."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import special, stats

from fairbench.analysis.statistics.sequential import LEAST, MOST, Design, bounds_for, classical_bounds, spent

# Jennison and Turnbull, "Group Sequential Methods", 2000, tables 2.1 (Pocock) and 2.3 (O'Brien and Fleming): alpha 0.05
CONSTANTS = {2: (2.178, 1.977), 3: (2.289, 2.004), 4: (2.361, 2.024), 5: (2.413, 2.040)}


def obrien_fleming(alpha, t):  # the spending functions of Lan and DeMets 1983
    return 2 * special.ndtr(special.ndtri(alpha / 2) / math.sqrt(t))


def pocock(alpha, t):
    return alpha * math.log1p((math.e - 1) * t)


# One-sided levels; rpact's and ldbounds' two-sided bounds are those of two such tests.
PUBLISHED = [
    # Reboussin, DeMets, Kim and Lan, "Computations for group sequential boundaries", Controlled Clinical Trials 2000
    (obrien_fleming, 0.025, [0.2, 0.4, 0.6, 0.8, 1], [4.8769, 3.3570, 2.6803, 2.2898, 2.0310]),
    (pocock, 0.025, [0.2, 0.4, 0.6, 0.8, 1], [2.4380, 2.4268, 2.4102, 2.3966, 2.3860]),
    # gsDesign's sfLDOF and rpact's "asOF"
    (obrien_fleming, 0.025, [1 / 3, 2 / 3, 1], [3.7103, 2.5114, 1.9930]),
    # rpact, tests/testthat/test-f_design_group_sequential.R, "asOF" and "asP" with bounds that are not binding
    (obrien_fleming, 0.13, [0.4, 0.75, 1], [2.1280732, 1.4368565, 1.2468994]),
    (obrien_fleming, 0.13, [0.4, 0.75, 0.85, 1], [2.1280732, 1.4368565, 1.422873, 1.2970881]),
    (pocock, 0.13, [0.35, 0.7, 1], [1.5446617, 1.4828682, 1.4620058]),
    (pocock, 0.025, [0.4, 0.7, 1], [2.223875, 2.3050796]),
]


@pytest.mark.parametrize("looks", CONSTANTS)
def test_constants_of_the_classical_tests(looks):
    equal = [(k + 1) / looks for k in range(looks)]
    of_pocock = classical_bounds(0.05, equal, "pocock", 2)
    of_both = (of_pocock[0], classical_bounds(0.05, equal, "obrien-fleming", 2)[-1])
    assert of_both == pytest.approx(CONSTANTS[looks], abs=6e-4)
    assert np.ptp(of_pocock) < 1e-9
    assert spent(of_pocock, equal, 2)[-1] == pytest.approx(0.05, abs=1e-10)


def test_bounds_of_rpact_for_the_test_of_obrien_and_fleming():
    # rpact, tests/testthat/test-f_design_group_sequential.R, the default design: one-sided 0.025, three looks
    bounds = classical_bounds(0.025, [1 / 3, 2 / 3, 1], "obrien-fleming", 1)
    assert bounds == pytest.approx([3.4710914, 2.4544323, 2.0040356], abs=1e-6)
    levels = special.ndtr(-np.array(bounds))
    assert levels == pytest.approx([0.00025917372, 0.0070553616, 0.022533125], rel=1e-5)
    assert spent(bounds, [1 / 3, 2 / 3, 1], 1) == pytest.approx([0.00025917372, 0.0071600594, 0.025], rel=1e-5)


@pytest.mark.parametrize(("spending", "alpha", "fractions", "published"), PUBLISHED)
def test_bounds_of_published_spending_functions(spending, alpha, fractions, published):
    bounds = bounds_for([spending(alpha, t) for t in fractions], fractions, 1)
    assert bounds[: len(published)] == pytest.approx(published, abs=6e-5)


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("fractions", [[0.25, 0.5, 1], [0.1, 0.11, 1]])
def test_probabilities_are_those_of_the_joint_normal_distribution(sides, fractions):
    bounds = [2.5, 2.2, 1.9]
    times = np.array(fractions)
    covariance = np.sqrt(np.minimum.outer(times, times) / np.maximum.outer(times, times))
    inside = stats.multivariate_normal(cov=covariance, allow_singular=True, abseps=1e-8, maxpts=4_000_000)
    lowest = [-b for b in bounds] if sides == 2 else None
    outside = 1 - inside.cdf(bounds, lower_limit=lowest, rng=np.random.default_rng(0))
    assert spent(bounds, fractions, sides)[-1] == pytest.approx(outside, abs=2e-6)


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("spending", ["obrien-fleming", "pocock"])
@pytest.mark.parametrize("looks", [(5, 10, 20), (3, 4), (2, 3, 4, 9, 10)])
def test_repeated_p_is_the_smallest_level_that_rejects(looks, spending, sides):
    design = Design(looks, spending, 0.05)
    fractions = [n / looks[-1] for n in looks]
    levels = [design.nominal_level(k, 0.05, sides) for k in range(len(looks))]
    classical = classical_bounds(0.05, fractions, spending, sides)
    assert levels == pytest.approx(sides * special.ndtr(-np.array(classical)), rel=1e-6)  # at the level of the design
    for k in range(len(looks)):
        for level in (1e-9, 0.05 / 12, 0.2):
            assert design.repeated_p(design.nominal_level(k, level, sides), k, sides) == pytest.approx(level, rel=1e-6)
        nominal = [design.nominal_level(k, x, sides) for x in np.geomspace(LEAST, MOST, 40)]
        assert all(a < b for a, b in pairwise(nominal))  # so the smallest level is the only one where both are equal
        assert design.repeated_p(0.0, k, sides) == LEAST
        assert design.repeated_p(0.9, k, sides) == 1.0


def test_a_single_look_changes_nothing():
    design = Design((20,), "obrien-fleming", 0.05)
    assert [design.repeated_p(p, 0) for p in (1e-7, 0.03, 0.4)] == pytest.approx([1e-7, 0.03, 0.4])
