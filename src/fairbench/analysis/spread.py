"""Whether two arms scatter alike: an optimizer may be as good on the mean and less reliable."""

import sys
from statistics import median

from scipy import stats

from fairbench.analysis.significance import Values

EPSILON = sys.float_info.epsilon


def brown_forsythe(a: Values, b: Values) -> float | None:
    """Test that two arms have the same spread, whatever their means: an F-test of |x - median|.

    Args:
        a: one sample.
        b: the other.

    Returns:
        The p-value; None where the distances from the median are constant in both samples, as those of two seeds are.

    Source: Brown and Forsythe, "Robust tests for the equality of variances", J. Am. Stat. Assoc. 1974.
    """
    if all(map(_as_far_from_the_median, (a, b))):
        return None
    return float(stats.levene(a, b, center="median").pvalue)


def _as_far_from_the_median(values: Values) -> bool:
    """Whether all lie as far from the median, but for the rounding of the values and of their subtraction."""
    distances = [abs(x - median(values)) for x in values]
    rounding = 4 * EPSILON * max(map(abs, values))
    return max(distances) - min(distances) <= max(1e-9 * max(distances), rounding)
