"""The law of a ladder against known laws, scipy's curve_fit, arithmetic by hand and simulation."""

import math
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from scipy import optimize, stats

from fairbench.analysis.statistics.scaling_law import Law, SpeedUp, fit
from fairbench.analysis.statistics.significance import TTest, t_test
from fairbench.analysis.statistics.trend import detectable_trend, judge_trends, verdict
from fairbench.common.errors import UsageError

CENTER = math.sqrt(2e6 * 16e6)
MUON = SpeedUp("Muon", log=TTest(math.log(1.4)), trend=TTest(0.08))
LION = SpeedUp("Lion", log=TTest(math.log(0.8)), trend=TTest(-0.1))
SPEED_UPS = (MUON, LION)
LAW = Law(
    reference="AdamW",
    E=1.7,
    A=400.0,
    alpha=0.4,
    B=25.0,
    beta=0.35,
    center=CENTER,
    largest=16e6,
    speed_ups=SPEED_UPS,
)
OPTIMIZERS = ["Muon", "AdamW", "Lion"]


class Ladder(NamedTuple):
    """Size, steps and optimizer of each cell."""

    sizes: np.ndarray
    steps: np.ndarray
    optimizers: list[str]

    def subset(self, kept):
        """The cells with these numbers."""
        return Ladder(self.sizes[kept], self.steps[kept], [self.optimizers[i] for i in kept])


def ladder(sizes=(2e6, 4e6, 8e6, 16e6), horizons=(0.5, 1.0, 2.0)):
    cells = [*product(sizes, horizons, OPTIMIZERS)]
    return Ladder(
        sizes=np.array([size for size, _, _ in cells]),
        steps=np.array([horizon * 4000 * size / sizes[0] for size, horizon, _ in cells]),
        optimizers=[optimizer for _, _, optimizer in cells],
    )


def losses_of(cells, spread=0.0, seeds=5, law=LAW):
    """The losses of a law, with normal seeds; by its formula, not by the code that fits it."""
    speed_ups = {"AdamW": (1.0, 0.0)}
    for own in law.speed_ups:
        speed_ups[own.optimizer] = (math.exp(own.log.difference), own.trend.difference)
    true = []
    for size, steps, optimizer in zip(*cells, strict=True):
        r, trend = speed_ups[optimizer]
        reference_steps = r * (size / law.center) ** trend * steps
        true.append(law.E + law.A * size**-law.alpha + law.B * reference_steps**-law.beta)
    noise = np.random.default_rng(0).standard_normal((len(true), seeds))
    return np.array(true)[:, None] + spread * noise


def fitted(cells, losses):
    """The law of some losses."""
    return fit(cells.sizes, cells.steps, losses, cells.optimizers, "AdamW")


def assert_speed_ups_are(found, expected):
    """Compare the speed-ups of two laws."""
    for own, true in zip(found, expected, strict=True):
        assert own.optimizer == true.optimizer
        assert own.log.difference == pytest.approx(true.log.difference, abs=1e-6)
        assert own.trend.difference == pytest.approx(true.trend.difference, abs=1e-6)


def test_exact_losses_give_the_law():
    cells = ladder()
    law = fitted(cells, losses_of(cells))
    for name in ("E", "A", "alpha", "B", "beta", "center", "largest"):
        assert getattr(law, name) == pytest.approx(getattr(LAW, name), rel=1e-6), name
    assert_speed_ups_are(law.speed_ups, SPEED_UPS)
    for own in law.speed_ups:
        assert own.trend.p is None
        assert own.trend.reason == "the same in every seed, no test"
    assert max(law.spread, law.error, law.left_out_error) < 1e-6


@pytest.mark.parametrize("alpha", [0.08, 0.3, 1.1])
@pytest.mark.parametrize("beta", [0.08, 0.3, 1.1])
@pytest.mark.parametrize("irreducible", [0.0, 0.5])
def test_laws_with_small_and_large_exponents_are_found(alpha, beta, irreducible):
    cells = ladder()
    law = replace(
        LAW,
        E=irreducible,
        A=0.7 * CENTER**alpha,
        alpha=alpha,
        B=0.9 * 8000**beta,
        beta=beta,
    )
    found = fitted(cells, losses_of(cells, law=law, seeds=1))
    assert_speed_ups_are(found.speed_ups, SPEED_UPS)


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_the_speed_up_does_not_depend_on_the_unit_of_the_loss(unit):
    cells = ladder()
    losses = losses_of(cells, 0.01)
    one = fitted(cells, losses)
    other = fitted(cells, unit * losses)
    for name in "EAB":
        assert getattr(other, name) == pytest.approx(unit * getattr(one, name), rel=1e-5)
    for a, b in zip(one.speed_ups, other.speed_ups, strict=True):
        assert a.log.ci_low == pytest.approx(b.log.ci_low, abs=1e-6)
        assert a.trend.ci_high == pytest.approx(b.trend.ci_high, abs=1e-6)


def plain(cells, e, a, alpha, b, beta, r1, t1, r2, t2):
    """The formula itself, with A and B in units of the smallest cell."""
    speed_ups = {"AdamW": (1.0, 0.0), "Muon": (r1, t1), "Lion": (r2, t2)}
    factors = []
    for size, optimizer in zip(cells.sizes, cells.optimizers, strict=True):
        r, trend = speed_ups[optimizer]
        factors.append(r * (size / CENTER) ** trend)
    of_size = a * (cells.sizes / 2e6) ** -alpha
    of_steps = b * (np.array(factors) * cells.steps / 2000) ** -beta
    return e + of_size + of_steps


def test_the_fit_and_the_jackknife_are_those_of_curve_fit():
    cells = ladder()
    losses = losses_of(cells, 0.01)
    n = losses.shape[1]

    def formula(_, *parameters):
        return plain(cells, *parameters)

    def refitted(kept):
        start = (1.7, 1.2, 0.4, 1.7, 0.35, 1.4, 0.08, 0.8, -0.1)
        means = losses[:, kept].mean(axis=1)
        found, _ = optimize.curve_fit(formula, None, means, start, ftol=1e-13, xtol=1e-13)
        return found

    whole = refitted(range(n))
    law = fitted(cells, losses)
    assert (law.E, law.alpha, law.beta) == pytest.approx(whole[[0, 2, 4]], rel=1e-4)
    assert law.A * 2e6**-law.alpha == pytest.approx(whole[1], rel=1e-4)

    pseudo = []
    for left_out in range(n):
        others = [seed for seed in range(n) if seed != left_out]
        pseudo.append(n * whole - (n - 1) * refitted(others))
    errors = np.std(pseudo, axis=0, ddof=1) / math.sqrt(n)
    ends = whole + stats.t.ppf(0.975, n - 1) * errors
    muon, lion = (own.trend for own in law.speed_ups)
    assert (muon.difference, lion.difference) == pytest.approx(whole[[6, 8]], abs=1e-5)
    assert (muon.ci_high, lion.ci_high) == pytest.approx(ends[[6, 8]], abs=1e-5)
    p = 2 * stats.t.sf(abs(whole[6]) / errors[6], n - 1)
    assert muon.p == pytest.approx(p, rel=1e-3)
    assert [math.exp(own.log.difference) for own in law.speed_ups] == pytest.approx(whole[[5, 7]], abs=1e-5)


def test_the_spread_and_the_errors_by_hand():
    cells = ladder()
    losses = losses_of(cells, 0.01)
    law = fitted(cells, losses)
    variances = [stats.tvar(cell) for cell in losses]
    assert law.spread == pytest.approx(math.sqrt(np.mean(variances)))
    predicted = [law.predict(*cell).loss for cell in zip(*cells, strict=True)]
    squares = np.sum((losses.mean(axis=1) - predicted) ** 2)
    assert law.misfit == pytest.approx(squares / (36 - 9) / (law.spread**2 / 5))
    assert law.misfit == pytest.approx(1.0, abs=0.6)

    def error(law, kept):
        predicted = [law.predict(*cell).loss for cell in zip(*cells.subset(kept), strict=True)]
        means = losses[kept].mean(axis=1)
        return np.mean(abs(predicted - means) / means)

    assert law.error == pytest.approx(error(law, range(len(losses))))
    largest = np.flatnonzero(cells.sizes == 16e6)
    others = np.flatnonzero(cells.sizes < 16e6)
    smaller = fitted(cells.subset(others), losses[others])
    assert law.left_out_error == pytest.approx(error(smaller, largest), rel=1e-4)
    assert smaller.left_out_error is None, "two sizes would be left"


def test_a_prediction_is_flagged_and_then_refused_beyond_the_largest_size():
    assert not LAW.predict(16e6, 1e5, "AdamW").flagged
    assert not LAW.predict(2 * 16e6, 1e5, "AdamW").flagged
    assert LAW.predict(2.01 * 16e6, 1e5, "AdamW").flagged
    assert LAW.predict(4 * 16e6, 1e5, "AdamW").flagged
    reference_steps = 1.4 * (3e7 / CENTER) ** 0.08 * 1e5
    by_hand = 1.7 + 400 * 3e7**-0.4 + 25 * reference_steps**-0.35
    assert LAW.predict(3e7, 1e5, "Muon").loss == pytest.approx(by_hand, rel=1e-12)
    with pytest.raises(UsageError, match=r"size 6\.5e\+07, beyond 4 times the largest size of the ladder, 1\.6e\+07"):
        LAW.predict(6.5e7, 1e5, "AdamW")
    with pytest.raises(UsageError, match="did you mean 'Muon'"):
        LAW.predict(2e6, 1e5, "Moun")


@pytest.mark.parametrize(
    ("trend", "error", "p_holm", "expected"),
    [
        (0.2, 0.05, 0.04, "grows"),
        (-0.2, 0.05, 0.04, "shrinks"),
        (0.2, 0.05, 0.06, "cannot be told"),
        (0.0, 0.0234, 1.0, "holds"),  # t_(0.95; 4) = 2.1318, and 0.05 / 2.1318 = 0.02345
        (0.0, 0.0235, 1.0, "cannot be told"),
        (-0.03, 0.0093, 1.0, "holds"),  # 0.02 / 2.1318 = 0.00938
        (-0.03, 0.0094, 1.0, "cannot be told"),
    ],
)
def test_the_verdict(trend, error, p_holm, expected):
    assert verdict(t_test(trend, error, 4), p_holm, 0.05, 0.05) == expected


def judged(cells, losses):
    return judge_trends(cells.sizes, cells.steps, losses, cells.optimizers, "AdamW")


def assert_nothing_can_be_told(trends, note):
    for trend in trends:
        assert trend.verdict == "cannot be told"
        assert trend.note == note


def test_trends_are_corrected():
    cells = ladder()
    law, (muon, lion) = judged(cells, losses_of(cells, 0.01))
    assert muon.verdict == "grows"
    assert lion.verdict == "shrinks"
    smaller, larger = sorted(own.trend.p for own in law.speed_ups)
    assert sorted((muon.p_holm, lion.p_holm)) == pytest.approx([2 * smaller, max(2 * smaller, larger)])


def test_a_single_seed_has_a_trend_and_no_verdict():
    cells = ladder()
    losses = losses_of(cells, 0.01)
    law, trends = judged(cells, losses[:, :1])
    assert law.speed_ups[0].trend.difference == pytest.approx(0.08, abs=0.1)
    assert_nothing_can_be_told(trends, "fewer than 2 seeds, no test")


@pytest.mark.parametrize(
    ("sizes", "horizons", "missing"),
    [
        ((2e6, 8e6), (0.5, 1.0), "2 of 3 sizes that a trend needs"),
        ((2e6, 4e6, 8e6), (1.0,), "1 of 2 horizons that a trend needs at each size"),
    ],
)
def test_trends_need_three_sizes_and_two_horizons(sizes, horizons, missing):
    cells = ladder(sizes, horizons)
    law, trends = judged(cells, losses_of(cells, 0.01))
    assert law is None
    assert_nothing_can_be_told(trends, f"AdamW has {missing}")
    with pytest.raises(ValueError, match=missing):
        fitted(cells, losses_of(cells))


def test_an_optimizer_with_too_few_cells_is_left_out_and_still_counts():
    cells = ladder()
    losses = losses_of(cells, 0.01)
    kept = [i for i, name in enumerate(cells.optimizers) if name != "Lion" or cells.sizes[i] < 8e6]
    law, (muon, lion) = judged(cells.subset(kept), losses[kept])
    assert [own.optimizer for own in law.speed_ups] == ["Muon"]
    assert muon.p_holm == pytest.approx(2 * law.speed_ups[0].trend.p)
    assert (lion.verdict, lion.p_holm, lion.note) == ("cannot be told", None, "2 of 3 sizes that a trend needs")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(5))
def test_nothing_can_be_told_of_losses_that_follow_no_law(seed):
    cells = ladder()
    diverged = losses_of(cells)
    diverged[3, 1] = math.nan
    noise = 2 + 0.1 * np.random.default_rng(seed).standard_normal((36, 5))
    rising = np.log(cells.sizes)[:, None] + 0.1 * noise
    without_spread = noise[:, :1] + np.zeros(5)
    for losses in (diverged, noise, rising, without_spread):
        law, trends = judged(cells, losses)
        assert {trend.verdict for trend in trends} == {"cannot be told"}
        if law is not None:
            assert math.isfinite(law.predict(5e7, 1e5, "Muon").loss)
    _, trends = judged(cells, diverged)
    assert_nothing_can_be_told(trends, "a loss is not finite: leave out optimizers that diverged")


OF_OPTIMIZERS = np.kron(np.ones((12, 12)), np.diag([1e-4, 2e-4, 3e-4]))
OF_CELLS = np.diag(np.linspace(1e-4, 1e-3, 36))
SHARED = OF_OPTIMIZERS + OF_CELLS
"""A covariance in which the cells of an optimizer share a part of the noise of a seed."""


@pytest.mark.parametrize("spread", [0.01, SHARED], ids=["independent", "shared"])
def test_the_detectable_trend_has_the_power_by_a_numerical_jacobian(spread):
    cells = ladder()
    seeds = 5
    df = seeds - 1
    critical = stats.t.isf(0.05 / 2 / 2, df)
    covariance = SHARED if spread is SHARED else 1e-4 * np.eye(36)
    found = detectable_trend(*cells, seeds, LAW, spread, power=0.9)
    parameters = np.array([1.7, 400 * 2e6**-0.4, 0.4, 25 * 2000**-0.35, 0.35, 1.4, 0.08, 0.8, -0.1])

    def formula(parameters):
        return plain(cells, *parameters)

    powers = []
    for sign in (1, -1):
        parameters[6] = sign * found["Muon"]
        parameters[8] = sign * found["Lion"]
        jacobian = optimize.approx_fprime(parameters, formula, 1e-6)
        weights = np.linalg.solve(jacobian.T @ jacobian, jacobian.T)
        errors = np.sqrt(np.diag(weights @ covariance @ weights.T) / seeds)
        noncentralities = abs(parameters) / errors
        powers.append(stats.nct.sf(critical, df, noncentralities[[6, 8]]))
    assert np.min(powers, axis=0) == pytest.approx([0.9, 0.9], abs=1e-5)
    assert np.max(powers) > 0.9015, "of the other sign"


def test_too_few_seeds_or_sizes_detect_no_trend():
    assert detectable_trend(*ladder(), 1, LAW, 0.01) == {}
    assert detectable_trend(*ladder((2e6, 4e6)), 5, LAW, 0.01) == {}
    assert detectable_trend(*ladder(), 2, LAW, 0.01)


def test_the_intervals_cover_seeds_that_cells_share():
    """Half the variance is shared by the optimizers of a size and horizon."""
    cells = ladder()
    studies = 120
    generator = np.random.default_rng(0)
    truth = [test.difference for test in intervals_of(LAW)]
    covered = np.zeros(4)
    for _ in range(studies):
        shared = np.repeat(generator.standard_normal((12, 5)), 3, axis=0)
        own = generator.standard_normal((36, 5))
        law = fitted(cells, losses_of(cells) + 0.007 * (shared + own))
        for i, test in enumerate(intervals_of(law)):
            covered[i] += test.ci_low <= truth[i] <= test.ci_high
    low, high = stats.binom.ppf([1e-4, 1 - 1e-4], studies, 0.95)
    assert ((low <= covered) & (covered <= high)).all()


def intervals_of(law):
    """The speed-up and the trend of each optimizer."""
    tests = []
    for own in law.speed_ups:
        tests.append(own.log)
        tests.append(own.trend)
    return tests
