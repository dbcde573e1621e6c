"""The law of a ladder against known laws, scipy's curve_fit, arithmetic by hand and simulation."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, stats

from fairbench.analysis.statistics.scaling_law import Law, SpeedUp, fit
from fairbench.analysis.statistics.significance import TTest, t_test
from fairbench.analysis.statistics.trend import detectable_trend, judge_trends, verdict
from fairbench.common.errors import UsageError

CENTER = math.sqrt(2e6 * 16e6)
SPEED_UPS = (SpeedUp("Muon", TTest(math.log(1.4)), TTest(0.08)), SpeedUp("Lion", TTest(math.log(0.8)), TTest(-0.1)))
LAW = Law(
    reference="AdamW", E=1.7, A=400.0, alpha=0.4, B=25.0, beta=0.35, center=CENTER, largest=16e6, speed_ups=SPEED_UPS
)
OPTIMIZERS = ["Muon", "AdamW", "Lion"]


def ladder(sizes=(2e6, 4e6, 8e6, 16e6), horizons=(0.5, 1.0, 2.0)):
    """Size, steps and optimizer of each cell."""
    rows = [(n, h * 4000 * n / sizes[0], name) for n in sizes for h in horizons for name in OPTIMIZERS]
    return np.array([x[0] for x in rows]), np.array([x[1] for x in rows]), [x[2] for x in rows]


def losses_of(cells, spread=0.0, seeds=5, law=LAW):
    """The losses of a law, with normal seeds; by its formula, not by the code that fits it."""
    r = {"AdamW": (1.0, 0.0), **{x.optimizer: (math.exp(x.log.difference), x.trend.difference) for x in law.speed_ups}}
    true = [
        law.E + law.A * n**-law.alpha + law.B * (r[x][0] * (n / law.center) ** r[x][1] * d) ** -law.beta
        for n, d, x in zip(*cells, strict=True)
    ]
    return np.array(true)[:, None] + spread * np.random.default_rng(0).standard_normal((len(true), seeds))


def test_exact_losses_give_the_law():
    cells = ladder()
    law = fit(cells[0], cells[1], losses_of(cells), cells[2], "AdamW")
    for name in ("E", "A", "alpha", "B", "beta", "center", "largest"):
        assert getattr(law, name) == pytest.approx(getattr(LAW, name), rel=1e-6), name
    for own, true in zip(law.speed_ups, LAW.speed_ups, strict=True):
        assert own.optimizer == true.optimizer
        assert own.log.difference == pytest.approx(true.log.difference, abs=1e-6)
        assert own.trend.difference == pytest.approx(true.trend.difference, abs=1e-6)
        assert (own.trend.p, own.trend.reason) == (None, "the same in every seed, no test")
    assert max(law.spread, law.error, law.left_out_error) < 1e-6


@pytest.mark.parametrize("alpha", [0.08, 0.3, 1.1])
@pytest.mark.parametrize("beta", [0.08, 0.3, 1.1])
@pytest.mark.parametrize("irreducible", [0.0, 0.5])
def test_laws_with_small_and_large_exponents_are_found(alpha, beta, irreducible):
    cells = ladder()
    law = replace(LAW, E=irreducible, A=0.7 * CENTER**alpha, alpha=alpha, B=0.9 * 8000**beta, beta=beta)
    found = fit(cells[0], cells[1], losses_of(cells, law=law, seeds=1), cells[2], "AdamW")
    for own, true in zip(found.speed_ups, SPEED_UPS, strict=True):
        assert own.log.difference == pytest.approx(true.log.difference, abs=1e-6)
        assert own.trend.difference == pytest.approx(true.trend.difference, abs=1e-6)


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_the_speed_up_does_not_depend_on_the_unit_of_the_loss(unit):
    cells = ladder()
    one, other = (fit(cells[0], cells[1], x * losses_of(cells, 0.01), cells[2], "AdamW") for x in (1, unit))
    for name in "EAB":
        assert getattr(other, name) == pytest.approx(unit * getattr(one, name), rel=1e-5)
    for a, b in zip(one.speed_ups, other.speed_ups, strict=True):
        assert (a.log.ci_low, a.trend.ci_high) == pytest.approx((b.log.ci_low, b.trend.ci_high), abs=1e-6)


def plain(cells, e, a, alpha, b, beta, r1, t1, r2, t2):
    """The formula itself, with A and B in units of the smallest cell."""
    sizes, steps, names = cells
    r = {"AdamW": (1.0, 0.0), "Muon": (r1, t1), "Lion": (r2, t2)}
    factor = np.array([r[x][0] * (n / CENTER) ** r[x][1] for n, x in zip(sizes, names, strict=True)])
    return e + a * (sizes / 2e6) ** -alpha + b * (factor * steps / 2000) ** -beta


def test_the_fit_and_the_jackknife_are_those_of_curve_fit():
    cells = ladder()
    losses = losses_of(cells, 0.01)
    n = losses.shape[1]

    def refitted(kept):
        start = (1.7, 1.2, 0.4, 1.7, 0.35, 1.4, 0.08, 0.8, -0.1)
        found, _ = optimize.curve_fit(
            lambda _, *x: plain(cells, *x), None, losses[:, kept].mean(axis=1), start, ftol=1e-13, xtol=1e-13
        )
        return found

    whole, law = refitted(range(n)), fit(cells[0], cells[1], losses, cells[2], "AdamW")
    assert (law.E, law.alpha, law.beta) == pytest.approx(whole[[0, 2, 4]], rel=1e-4)
    assert law.A * 2e6**-law.alpha == pytest.approx(whole[1], rel=1e-4)
    pseudo = [n * whole - (n - 1) * refitted([j for j in range(n) if j != i]) for i in range(n)]
    half = stats.t.ppf(0.975, n - 1) * np.std(pseudo, axis=0, ddof=1) / math.sqrt(n)
    trends = [x.trend for x in law.speed_ups]
    assert [x.difference for x in trends] == pytest.approx(whole[[6, 8]], abs=1e-5)
    assert [x.ci_high for x in trends] == pytest.approx((whole + half)[[6, 8]], abs=1e-5)
    p = 2 * stats.t.sf(abs(whole[6]) / (half[6] / stats.t.ppf(0.975, n - 1)), n - 1)
    assert trends[0].p == pytest.approx(p, rel=1e-3)
    assert [math.exp(x.log.difference) for x in law.speed_ups] == pytest.approx(whole[[5, 7]], abs=1e-5)


def test_the_spread_and_the_errors_by_hand():
    cells = ladder()
    losses = losses_of(cells, 0.01)
    law = fit(cells[0], cells[1], losses, cells[2], "AdamW")
    assert law.spread == pytest.approx(math.sqrt(np.mean([stats.tvar(cell) for cell in losses])))
    predicted = [law.predict(*cell).loss for cell in zip(*cells, strict=True)]
    squares = np.sum((losses.mean(axis=1) - predicted) ** 2)
    assert law.misfit == pytest.approx(squares / (36 - 9) / (law.spread**2 / 5))
    assert law.misfit == pytest.approx(1.0, abs=0.6)
    largest = cells[0] == 16e6

    def error(law, rows):
        predicted = [law.predict(cells[0][i], cells[1][i], cells[2][i]).loss for i in rows]
        means = losses[rows].mean(axis=1)
        return np.mean(abs(predicted - means) / means)

    assert law.error == pytest.approx(error(law, range(len(losses))))
    smaller = fit(cells[0][~largest], cells[1][~largest], losses[~largest], [*np.array(cells[2])[~largest]], "AdamW")
    assert law.left_out_error == pytest.approx(error(smaller, np.flatnonzero(largest)), rel=1e-4)
    assert smaller.left_out_error is None, "two sizes would be left"


def test_a_prediction_is_flagged_and_then_refused_beyond_the_largest_size():
    assert [LAW.predict(x * 16e6, 1e5, "AdamW").flagged for x in (1, 2, 2.01, 4)] == [False, False, True, True]
    by_hand = 1.7 + 400 * 3e7**-0.4 + 25 * (1.4 * (3e7 / CENTER) ** 0.08 * 1e5) ** -0.35
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
    return judge_trends(cells[0], cells[1], losses, cells[2], "AdamW")


def test_trends_are_corrected_and_need_three_sizes_two_horizons_and_two_seeds():
    cells = ladder()
    losses = losses_of(cells, 0.01)
    law, (muon, lion) = judged(cells, losses)
    assert [muon.verdict, lion.verdict] == ["grows", "shrinks"]
    smaller, larger = sorted(x.trend.p for x in law.speed_ups)
    assert sorted((muon.p_holm, lion.p_holm)) == pytest.approx([2 * smaller, max(2 * smaller, larger)])
    law, trends = judged(cells, losses[:, :1])
    assert law.speed_ups[0].trend.difference == pytest.approx(0.08, abs=0.1)
    assert {(x.verdict, x.note) for x in trends} == {("cannot be told", "fewer than 2 seeds, no test")}
    for few, note in (
        (((2e6, 8e6), (0.5, 1.0)), "AdamW has 2 of 3 sizes that a trend needs"),
        (((2e6, 4e6, 8e6), (1.0,)), "AdamW has 1 of 2 horizons that a trend needs at each size"),
    ):
        some = ladder(*few)
        law, trends = judged(some, losses_of(some, 0.01))
        assert law is None
        assert {(x.verdict, x.note) for x in trends} == {("cannot be told", note)}
        with pytest.raises(ValueError, match=note.removeprefix("AdamW has ")):
            fit(some[0], some[1], losses_of(some), some[2], "AdamW")


def test_an_optimizer_with_too_few_cells_is_left_out_and_still_counts():
    cells = ladder()
    losses = losses_of(cells, 0.01)
    kept = [i for i, name in enumerate(cells[2]) if name != "Lion" or cells[0][i] < 8e6]
    law, (muon, lion) = judged((cells[0][kept], cells[1][kept], [cells[2][i] for i in kept]), losses[kept])
    assert [x.optimizer for x in law.speed_ups] == ["Muon"]
    assert muon.p_holm == pytest.approx(2 * law.speed_ups[0].trend.p)
    assert (lion.verdict, lion.p_holm, lion.note) == ("cannot be told", None, "2 of 3 sizes that a trend needs")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(5))
def test_nothing_can_be_told_of_losses_that_follow_no_law(seed):
    cells = ladder()
    diverged = losses_of(cells)
    diverged[3, 1] = math.nan
    noise = 2 + 0.1 * np.random.default_rng(seed).standard_normal((36, 5))
    rising = np.log(cells[0])[:, None] + 0.1 * noise
    for losses in (diverged, noise, rising, noise[:, :1] + np.zeros(5)):
        law, trends = judged(cells, losses)
        assert {x.verdict for x in trends} == {"cannot be told"}
        assert law is None or math.isfinite(law.predict(5e7, 1e5, "Muon").loss)
    assert judged(cells, diverged)[1][0].note == "a loss is not finite: leave out optimizers that diverged"


SHARED = np.kron(np.ones((12, 12)), np.diag([1e-4, 2e-4, 3e-4])) + np.diag(np.linspace(1e-4, 1e-3, 36))


@pytest.mark.parametrize("spread", [0.01, SHARED], ids=["independent", "shared"])
def test_the_detectable_trend_has_the_power_by_a_numerical_jacobian(spread):
    cells, seeds = ladder(), 5
    at = np.array([1.7, 400 * 2e6**-0.4, 0.4, 25 * 2000**-0.35, 0.35, 1.4, 0.08, 0.8, -0.1])
    covariance = SHARED if spread is SHARED else 1e-4 * np.eye(36)
    found = detectable_trend(*cells, seeds, LAW, spread, power=0.9)
    powers = []
    for sign in (1, -1):
        at[[6, 8]] = sign * found["Muon"], sign * found["Lion"]
        jacobian = optimize.approx_fprime(at, lambda x: plain(cells, *x), 1e-6)
        weights = np.linalg.solve(jacobian.T @ jacobian, jacobian.T)
        noncentralities = abs(at) / np.sqrt(np.diag(weights @ covariance @ weights.T) / seeds)
        powers.append(stats.nct.sf(stats.t.isf(0.05 / 2 / 2, seeds - 1), seeds - 1, noncentralities[[6, 8]]))
    assert np.min(powers, axis=0) == pytest.approx([0.9, 0.9], abs=1e-5)
    assert np.max(powers) > 0.9015, "of the other sign"
    assert detectable_trend(*cells, 1, LAW, 0.01) == detectable_trend(*ladder((2e6, 4e6)), 5, LAW, 0.01) == {}
    assert detectable_trend(*cells, 2, LAW, 0.01)


def test_the_intervals_cover_seeds_that_cells_share():
    """Half the variance is shared by the optimizers of a size and horizon."""
    cells, studies, generator = ladder(), 120, np.random.default_rng(0)
    truth = [x.difference for own in LAW.speed_ups for x in (own.log, own.trend)]
    covered = np.zeros(4)
    for _ in range(studies):
        shared = np.repeat(generator.standard_normal((12, 5)), 3, axis=0)
        losses = losses_of(cells) + 0.007 * (shared + generator.standard_normal((36, 5)))
        found = fit(cells[0], cells[1], losses, cells[2], "AdamW").speed_ups
        tests = [x for own in found for x in (own.log, own.trend)]
        covered += [x.ci_low <= value <= x.ci_high for x, value in zip(tests, truth, strict=True)]
    low, high = stats.binom.ppf([1e-4, 1 - 1e-4], studies, 0.95)
    assert ((low <= covered) & (covered <= high)).all()
