"""Studies with interim analyses: tests that are repeated while seeds are added, with one error rate for all together.

Each interim analysis has a fixed share of the level, and the shares add up to 1. An interim analysis rejects
where p is at most its share of it:

    p_k <= w_k level,    w_1 + ... + w_K = 1

Without a true difference, interim analysis k errs with a probability of at most w_k level, so all of them
together err with at most the level (Bonferroni's inequality). This holds for every test that is exact at
each interim analysis, however their results are correlated and for whatever reason a study stops. Where
two interim analyses would err in the same study, both are counted, so together they err less often than
the level allows.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special, stats

STUDIES = 10_000
"""The number of simulated studies."""


@dataclass(frozen=True)
class Design:
    """A design with several interim analyses.

    Attributes:
        interim_analyses: the numbers of seeds after which an arm is judged, rising; the last number is all seeds.
        spending: a name in `fairbench.suites.stages.SPENDING`.
        alpha: the level whose spending function gives the shares; stricter tests, as Holm's correction needs them,
            have the same shares.
    """

    interim_analyses: tuple[int, ...]
    spending: str
    alpha: float

    @cached_property
    def shares(self) -> list[float]:
        """The share of the level that each interim analysis has. Shares are the increments of a spending function f.

            obrien-fleming:  f(t) = 2 - 2 Phi(z / sqrt(t)),  z the normal quantile of 1 - alpha / 2
            pocock:          f(t) = alpha ln(1 + (e - 1) t)

        t is the number of seeds as a fraction of all seeds. The increments are divided by f(1) = alpha.

        Source: Lan and DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 1983.
        """
        fractions = np.array(self.interim_analyses) / self.interim_analyses[-1]
        if self.spending == "pocock":
            spent = np.log1p((math.e - 1) * fractions)
        else:
            quantile = special.ndtri(self.alpha / 2)
            spent = special.ndtr(quantile / np.sqrt(fractions))
        increments = np.diff(spent / spent[-1], prepend=0.0)
        return [float(share) for share in increments]

    def expected_seeds(self, effect: float, level: float, test: str) -> float:
        """The expected number of seeds of each of two arms until a test detects their difference, by simulated studies.

        Args:
            effect: the true difference, in the unit of `minimum_detectable_effect`. The seeds are normal.
            level: the level of all interim analyses together.
            test: "paired" or "welch".
        """
        generator = np.random.default_rng(0)
        shape = (STUDIES, self.interim_analyses[-1])
        ours = generator.standard_normal(shape)
        theirs = generator.standard_normal(shape)
        seeds = np.zeros(STUDIES)
        undecided = np.ones(STUDIES, bool)
        for n, share in zip(self.interim_analyses, self.shares, strict=True):
            seeds[undecided] = n
            if test == "paired":
                # `ours` are then the differences of pairs
                tests = stats.ttest_1samp(ours[:, :n], -effect, axis=1)
            else:
                tests = stats.ttest_ind(ours[:, :n] + effect, theirs[:, :n], axis=1, equal_var=False)
            undecided &= tests.pvalue > share * level
        return float(seeds.mean())


@dataclass(frozen=True)
class InterimAnalysis:
    """An interim analysis of a design.

    Attributes:
        seeds: the number of seeds of each arm.
        share: its part of the level; this may be 0 after very few of the seeds.
    """

    seeds: int
    share: float

    def repeated(self, p: float | None) -> float | None:
        """The repeated p-value of a p-value in this interim analysis: P_k = min(1, p_k / w_k).

        It is the smallest level of all interim analyses together with which this one rejects. Without a true
        difference, P(P_k <= level at any interim analysis) <= level, for whatever reason a study stops.

        Source: Jennison and Turnbull, "Group Sequential Methods", 2000, chapter 9.
        """
        if p is None:
            return None
        if p < self.share:
            return p / self.share
        return 1.0
