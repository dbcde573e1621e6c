"""The moderated t-test, by another implementation of limma's formulas and by variances with a known prior."""

import math

import numpy as np
import pytest
from fabricated import Records, study
from scipy import optimize, special, stats

from fairbench.analysis.comparison.interim_analyses import judge_interim_analyses
from fairbench.analysis.comparison.left_out_seed import without_seed
from fairbench.analysis.statistics.moderated import NO_PRIOR, Prior, common_variance, moderated

FOUR = ("AdamW", "Lion", "Adam", "PsiLogic")


def limma(variances, df):
    """limma's fitFDist: degrees of freedom and value of the prior, the former without a limit."""
    z = np.log(variances)
    e = z - special.digamma(df / 2) + np.log(df / 2)
    excess = e.var(ddof=1) - special.polygamma(1, df / 2)
    if excess <= 0:
        return math.inf, np.exp(e.mean())
    d = 2 * optimize.brentq(lambda x: special.polygamma(1, x) - excess, 1e-9, 1e9)
    return d, np.exp(e.mean() + special.digamma(d / 2) - np.log(d / 2))


@pytest.mark.parametrize("df", [2, 3, 7, 19])
@pytest.mark.parametrize("spread", [0.0, 0.01, 0.7, 3.0])
def test_the_prior_is_limmas_with_at_most_the_degrees_of_freedom_of_a_comparison(df, spread):
    generator = np.random.default_rng(df)
    variances = 1e-4 * generator.chisquare(df, 12) / df * np.exp(spread * generator.standard_normal(12))
    d, value = limma(variances, df)
    prior = common_variance(variances.tolist(), df)
    assert prior.df == pytest.approx(min(d, df))
    assert prior.variance == pytest.approx(value)


def test_a_prior_that_is_known_is_found():
    """Variances of 5 degrees of freedom around values that scatter as 4 * 0.3 / chi-square with 4 of them."""
    generator = np.random.default_rng(0)
    true_values = 4 * 0.3 / generator.chisquare(4, 20_000)
    variances = true_values * generator.chisquare(5, 20_000) / 5
    prior = common_variance(variances.tolist(), 5)
    assert prior.df == pytest.approx(4, rel=0.05)
    assert prior.variance == pytest.approx(0.3, rel=0.03)


def test_few_variances_share_nothing_and_nearly_equal_ones_as_much_as_they_may():
    assert common_variance([1.0, 2.0], 4) == NO_PRIOR
    alike = common_variance([2.0, 2.0, 2.0], 4)
    assert alike.df == 4
    # the mean of the logarithm of a chi-square variance is lower than the logarithm of its mean
    assert alike.variance == pytest.approx(2 * math.exp(math.log(2) - special.digamma(2)))
    assert moderated(1.0, 4, Prior(2.0, 2.0)) == Prior(pytest.approx(8 / 6), 6)


def scores_of(size=1.0):
    """The scores of four optimizers in five seeds, of which Adam's scatter less."""
    generator = np.random.default_rng(3)
    scores = {}
    for name in FOUR:
        noise = 0.01 * generator.standard_normal(5)
        if name == "Adam":
            noise /= 4
        scores[name] = (size * (0.5 + noise)).tolist()
    scores["PsiLogic"] = (size * (0.52 + 0.01 * generator.standard_normal(5))).tolist()
    return scores


def comparisons(scores, **fields):
    the_study = study(("vit",), FOUR, seeds=range(5), **fields)
    return judge_interim_analyses(the_study, Records(the_study, **scores)).comparisons


def test_the_comparisons_of_an_arena_share_their_variance():
    scores = scores_of()
    differences = {}
    for name in ("AdamW", "Lion", "Adam"):
        differences[name] = np.subtract(scores["PsiLogic"], scores[name])
    d, value = limma(np.array([x.var(ddof=1) for x in differences.values()]), 4)
    d = min(d, 4)
    for c in comparisons(scores):
        x = differences[c.baseline]
        variance = (4 * x.var(ddof=1) + d * value) / (4 + d)
        t = x.mean() / math.sqrt(variance / 5)
        assert (c.prior_df, c.df) == pytest.approx((d, 4 + d))
        assert c.t == pytest.approx(t)
        assert c.p == pytest.approx(2 * stats.t.sf(abs(t), 4 + d))


def test_a_comparison_without_a_seed_is_that_of_a_study_that_lacks_it():
    scores = scores_of()
    whole = study(("vit",), FOUR, seeds=range(5))
    interim = judge_interim_analyses(whole, Records(whole, **scores))
    left = {name: values[:2] + values[3:] for name, values in scores.items()}
    smaller = study(("vit",), FOUR, seeds=(0, 1, 3, 4))
    expected = judge_interim_analyses(smaller, Records(smaller, **left)).comparisons
    for c, other in zip(interim.comparisons, expected, strict=True):
        found = without_seed(c, 2, interim.comparisons, interim.results)
        assert found.prior_df == other.prior_df > 0
        assert (found.gain, found.error, found.df) == (other.gain, other.error, other.df)
        half_width = stats.t.isf((1 - c.ci_level) / 2, other.df) * other.error
        assert found.ci_high - other.gain == pytest.approx(half_width + other.finer_optimizer)
        assert other.gain - found.ci_low == pytest.approx(half_width + other.finer_baseline)


def test_welchs_test_shares_no_variance():
    scores = scores_of()
    for c in comparisons(scores, test="welch"):
        expected = stats.ttest_ind(scores["PsiLogic"], scores[c.baseline], equal_var=False)
        assert (c.prior_df, c.df, c.p) == pytest.approx((0, expected.df, expected.pvalue))


@pytest.mark.parametrize("size", [1e-170, 1e160, 1e300])
def test_metrics_whose_squares_are_no_numbers_are_judged_by_their_own_spread(size):
    scores = scores_of(size)
    for c in comparisons(scores, margin=None):
        expected = stats.ttest_rel(*(np.divide(scores[name], size) for name in ("PsiLogic", c.baseline)))
        assert (c.prior_df, c.p) == pytest.approx((0, expected.pvalue))


def test_three_seeds_decide_only_with_a_shared_variance():
    scores = {"PsiLogic": [0.90, 0.92, 0.91], "AdamW": [0.50, 0.53, 0.52]}
    others = {"Lion": [0.51, 0.51, 0.52], "Adam": [0.51, 0.50, 0.51]}
    two = study(("vit",), ("AdamW", "PsiLogic"))
    (alone,) = judge_interim_analyses(two, Records(two, **scores)).comparisons
    assert alone.verdict == "inconclusive"
    assert "3 seeds decide nothing, 4 are needed" in alone.note
    four = study(("vit",), FOUR)
    together = judge_interim_analyses(four, Records(four, **scores, **others)).comparisons
    assert [c.verdict for c in together] == ["better"] * 3
