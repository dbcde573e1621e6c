"""How a study is run: what its driver is told beside the suite, and nothing that a number depends on."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from fairbench.training.place import Place


@dataclass(frozen=True)
class Conduct:
    """How a study is run.

    Attributes:
        places: where trials run at the same time, one at each.
        server: whether trials are forked from a server, else from this process.
        trial_timeout: seconds that a trial may take; 0 takes the suite's, or what the rehearsal suggests.
        checkpoint_every: seconds between the checkpoints of a trial, 0 for none until it is paused; None takes the
            suite's.
        oom: what becomes of a trial for which a GPU has no room: "fail", or "retry" once it is alone there.
        timing: whether to measure afterwards what a step of each optimizer costs.
        allow_mixed: whether trials may run on other ground than those that have a record.
        ray: address of a Ray cluster that runs the trials, "local" for one of this machine; None for none.
    """

    places: Sequence[Place]
    server: bool = True
    trial_timeout: float = 0.0
    checkpoint_every: float | None = None
    oom: str = "fail"
    timing: bool = False
    allow_mixed: bool = False
    ray: str | None = None


def cores() -> int:
    """CPU cores that this process may use."""
    return len(core_numbers())


def core_numbers() -> list[int]:
    """The numbers of these cores."""
    return sorted(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))


def units_of(conduct: Conduct, gpus: Sequence[str]) -> list[str]:
    """The cores or GPUs on which a driver runs trials; none where Ray runs them, on any machine.

    Args:
        conduct: how it runs them.
        gpus: what torch finds here, by names that are the same in every process.
    """
    if conduct.ray is not None:
        return []
    if conduct.places[0].kind == "cpu":
        return [f"core {number}" for number in core_numbers()]
    return [gpus[index] for index in sorted({int(place.device.partition(":")[2]) for place in conduct.places})]
