"""Speed-ups over the reference: against scipy's paired t-test, known laws, and fabricated studies."""

import csv
from pathlib import Path

import numpy as np
import pytest
from fabricated import Records, analysed, finals, recorded, seconds, study, timing, with_horizons
from scipy import stats
from scipy.interpolate import PchipInterpolator

from fairbench.analysis.audit import audit
from fairbench.analysis.comparison.leaderboard import leaderboard
from fairbench.analysis.comparison.speedups import speedups
from fairbench.analysis.statistics.speedup import reach
from fairbench.report.figures.speedup import speedup_text
from fairbench.report.sections.speedup import speed_up
from fairbench.suites.schema import Compare

HORIZONS = np.array([0.5, 0.71, 1.0, 1.41, 2.0])
TRUE = [1.0, 1.1, 1.4, 2.0]


def law(horizon):
    return 2.0 + horizon**-0.4


def noisy(rng, speedup):
    """The curve of a reference and an arm that needs `speedup` times fewer steps; 5 seeds share half of the noise."""
    common = np.sqrt(0.5) * rng.normal(size=5)

    def around(mean):
        own = np.sqrt(0.5) * rng.normal(size=(*np.shape(mean), 5))
        return np.asarray(mean)[..., None] + 0.01 * (common + own)

    return around(law(HORIZONS)), around(law(speedup))


@pytest.mark.parametrize("speedup", [0.5, 0.6, 1.0, 1.1, 1.4, 1.7, 2.0])
def test_a_known_law_gives_its_speedup(speedup):
    """Between horizons that are a factor of 1.41 apart, the interpolation is off by less than 0.3%."""
    exact = np.tile(law(HORIZONS)[:, None], 3) + np.array([-1e-6, 0.0, 1e-6])
    found = reach(HORIZONS, exact, law(speedup) + np.array([1e-6, 0.0, -1e-6]))
    assert found.speedup == pytest.approx(speedup, rel=3e-3)


def test_the_ends_of_the_interval_are_where_the_paired_t_test_has_p_005():
    curve, values = noisy(np.random.default_rng(1), 1.2)
    found, of_seeds = reach(HORIZONS, curve, values), PchipInterpolator(np.log(HORIZONS), curve, axis=0)
    assert found.ci_low < 1.2 < found.ci_high
    for end, alternative in ((found.ci_low, 1), (found.ci_high, -1)):
        test = stats.ttest_rel(of_seeds(np.log(end)), values)
        assert test.pvalue == pytest.approx(0.05, rel=1e-3)
        assert test.statistic * alternative > 0


def test_what_lies_beyond_the_horizons_is_a_bound():
    curve, values = noisy(np.random.default_rng(1), 1.0)
    beyond = [reach(HORIZONS, curve, values + x).beyond for x in (-1, 1)]
    assert beyond == ["at least", "at most"]
    better, worse = reach(HORIZONS, curve, values - 1), reach(HORIZONS, curve, values + 1)
    assert (better.speedup, better.ci_low, better.ci_high) == (None, 2.0, None)
    assert (worse.speedup, worse.ci_low, worse.ci_high) == (None, None, 0.5)
    near = reach(HORIZONS, curve, values - (law(1.0) - law(1.98)))
    assert near.ci_high is None
    assert near.ci_low > 1


def test_a_curve_that_is_not_monotone_is_read_at_its_first_descent():
    bumpy = np.array([[3.0], [2.0], [2.2], [1.8], [1.0]]) + np.array([-0.01, 0.0, 0.01])
    assert 0.5 < reach(HORIZONS, bumpy, np.array([2.49, 2.5, 2.51])).speedup < 0.71
    assert 0.71 <= reach(HORIZONS, bumpy, np.array([2.09, 2.1, 2.11])).speedup <= 1.001  # the mean of 2.0 and 2.2


def test_the_interval_covers_and_rarely_claims_what_is_not_there():
    """benchmarks/speedup_coverage.py has 2,000 studies of each kind."""
    rng, covered, claimed = np.random.default_rng(0), [], []
    for _ in range(400):
        found = reach(HORIZONS, *noisy(rng, 1.0))
        covered.append((found.ci_low or 0) <= 1.0 <= (found.ci_high or np.inf))
        claimed.append(found.ci_low is not None and found.ci_low > 1)
    assert 0.925 <= np.mean(covered) <= 0.975
    assert np.mean(claimed) <= 0.05


@pytest.fixture
def analyses():
    """Analyses of gpt and vit with a reference that is trained with half and with twice the steps."""
    asked = with_horizons(study(optimizers=("AdamW", "Lion", "PsiLogic"), seeds=range(1, 6), compare=Compare()), 0.5, 2)
    steady = [0.0, 0.01, -0.01, 0.005, -0.005]
    other = [-0.005, 0.005, -0.01, 0.01, 0.0]
    shared = [-0.2, -0.1, 0.0, 0.1, 0.21]
    of_lion = [-0.29, -0.1, 0.09, 0.145, 0.165]

    def arm(arena, optimizer, mean, noise):
        scores = [mean + deviation for deviation in noise]
        return finals(arena=arena, optimizer=optimizer, scores=scores)

    records = Records(
        asked,
        arm("gpt-x0.5", "PsiLogic", 1.4, steady),
        arm("gpt", "PsiLogic", 1.0, steady),
        arm("gpt-x2", "PsiLogic", 0.6, steady),
        arm("vit-x0.5", "PsiLogic", 0.6, shared),
        arm("vit", "PsiLogic", 1.0, shared),
        arm("vit-x2", "PsiLogic", 1.4, shared),
        arm("gpt", "AdamW", 0.8, other),
        arm("gpt", "Lion", 0.3, other),
        arm("vit", "Lion", 1.1, of_lion),
        arm("vit", "AdamW", 1.0, steady),
        finals(arena="vit", optimizer="AdamW", seed=3, outcome="diverged"),
        timing(),
        recorded({"cost.seconds": seconds(2.0)}, optimizer="PsiLogic"),
    )
    return analysed(asked, records)


def test_a_study_has_a_row_for_each_arm(analyses):
    rows = {(row.arena, row.optimizer): row for row in analyses.of(speedups)}
    assert [*rows] == [(arena, name) for arena in ("gpt", "vit") for name in ("AdamW", "Lion")]
    half, far = rows["gpt", "AdamW"], rows["gpt", "Lion"]
    assert (half.verdict, half.claimed, half.n, half.shortest, half.longest) == ("better", True, 5, 0.5, 2.0)
    assert 1.2 < half.speedup < 1.7
    assert (far.speedup, far.beyond, far.ci_low, far.ci_high) == (None, "at least", 2.0, None)
    assert speedup_text(far) == "≥ 2.00 [2.00, ≥ 2.00]"
    assert rows["vit", "AdamW"].note == "not all trials finished"
    # the paired test has p = 0.035, which Holm's correction doubles: a speed-up needs the verdict too
    paired = rows["vit", "Lion"]
    assert (paired.ci_low > 1, paired.verdict, paired.claimed) == (True, "inconclusive", False)


def test_the_speedup_in_time_has_the_ratio_of_the_steps(analyses):
    """A step of the reference takes twice as long."""
    row = analyses.of(speedups)[0]
    assert row.time_speedup == pytest.approx(2 * row.speedup)
    assert row.time_low / row.ci_low == pytest.approx(2.0)


def test_flags_findings_and_leaderboard_have_it(analyses):
    flags = {flag.name: flag for flag in analyses.of(audit)}
    assert "gpt Lion at least 2" in flags["speed-up beyond the horizons"].text
    assert speed_up(analyses).startswith("2 of 4 arms are faster than PsiLogic, which needs a verdict of better")
    standings = {x.optimizer: x for x in analyses.of(leaderboard)}
    assert (standings["Lion"].faster, standings["PsiLogic"].faster) == (1, None)
    assert {c.arena for c in analyses.comparisons} == {"gpt", "vit"}


def test_the_measured_coverage_is_that_of_the_level():
    with (Path(__file__).parents[3] / "docs/results/benchmarks/speedup_coverage.csv").open() as file:
        rows = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    assert all(0.93 <= row["coverage"] <= 0.97 for row in rows)
    assert max(row["claimed"] for row in rows if row["speedup"] == 1) <= 0.05
