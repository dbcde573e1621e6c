"""Studies with invented records, which nobody trained: the tests say what each trial scores.

`studies` makes plans, `records` the records of their trials, `analyses` what fairbench finds in both, and `files` what
a run leaves in a folder.
"""

from fabricated.analyses import analysed, flags_of, given
from fabricated.files import saved, sealed, stored
from fabricated.mechanisms import QUANTITIES, TENSOR_STEPS, mechanism
from fabricated.records import Records, edited, finals, recorded, seconds, sha, sweep, timing
from fabricated.studies import (
    EVERY_PAIR,
    METRICS,
    history,
    rehearsed,
    resolved_optimizer,
    study,
    training,
    with_horizons,
    with_ladder,
    with_suite,
)

__all__ = [
    "EVERY_PAIR",
    "METRICS",
    "QUANTITIES",
    "TENSOR_STEPS",
    "Records",
    "analysed",
    "edited",
    "finals",
    "flags_of",
    "given",
    "history",
    "mechanism",
    "recorded",
    "rehearsed",
    "resolved_optimizer",
    "saved",
    "sealed",
    "seconds",
    "sha",
    "stored",
    "study",
    "sweep",
    "timing",
    "training",
    "with_horizons",
    "with_ladder",
    "with_suite",
]
