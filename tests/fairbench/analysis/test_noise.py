"""The noise of a program, and what a number of pairs can show."""

import math
from statistics import stdev

import numpy as np
import pytest
from fabricated import Records, analysed, finals, study
from scipy import stats

from fairbench.analysis.noise import noise
from fairbench.common.errors import UsageError

BASE = [0.50, 0.61, 0.73, 0.45]
NAMES = {"arena": "vit", "base": "AdamW", "repeated": "PsiLogic"}


def measured(repeated, *cases):
    """The noise of two arms with four seeds; the first is BASE."""
    the_study = study(("vit",), ("AdamW", "PsiLogic"), seeds=(1, 2, 3, 4))
    records = Records(the_study, *cases, AdamW=BASE, PsiLogic=repeated)
    return noise(analysed(the_study, records).results, **NAMES)


def test_the_spread_over_seeds_and_between_runs_with_the_same_seed():
    found = measured([0.52, 0.61, 0.73, 0.45])
    assert (found.runs, found.repeated) == (8, 4)
    assert found.std_seeds == pytest.approx(stdev(BASE))
    assert found.std_repeated == pytest.approx(math.sqrt(0.02**2 / 2 / 4))  # the pooled sd of four pairs
    assert measured(BASE).std_repeated == 0


def test_a_run_that_failed_is_named():
    with pytest.raises(UsageError, match="the run with seed 2 is failed"):
        measured(BASE, finals(optimizer="AdamW", seed=2, outcome="failed"))


@pytest.mark.parametrize("row", range(4))
def test_what_pairs_can_show_has_a_power_of_80_percent(row):
    found = measured(BASE)
    reach = found.reaches[row]
    n = reach.pairs
    generator = np.random.default_rng(n)
    std_difference = math.sqrt(2) * found.std_seeds
    pairs = std_difference * generator.standard_normal((20_000, n))
    detected = stats.ttest_1samp(pairs + reach.difference, 0, axis=1).pvalue < 0.05
    assert detected.mean() == pytest.approx(0.8, abs=0.015)
    below = stats.ttest_1samp(pairs, reach.equivalence, axis=1, alternative="less").pvalue
    above = stats.ttest_1samp(pairs, -reach.equivalence, axis=1, alternative="greater").pvalue
    shown = np.maximum(below, above) < 0.05
    assert shown.mean() == pytest.approx(0.8, abs=0.03)
    assert reach.minutes == pytest.approx(2 * n * found.seconds / 60)
