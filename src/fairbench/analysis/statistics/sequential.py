"""Group-sequential designs: tests repeated at looks while seeds are added, that err as rarely as declared.

Z is the statistic at a look, t the seeds at that look as a fraction of those at the last one. Without a true difference
the Z of all looks are jointly normal:

    cov(Z_j, Z_k) = sqrt(t_j / t_k),    j <= k

This holds for the paired test and for Welch's. So the normal distribution gives the level at each look, and p-values of
the t-test are compared with that level (Jennison and Turnbull, "Group Sequential Methods", 2000, section 4.4: the
significance level approach). A level or p-value of a two-sided test is that of both sides together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

from fairbench.suites.stages import SPENDING

Array = npt.NDArray[np.float64]

FARTHEST = 38.0
"""The normal quantile beyond which a probability is 0 as a float."""
EDGE = 9.0
"""The normal quantile beyond which integrals end: the probability beyond it is 1e-19."""
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(16)
"""The rule of Gauss and Legendre for a piece of an integral."""
PIECE = 4.0
"""The largest piece, in standard deviations of the smaller of its two increments."""
STUDIES = 10_000
"""Simulated studies."""
LEAST, MOST = 1e-12, 0.5
"""The range of repeated p-values: smaller ones are given as `LEAST`, larger ones as 1."""


class Walk:
    """The distribution of S = Z sqrt(t) in the studies that no look has ended so far.

        f_k(s) = integral of f_(k-1)(u) phi((s - u) / sqrt(d)) / sqrt(d) du,    d = t_k - t_(k-1)

    The integral is over what look k - 1 does not end: |u| < c sqrt(t) in a two-sided test, u < c sqrt(t) in a one-sided
    one.

    Source: Armitage, McPherson and Rowe, "Repeated significance tests on accumulating data", J. R. Stat. Soc. 1969.
    """

    def __init__(self, sides: int) -> None:
        self._sides, self._fraction = sides, 0.0
        self._places, self._weights = np.zeros(1), np.ones(1)

    def ends(self, fraction: float, bound: float) -> float:
        """The probability that no earlier look ends a study and the one at this fraction does."""
        z = (self._places - bound * math.sqrt(fraction)) / math.sqrt(fraction - self._fraction)
        return self._sides * float(self._weights @ special.ndtr(z))

    def pass_look(self, fraction: float, bound: float, following: float) -> None:
        """Continue with what the look at this fraction does not end; `following` is the fraction of the next one."""
        high, step = min(bound, EDGE) * math.sqrt(fraction), math.sqrt(fraction - self._fraction)
        low = -high if self._sides == 2 else -EDGE * math.sqrt(fraction)
        pieces = math.ceil((high - low) / (PIECE * min(step, math.sqrt(following - fraction))))
        half = (high - low) / pieces / 2
        places = (low + half * (2 * np.arange(pieces)[:, None] + 1 + POINTS)).ravel()
        density = np.exp(-(((places[:, None] - self._places) / step) ** 2) / 2) / (math.sqrt(2 * math.pi) * step)
        self._places, self._weights = places, half * np.tile(WEIGHTS, pieces) * (density @ self._weights)
        self._fraction = fraction


def spent(bounds: Sequence[float], fractions: Sequence[float], sides: int) -> list[float]:
    """The probability, without a true difference, that a study has ended by each look: that Z exceeded its bound."""
    walk, total, of_looks = Walk(sides), 0.0, []
    for fraction, bound, following in zip(fractions, bounds, [*fractions[1:], None], strict=True):
        total += walk.ends(fraction, bound)
        of_looks.append(total)
        if following:
            walk.pass_look(fraction, bound, following)
    return of_looks


def bounds_for(allowed: Sequence[float], fractions: Sequence[float], sides: int) -> list[float]:
    """The bound of Z at each look with which a study has ended by it with the allowed probability, as `spent` has it.

    Source: Lan and DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 1983.
    """
    walk, before, bounds = Walk(sides), 0.0, []
    for fraction, total, following in zip(fractions, allowed, [*fractions[1:], None], strict=True):
        bounds.append(_bound(walk, fraction, total - before))
        before = total
        if following:
            walk.pass_look(fraction, bounds[-1], following)
    return bounds


def _bound(walk: Walk, fraction: float, probability: float) -> float:
    if walk.ends(fraction, FARTHEST) >= probability:
        return FARTHEST
    lowest = -FARTHEST if walk.ends(fraction, 0.0) < probability else 0.0
    tiny = float(np.finfo(float).tiny)
    return float(
        optimize.brentq(
            lambda bound: math.log(max(walk.ends(fraction, bound), tiny) / probability), lowest, FARTHEST, xtol=1e-10
        )
    )


def classical_bounds(alpha: float, fractions: Sequence[float], spending: str, sides: int) -> list[float]:
    """The bounds of the tests of O'Brien and Fleming (1979) or Pocock (1977), for looks at any fractions.

        c_k = C t_k^(D - 1/2),    P(Z_k > c_k for any k) = alpha,    D by `SPENDING`

    Source: Wang and Tsiatis, "Approximately optimal one-parameter boundaries for group sequential trials", 1987.
    """

    def bounds(constant: float) -> list[float]:
        return [constant * fraction ** (SPENDING[spending] - 0.5) for fraction in fractions]

    return bounds(optimize.brentq(lambda c: spent(bounds(c), fractions, sides)[-1] - alpha, 1e-3, FARTHEST))


@lru_cache
def shares(looks: tuple[int, ...], spending: str, alpha: float, sides: int) -> list[float]:
    """The share of alpha that the classical test with these looks has spent by each of them; 1 at the last one."""
    fractions = [n / looks[-1] for n in looks]
    of_looks = spent(classical_bounds(alpha, fractions, spending, sides), fractions, sides)
    return [total / of_looks[-1] for total in of_looks]


@dataclass(frozen=True)
class Design:
    """A design with several looks.

    Attributes:
        looks: numbers of seeds at which an arm is judged, rising; the last one is the largest number.
        spending: a name in `fairbench.suites.stages.SPENDING`.
        alpha: the level at which the design is the classical test of that name; stricter tests, as Holm's correction
            needs them, spend the same share of their level by each look.
    """

    looks: tuple[int, ...]
    spending: str
    alpha: float

    def nominal_level(self, look: int, level: float, sides: int = 2) -> float:
        """The level of p at a look with which the looks together have a level: reject where p is at most that.

            a_k = sides (1 - Phi(c_k))

        Args:
            look: the number of the look, from 0.
            level: of all looks together, both sides included.
            sides: 2 to find a difference in either direction, 1 in one direction only.
        """
        if len(self.looks) == 1:
            return level
        fractions = [n / self.looks[-1] for n in self.looks[: look + 1]]
        of_looks = shares(self.looks, self.spending, self.alpha, sides)
        bounds = bounds_for([level * share for share in of_looks[: look + 1]], fractions, sides)
        return sides * float(special.ndtr(-bounds[-1]))

    def last_level(self, level: float) -> float:
        """The level of p at the last look; a power with this level is a lower bound of that of all looks together."""
        return self.nominal_level(len(self.looks) - 1, level)

    def repeated_p(self, p: float, look: int, sides: int = 2) -> float:
        """The repeated p-value: the smallest level of all looks together with which this look rejects.

            P_k = min {level: p_k <= a_k(level)}

        Without a true difference, P(P_k <= level at any look) <= level: it holds whenever, and for whatever reason, a
        study stops. It rises with p.

        Source: Jennison and Turnbull, "Group Sequential Methods", 2000, chapter 9.
        """
        if len(self.looks) == 1:
            return p
        if self.nominal_level(look, LEAST, sides) >= p:
            return LEAST
        if self.nominal_level(look, MOST, sides) < p:
            return 1.0

        def excess(log_level: float) -> float:
            return math.log(self.nominal_level(look, math.exp(log_level), sides) / p)

        return math.exp(optimize.brentq(excess, math.log(LEAST), math.log(MOST), xtol=1e-12))

    def expected_seeds(self, effect: float, level: float, test: str) -> float:
        """The expected seeds of each of two arms until a test finds their difference, by simulated studies.

        Args:
            effect: the true difference in the unit of `minimum_detectable_effect`; the seeds are normal.
            level: of all looks together.
            test: "paired" or "welch".
        """
        generator, seeds = np.random.default_rng(0), np.zeros(STUDIES)
        ours, theirs = (generator.standard_normal((STUDIES, self.looks[-1])) for _ in range(2))
        undecided = np.ones(STUDIES, bool)
        for look, n in enumerate(self.looks):
            seeds[undecided] = n
            if test == "paired":
                found = stats.ttest_1samp(ours[:, :n], -effect, axis=1)
            else:
                found = stats.ttest_ind(ours[:, :n] + effect, theirs[:, :n], axis=1, equal_var=False)
            undecided &= found.pvalue > self.nominal_level(look, level)
        return float(seeds.mean())


@dataclass(frozen=True)
class Look:
    """A look of a design, from 0."""

    design: Design
    number: int

    @property
    def seeds(self) -> int:
        """The number of seeds of each arm at this look."""
        return self.design.looks[self.number]

    @property
    def level(self) -> float:
        """The level of a repeated interval at this look: with these levels, all looks together cover with 95%."""
        return self.design.nominal_level(self.number, 0.05)

    def repeated(self, p: float | None, sides: int = 2) -> float | None:
        """The repeated p-value of a p-value at this look; None without one."""
        return None if p is None else self.design.repeated_p(p, self.number, sides)


ONLY_LOOK = Look(Design((1,), "obrien-fleming", 0.05), 0)
"""The look of a design with no other one."""
