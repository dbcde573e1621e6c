"""Whether the chaos term acted at all, and how much it took away beside weight decay."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from fairbench.analysis.results import ArmResults, Results


@dataclass(frozen=True)
class Mechanism:
    """The chaos term in one arm, means over the final seeds that did not fail.

    Attributes:
        arena: name of the arena.
        optimizer: name of the optimizer.
        n: seeds.
        gate_share: share of (tensor, step) pairs with an open gate, s = 1.
        active_share: share of pairs in which something was removed, w s > 0.
        cancellation: sum of w c over all pairs.
        weight_decay: sum of lr weight_decay over all pairs.
        ratio: cancellation / weight_decay; None without weight decay.
        state: the same in words.
    """

    arena: str
    optimizer: str
    n: int
    gate_share: float
    active_share: float
    cancellation: float
    weight_decay: float
    ratio: float | None
    state: str


def mechanisms(results: Results) -> list[Mechanism]:
    """The chaos term in every arm whose optimizer has one and that has records, in the order of the suite."""
    found = [(arm, [run.result["chaos"] for run in arm.final if run.result]) for arm in results.arms]
    return [_mechanism(arm, tallies) for arm, tallies in found if tallies and all(tallies)]


def _mechanism(arm: ArmResults, tallies: list[Mapping[str, float]]) -> Mechanism:
    names = ("gate_share", "active_share", "cancellation", "weight_decay")
    gate, active, cancellation, weight_decay = (fmean(tally[name] for tally in tallies) for name in names)
    ratio = cancellation / weight_decay if weight_decay > 0 else None
    state = _state(gate, active, ratio)
    return Mechanism(arm.arena, arm.optimizer, len(tallies), gate, active, cancellation, weight_decay, ratio, state)


def _state(gate: float, active: float, ratio: float | None) -> str:
    if gate == 0:
        return "never fired"
    if active == 0:
        return "gate open only while the term was held at 0, removed nothing"
    if ratio is None:
        return f"fired in {100 * active:.3g}% of tensor steps, there is no weight decay to compare with"
    return f"fired in {100 * active:.3g}% of tensor steps, removed {100 * ratio:.3g}% of what weight decay removed"
