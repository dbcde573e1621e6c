"""Values that have too many digits for two to be equal by chance."""

import math
from collections.abc import Sequence
from fractions import Fraction

MANY_EXAMPLES = 100_000
"""A value that is no fraction of this number of examples is no accuracy, and has six decimals or more."""
FEW_EXAMPLES = 1000
"""As `MANY_EXAMPLES`, where three or more trials agree."""


def is_exact(value: float, examples: int) -> bool:
    """Whether a value has more digits than an accuracy on this number of examples, as a share or in percent.

    Two accuracies of ten examples are often equal, and so are two losses with three decimals: they prove nothing.
    """
    fraction = Fraction(value).limit_denominator(examples)
    return abs(float(fraction) - value) > 1e-12 * max(abs(value), 1.0)


def are_equal_without_chance(values: Sequence[float]) -> bool:
    """Whether two or more values of different seeds are all equal, and have too many digits for chance."""
    if len(values) < 2 or len(set(values)) > 1 or not math.isfinite(values[0]):
        return False
    examples = MANY_EXAMPLES if len(values) == 2 else FEW_EXAMPLES
    return is_exact(values[0], examples)
