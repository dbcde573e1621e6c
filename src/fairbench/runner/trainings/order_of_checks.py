"""The order in which optimizers or variants have their first checks, and how long a check takes."""

from fairbench.common.formatting import duration
from fairbench.common.wording import OPTIMIZER
from fairbench.suites.schema import Suite

QUICK = 40.0
"""A run that takes more seconds is not repeated."""
REPEATED_RUNS = 3
"""The runs of the first variant: the first one, one with another seed, and one with the same seed."""


def order_of_checks(suite: Suite) -> list[str]:
    """The optimizers or variants in the order of their first checks.

    Variants begin with the last one, and the reference follows at the end: it is the one that is known to work.
    """
    names = list(suite.optimizers)
    if suite.noun == OPTIMIZER:
        return names
    others = [name for name in reversed(names) if name != suite.reference]
    return [*others, suite.reference]


def expected_time(suite: Suite, name: str, seconds: float) -> str:
    """How long the first check of a variant takes, for a message; empty if that is not known.

    Args:
        suite: the suite.
        name: the variant.
        seconds: those of the check before; 0 without one.
    """
    if suite.noun == OPTIMIZER or not seconds:
        return ""
    runs = 1
    is_repeated = name == next(iter(suite.optimizers)) and seconds < QUICK
    if is_repeated:
        runs = REPEATED_RUNS
    return f", about {duration(runs * seconds)}"
