"""What a monitor of the chaos detector returns: the results of each tensor, and spikes."""

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol


@dataclass(frozen=True)
class TensorChaos:
    """One tensor's chaos term: the last step that gave it a gradient, and all steps since the monitor began.

    Attributes:
        name: name of the tensor.
        group: name of its parameter group, or the group's index.
        gn: scale-normalized norm of the processed gradient.
        fast: the detector's 0.90-EMA.
        slow: the detector's 0.99-EMA.
        ratio: fast / (slow + eps).
        chaos: the chaos measure, in [0, 1.5).
        gate: s, True while the tensor spikes.
        warmup: w, the chaos warm-up weight.
        cancellation: w c, the fraction of theta that was cancelled in this step.
        steps: steps with a gradient.
        gate_steps: steps with s = 1.
        active_steps: steps that cancelled something.
        total_cancellation: sum of w c.
        total_weight_decay: sum of lr weight_decay.
    """

    name: str
    group: str
    gn: float
    fast: float
    slow: float
    ratio: float
    chaos: float
    gate: bool
    warmup: float
    cancellation: float
    steps: int
    gate_steps: int
    active_steps: int
    total_cancellation: float
    total_weight_decay: float


class Spike(NamedTuple):
    """A tensor that spiked: s = 1 after the warm-up.

    Attributes:
        step: the monitor's count of optimizer steps, from 1, without replays of CUDA graphs.
        name: name of the tensor.
        ratio: fast / (slow + eps) in that step.
    """

    step: int
    name: str
    ratio: float


class Total(NamedTuple):
    """A total that benchmarks read: its unit, and the attribute of `TensorChaos` that holds it."""

    unit: str
    attribute: str


TOTALS = {
    "tensor_steps": Total("tensor steps", "steps"),
    "fired": Total("tensor steps", "gate_steps"),
    "acted": Total("tensor steps", "active_steps"),
    "cancellation": Total("share of the tensor", "total_cancellation"),
    "weight_decay": Total("share of the tensor", "total_weight_decay"),
}

WRITTEN = ("gn", "fast", "slow", "ratio", "chaos", "gate", "warmup", "cancellation")
"""Attributes of `TensorChaos` that `Monitor.write` writes, besides the total cancellation."""


class ScalarWriter(Protocol):
    """The interface of `torch.utils.tensorboard.SummaryWriter` that `Monitor.write` needs."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        """Record a value."""


def joined(earlier: TensorChaos, later: TensorChaos) -> TensorChaos:
    """The later values with the sums of both, for a tensor that was in two different buckets."""
    return replace(
        later,
        steps=earlier.steps + later.steps,
        gate_steps=earlier.gate_steps + later.gate_steps,
        active_steps=earlier.active_steps + later.active_steps,
        total_cancellation=earlier.total_cancellation + later.total_cancellation,
        total_weight_decay=earlier.total_weight_decay + later.total_weight_decay,
    )
