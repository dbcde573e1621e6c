"""The rules of a session: what is kept, when the stack is certified, and at which level.

`base` is the last certified commit, and `head` the last one that was kept.

1. A try is dropped unless its first run, and then the mean of its first two, is better than the mean of head's runs by
   half a standard deviation.
2. A try that is kept gets a third run. Its second and third run count for the mean of head, the first one does not.
3. After five keeps, or 25 tries after the first of them, head is compared with base: both are trained now, with fresh
   seeds, in pairs, and these runs count for their means too.
4. The paired test is one-sided, after 4 pairs and after 8. A certificate ends at 4 if its mean gain is not positive.
5. A certified head is the new base; head returns to base if the mean gain is not positive, and stays otherwise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from fairbench.analysis.statistics.power import minimum_detectable_effect
from fairbench.analysis.statistics.sequential import Design, InterimAnalysis
from fairbench.analysis.statistics.significance import SAME_DIFFERENCE, critical_t, paired_t, sign_p, upper_tail

ALPHA = 0.05
"""The probability of a false certificate in a session, at most."""
CALIBRATION_RUNS = 6
"""The runs of base that tell the standard deviation over seeds."""
BETTER_BY = 0.5
"""The standard deviations by which a try must be better than head."""
SCREENING_RUNS = 2
"""The runs of a try that decide whether it is kept."""
MOST_KEEPS = 5
"""The keeps after which the stack is to be certified."""
MOST_TRIES = 25
"""The tries after a keep that was not certified since, after which the stack is to be certified."""
PAIRS = (4, 8)
"""The numbers of pairs after which a certificate is judged."""
DESIGN = Design(interim_analyses=PAIRS, spending="pocock", alpha=ALPHA)
FIRST = 6
"""The number of certificates with a large share of the level."""
FIRST_SHARE = 0.15
"""The share of the level of each of the first certificates."""


def share_of(certificate: int) -> float:
    """The share of the session's level that a certificate has. All shares together are 1.

        g_j = 0.15 for j <= 6,    0.1 * 6 / (pi^2 (j - 6)^2) for j > 6

    Args:
        certificate: its number j in the session, from 1.
    """
    if certificate <= FIRST:
        return FIRST_SHARE
    rest = 1 - FIRST * FIRST_SHARE
    return rest * 6 / (math.pi * (certificate - FIRST)) ** 2


def level_of(certificate: int) -> float:
    """The level of a certificate, alpha g_j, by its number j in the session, from 1."""
    return ALPHA * share_of(certificate)


def level_spent(certificates: int) -> float:
    """The level that the first certificates of a session have together."""
    return sum(level_of(number) for number in range(1, certificates + 1))


def passes(values: Sequence[float], head: Sequence[float], std: float, sign: int) -> bool:
    """Whether the mean of a try is better than that of head by half a standard deviation.

    Args:
        values: the metric of the runs of the try.
        head: the metric of the runs of head that count.
        std: the standard deviation over seeds.
        sign: 1 where higher values are better, otherwise -1.
    """
    gain = sign * (fmean(values) - fmean(head))
    return gain > BETTER_BY * std


def needed(head: Sequence[float], std: float, sign: int) -> float:
    """The value that the mean of a try must be better than, see `passes`."""
    return fmean(head) + sign * BETTER_BY * std


def is_due(keeps: int, tries: int) -> bool:
    """Whether the stack is to be certified.

    Args:
        keeps: the keeps since the last certificate.
        tries: the tries after the first of them.
    """
    return keeps >= MOST_KEEPS or tries >= MOST_TRIES


@dataclass(frozen=True)
class InterimResult:
    """What a certificate says after some of its pairs.

    Attributes:
        pairs: the number of pairs.
        gain: the mean difference of head and base, positive where head is better.
        low, high: the interval of the gain that decides; where the gain is certified, it excludes 0. None without a
            test.
        confidence: the coverage of the interval.
        p: the one-sided p-value, divided by the share of the level that this interim analysis has; None without a test.
        certified: whether p is at most the level of the certificate.
    """

    pairs: int
    gain: float
    low: float | None
    high: float | None
    confidence: float
    p: float | None
    certified: bool


def judge_pairs(base: Sequence[float], head: Sequence[float], sign: int, level: float) -> InterimResult:
    """Judge head against base after one of the numbers of pairs.

    The test is the paired t-test, or the sign test if every pair differs by the same amount. With 8 pairs the sign test
    has p = 0.01, more than the level of any certificate of a session.

    Args:
        base, head: the metric of each pair.
        sign: 1 where higher values are better, otherwise -1.
        level: the level of the certificate.
    """
    pairs = len(head)
    share = DESIGN.shares[PAIRS.index(pairs)]
    ours = [sign * value for value in head]
    theirs = [sign * value for value in base]
    test = paired_t(ours, theirs)
    tail = share * level
    low = None
    high = None
    one_sided = None
    if test.error is not None and test.df is not None:
        half_width = critical_t(tail, test.df) * test.error
        low = test.difference - half_width
        high = test.difference + half_width
        one_sided = upper_tail(test.difference / test.error, test.df)
    elif test.reason == SAME_DIFFERENCE and test.difference > 0:
        one_sided = sign_p(pairs) / 2
    p = InterimAnalysis(pairs, share).repeated(one_sided)
    return InterimResult(
        pairs=pairs,
        gain=test.difference,
        low=low,
        high=high,
        confidence=1 - 2 * tail,
        p=p,
        certified=p is not None and p <= level,
    )


def has_ended(found: InterimResult) -> bool:
    """Whether a certificate ends with an interim analysis: certified, without any gain, or with all its pairs."""
    return found.certified or found.gain <= 0 or found.pairs == PAIRS[-1]


def detectable_gain(std: float, certificate: int) -> float:
    """The true gain that all pairs of a certificate detect with 80% power, if the runs of a pair share nothing.

    Args:
        std: the standard deviation over seeds.
        certificate: its number in the session, from 1.
    """
    one_sided = DESIGN.shares[-1] * level_of(certificate)
    effect = minimum_detectable_effect(PAIRS[-1], 2 * one_sided, "paired")
    assert effect is not None
    return effect * math.sqrt(2) * std
