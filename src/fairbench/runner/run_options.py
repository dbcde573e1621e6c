"""How a study is run: options of the driver, on which no result depends."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from fairbench.training.place import Place


@dataclass(frozen=True)
class RunOptions:
    """How a study is run.

    Attributes:
        places: where trials run concurrently, one at each.
        trial_timeout: limit of a trial in seconds; 0 takes the suite's, or one derived from the preflight.
        checkpoint_every: seconds between the checkpoints of a trial, 0 for none until it is paused; None takes the
            suite's.
        timing: whether to time the optimizers' steps after all other trials.
        allow_mixed: whether trials may run in a different environment from those that have a record.
        fail_fast: whether the run ends at its first failed trial.
        ray: address of a Ray cluster that runs the trials, "local" to start one on this machine; None for none.
    """

    places: Sequence[Place]
    trial_timeout: float = 0.0
    checkpoint_every: float | None = None
    timing: bool = False
    allow_mixed: bool = False
    fail_fast: bool = False
    ray: str | None = None


def cores() -> int:
    """The number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
