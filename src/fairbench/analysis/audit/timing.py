"""Checks of the times; no verdict depends on them."""

from collections.abc import Iterator

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit.check import check, said_once
from fairbench.analysis.results import ArmResults
from fairbench.study.records import Record

PHASES = ("data", "forward", "backward", "step")
"""The phases of a training step."""
DATA_BOUND = 0.2
"""Share of a training step from which the batch, and not the optimizer, says how long it takes."""


@check("data-bound timing", "note", "Do not compare step times there; bring the data nearer to the device.")
def data_bound(case: Analyses) -> str:
    """Getting the batch takes a fifth of an arm's training step or more."""

    def shares() -> Iterator[tuple[str, str]]:
        for arm in case.results.arms:
            seconds = [record["cost"]["seconds"] for record in _timed(arm)]
            whole = sum(x[phase] for x in seconds for phase in PHASES)
            share = sum(x["data"] for x in seconds) / whole if whole else 0.0
            if share >= DATA_BOUND:
                yield arm.arena, f"{arm.optimizer} {100 * share:.0f}% of the step"

    return said_once(shares())


@check("shared device", "note", "Time with `--timing`, or with no more trials at a time than the device has room for.")
def shared_device(case: Analyses) -> str:
    """Trials that say what an arm costs shared their device with others."""

    def shared() -> Iterator[tuple[str, str]]:
        for arm in case.results.arms:
            timed = _timed(arm)
            busy = sum(not record["cost"]["alone"] for record in timed)
            if busy:
                yield arm.arena, f"{arm.optimizer} {busy} of {len(timed)} trials, which no cost is made of"

    return said_once(shared())


def _timed(arm: ArmResults) -> list[Record]:
    """The records that an arm's cost is made of."""
    return [run.record for run in arm.timing or arm.final if run.record and run.record["cost"]]
