"""Checks of the times; no verdict depends on them."""

from collections.abc import Iterator

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.cost import STEP_PHASES, timed_records
from fairbench.common.checks import check
from fairbench.common.formatting import merged

DATA_BOUND = 0.2
"""Share of a training step above which loading the batch dominates its time."""


@check("data-bound timing", "note", "Do not compare step times there; bring the data nearer to the device.")
def data_bound(case: Analyses) -> str:
    """Getting the batch takes a fifth of an arm's training step or more."""

    def shares() -> Iterator[tuple[str, str]]:
        for arm in case.results.arms:
            seconds = [record["cost"]["seconds"] for record in timed_records(arm)]
            whole = sum(x[phase] for x in seconds for phase in STEP_PHASES)
            share = sum(x["data"] for x in seconds) / whole if whole else 0.0
            if share >= DATA_BOUND:
                yield arm.arena, f"{arm.optimizer} {100 * share:.0f}% of the step"

    return merged(shares())


@check("shared device", "note", "Time with `--timing`, or run fewer trials at a time on the device.")
def shared_device(case: Analyses) -> str:
    """Trials whose times make up the cost of an arm shared their device with other trials."""

    def shared() -> Iterator[tuple[str, str]]:
        for arm in case.results.arms:
            timed = timed_records(arm)
            busy = sum(not record["cost"]["alone"] for record in timed)
            if busy:
                yield arm.arena, f"{arm.optimizer} {busy} of {len(timed)} trials, which are not part of any cost"

    return merged(shared())
