"""The ranges of the numbers in a suite."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from fairbench.common.coercion import KeyPath, Wrong
from fairbench.suites.schema import Suite

MOST = 10**9
"""Upper bound of steps, examples and sizes; anything larger is a typo."""
REHEARSED = 3
"""Steps that the rehearsal takes with every optimizer; a final trial must have as many."""


@dataclass(frozen=True)
class Range:
    """The numbers that a key may have.

    Attributes:
        holds: whether a number is in the range.
        words: the range in words, after "must".
    """

    holds: Callable[[float], bool]
    words: str

    def check(self, path: KeyPath, value: float | None) -> None:
        """Raise `Wrong` if the value of a key is out of the range. A key that is left out has None."""
        if value is not None and not self.holds(value):
            raise Wrong(path, f"must {self.words}, got {value}")


def _within(least: int, most: int, remark: str = "") -> Range:
    """The numbers from `least` to `most`, both included. The remark follows the range in words."""
    return Range(lambda number: least <= number <= most, f"lie in [{least}, {most}]{remark}")


POSITIVE = Range(lambda number: 0 < number < inf, "be positive and finite")
SECONDS = Range(lambda number: 0 <= number < inf, "be a number of seconds, or 0")
SHARE = Range(lambda number: 0 <= number < 1, "be a share of the peak in [0, 1)")
PROBABILITY = Range(lambda number: 0 < number < 1, "lie between 0 and 1")
ODD = Range(lambda number: number in range(1, 22, 2), "be an odd number from 1 to 21")
UP_TO_MOST = _within(0, MOST)
AT_LEAST_ONE = _within(1, MOST)
EVALUATIONS = _within(1, 10_000)
STEPS = _within(REHEARSED, MOST, f" ({REHEARSED} are taken before any trial)")

OF_SUITE = {
    "alpha": PROBABILITY,
    "trend_margin": POSITIVE,
    "trial_timeout": SECONDS,
    "checkpoint_every": SECONDS,
    "first_steps": UP_TO_MOST,
}
OF_SWEEP = {
    "lr_min": POSITIVE,
    "lr_max": POSITIVE,
    "points": _within(2, 100),
    "budget": _within(0, 1000),
    "evaluations": EVALUATIONS,
}
OF_FINAL = {
    "evaluations": EVALUATIONS,
    "settings": ODD,
    "halve_after": _within(1, 1000),
}
OF_TRAINING = {
    "warmup_steps": UP_TO_MOST,
    "log_every": AT_LEAST_ONE,
    "clip_norm": UP_TO_MOST,
    "evaluation_batch_size": AT_LEAST_ONE,
    "min_lr": SHARE,
}
OF_ARENA = {
    "sweep_steps": AT_LEAST_ONE,
    "steps": STEPS,
    "batch_size": UP_TO_MOST,
    "margin": POSITIVE,
}
OF_OPTIMIZER = {
    "clip_norm": UP_TO_MOST,
    "min_lr": SHARE,
    "lr": POSITIVE,
    "lr_scale": POSITIVE,
}


def check_ranges(suite: Suite) -> None:
    """Raise `Wrong` for the first number that is out of its range."""
    _check_table((), suite, OF_SUITE)
    _check_table(("sweep",), suite.sweep, OF_SWEEP)
    _check_table(("final",), suite.final, OF_FINAL)
    _check_table(("training",), suite.training, OF_TRAINING)
    _check_tables("arenas", suite.arenas, OF_ARENA)
    _check_tables("optimizers", suite.optimizers, OF_OPTIMIZER)


def _check_table(path: KeyPath, table: object, ranges: Mapping[str, Range]) -> None:
    """Raise `Wrong` for the first number of a table that is out of its range."""
    for key, allowed in ranges.items():
        allowed.check((*path, key), getattr(table, key))


def _check_tables(kind: str, tables: Mapping[str, Any], ranges: Mapping[str, Range]) -> None:
    """Raise `Wrong` for the first number of several tables that is out of its range, key by key."""
    for key, allowed in ranges.items():
        for name, table in tables.items():
            allowed.check((kind, name, key), getattr(table, key))
