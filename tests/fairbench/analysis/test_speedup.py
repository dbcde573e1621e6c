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
from fairbench.suites.compare import Compare

HORIZONS = np.array([0.5, 0.71, 1.0, 1.41, 2.0])
MEASURED = Path(__file__).parents[3] / "docs/results/benchmarks/speedup_coverage.csv"


def law(horizon):
    return 2.0 + horizon**-0.4


def noisy(rng, speedup):
    """The curve of a reference and an arm that needs `speedup` times fewer steps; 5 seeds share half of the noise."""
    common = np.sqrt(0.5) * rng.normal(size=5)

    def around(mean):
        means = np.asarray(mean)[..., None]
        own = np.sqrt(0.5) * rng.normal(size=(*np.shape(mean), 5))
        return means + 0.01 * (common + own)

    return around(law(HORIZONS)), around(law(speedup))


@pytest.mark.parametrize("speedup", [0.5, 0.6, 1.0, 1.1, 1.4, 1.7, 2.0])
def test_a_known_law_gives_its_speedup(speedup):
    """Between horizons that are a factor of 1.41 apart, the interpolation is off by less than 0.3%."""
    noise = np.array([-1e-6, 0.0, 1e-6])
    curve = law(HORIZONS)[:, None] + noise
    values = law(speedup) - noise
    found = reach(HORIZONS, curve, values)
    assert found.speedup == pytest.approx(speedup, rel=3e-3)


def test_the_ends_of_the_interval_are_where_the_paired_t_test_has_p_005():
    curve, values = noisy(np.random.default_rng(1), 1.2)
    found = reach(HORIZONS, curve, values)
    of_seeds = PchipInterpolator(np.log(HORIZONS), curve, axis=0)
    assert found.ci_low < 1.2 < found.ci_high
    low = stats.ttest_rel(of_seeds(np.log(found.ci_low)), values)
    assert low.pvalue == pytest.approx(0.05, rel=1e-3)
    assert low.statistic > 0
    high = stats.ttest_rel(of_seeds(np.log(found.ci_high)), values)
    assert high.pvalue == pytest.approx(0.05, rel=1e-3)
    assert high.statistic < 0


def test_what_lies_beyond_the_horizons_is_a_bound():
    curve, values = noisy(np.random.default_rng(1), 1.0)
    better = reach(HORIZONS, curve, values - 1)
    assert better.beyond == "at least"
    assert (better.speedup, better.ci_low, better.ci_high) == (None, 2.0, None)
    worse = reach(HORIZONS, curve, values + 1)
    assert worse.beyond == "at most"
    assert (worse.speedup, worse.ci_low, worse.ci_high) == (None, None, 0.5)
    near = reach(HORIZONS, curve, values - (law(1.0) - law(1.98)))
    assert near.ci_high is None
    assert near.ci_low > 1


def test_a_curve_that_is_not_monotone_is_read_at_its_first_descent():
    means = np.array([3.0, 2.0, 2.2, 1.8, 1.0])
    noise = np.array([-0.01, 0.0, 0.01])
    bumpy = means[:, None] + noise
    on_the_descent = reach(HORIZONS, bumpy, 2.5 + noise)
    assert 0.5 < on_the_descent.speedup < 0.71
    mean_of_the_bump = reach(HORIZONS, bumpy, 2.1 + noise)
    assert 0.71 <= mean_of_the_bump.speedup <= 1.001


def test_the_interval_covers_and_rarely_claims_what_is_not_there():
    """benchmarks/speedup_coverage.py has 2,000 studies of each kind."""
    rng = np.random.default_rng(0)
    covered = []
    claimed = []
    for _ in range(400):
        found = reach(HORIZONS, *noisy(rng, 1.0))
        low = 0.0 if found.ci_low is None else found.ci_low
        high = np.inf if found.ci_high is None else found.ci_high
        covered.append(low <= 1.0 <= high)
        claimed.append(found.ci_low is not None and found.ci_low > 1)
    assert 0.925 <= np.mean(covered) <= 0.975
    assert np.mean(claimed) <= 0.05


@pytest.fixture
def analyses():
    """Analyses of gpt and vit with a reference that is trained with half and with twice the steps."""
    one_horizon = study(optimizers=("AdamW", "Lion", "PsiLogic"), seeds=range(1, 6), compare=Compare())
    asked = with_horizons(one_horizon, 0.5, 2)
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
    assert [*rows] == [("gpt", "AdamW"), ("gpt", "Lion"), ("vit", "AdamW"), ("vit", "Lion")]
    near = rows["gpt", "AdamW"]
    assert (near.verdict, near.claimed, near.n) == ("better", True, 5)
    assert (near.shortest, near.longest) == (0.5, 2.0)
    assert 1.2 < near.speedup < 1.7
    far = rows["gpt", "Lion"]
    assert (far.speedup, far.beyond) == (None, "at least")
    assert (far.ci_low, far.ci_high) == (2.0, None)
    assert speedup_text(far) == "≥ 2.00 [2.00, ≥ 2.00]"
    assert rows["vit", "AdamW"].note == "not all trials finished"
    # the paired test has p = 0.035, which Holm's correction doubles: a speed-up needs the verdict too
    paired = rows["vit", "Lion"]
    assert paired.ci_low > 1
    assert paired.verdict == "inconclusive"
    assert not paired.claimed


def test_the_speedup_in_time_has_the_ratio_of_the_steps(analyses):
    """A step of the reference takes twice as long."""
    row = analyses.of(speedups)[0]
    assert row.time_speedup == pytest.approx(2 * row.speedup)
    assert row.time_low / row.ci_low == pytest.approx(2.0)


def test_flags_findings_and_leaderboard_have_it(analyses):
    flags = {flag.name: flag for flag in analyses.of(audit)}
    assert "gpt Lion at least 2" in flags["speed-up beyond the horizons"].text
    assert speed_up(analyses).startswith("2 of 4 arms are faster than PsiLogic, which needs a verdict of better")
    standings = {standing.optimizer: standing for standing in analyses.of(leaderboard)}
    assert standings["Lion"].faster == 1
    assert standings["PsiLogic"].faster is None
    assert {c.arena for c in analyses.comparisons} == {"gpt", "vit"}


def test_the_measured_coverage_is_that_of_the_level():
    with MEASURED.open() as file:
        rows = [*csv.DictReader(file)]
    assert rows
    for row in rows:
        assert 0.93 <= float(row["coverage"]) <= 0.97
        if float(row["speedup"]) == 1:
            assert float(row["claimed"]) <= 0.05
