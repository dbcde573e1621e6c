"""What an optimizer's own mechanism does in a training: how much, when, and in which tensors.

Any optimizer may offer it with one method, which is called before the first step:

    def mechanism(self, named_parameters): ...     returns an object with
    def quantities(self): ...                      {quantity: (unit, {tensor: total since then})}
    def state_dict(self): ...                      what it has seen, as plain values and tensors, so that trials resume
    def load_state_dict(self, state): ...          from checkpoints; without these two they restart

Some names and units have a meaning: "tensor_steps" is how many pairs of tensor and step there were, "acted" in how many
of them something was changed, "fired" in how many it was asked for; `SHARE` is the unit of what shrinks a tensor.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

SHARE = "share of the tensor"
"""The unit of a sum of factors: 0.01 has taken 1% of a tensor away."""

Quantities = Mapping[str, tuple[str, Mapping[str, float]]]
"""Of each quantity its unit, and its total in each tensor."""


class Watch(Protocol):
    """What an optimizer returns whose mechanism can be watched."""

    def quantities(self) -> Quantities:
        """The totals since the watch began; this may wait for the device."""

    def state_dict(self) -> dict[str, Any]:
        """What was seen, as plain values and tensors; without it the optimizer's trials cannot be continued."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the state of another watch; the optimizer's own state has been loaded."""


class MechanismLog:
    """Reads an optimizer's mechanism at logged steps.

    Args:
        optimizer: the optimizer; None, or one that offers nothing, gives a log of nothing.
        named_parameters: names and parameters of the model.
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer | None, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> None:
        self._params = dict(named_parameters)
        offered = getattr(optimizer, "mechanism", None)
        self._watch: Watch | None = offered(list(self._params.items())) if callable(offered) else None
        self._last: dict[str, Mapping[str, float]] = {}
        self._units: dict[str, str] = {}
        self._course: list[tuple[int, dict[str, float]]] = []
        self._way: dict[str, float] = {}

    def read(self, step: int) -> None:
        """Record what was done since the last call, and how far it moved the weights at their present length."""
        if self._watch is None:
            return
        lengths = norms(self._params)
        increments = {}
        for quantity, (unit, totals) in self._watch.quantities().items():
            before = self._last.get(quantity, {})
            added = {name: total - before.get(name, 0.0) for name, total in totals.items()}
            increments[quantity] = sum(added.values())
            if unit == SHARE:
                way = sum(share * lengths[name] for name, share in added.items())
                self._way[quantity] = self._way.get(quantity, 0.0) + way
            self._last[quantity], self._units[quantity] = totals, unit
        self._course.append((step, increments))

    def state_dict(self) -> dict[str, Any]:
        """What was read so far, and what the watch has seen."""
        return {
            "watch": None if self._watch is None else self._watch.state_dict(),
            "last": {quantity: dict(totals) for quantity, totals in self._last.items()},
            "units": self._units,
            "course": self._course,
            "way": self._way,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what another log has read."""
        if self._watch is not None:
            self._watch.load_state_dict(state["watch"])
        self._last, self._units = state["last"], state["units"]
        self._course, self._way = state["course"], state["way"]

    def to_json(self) -> dict[str, Any] | None:
        """What was read, as plain JSON values; None if there is no mechanism.

        Returns:
            units: of each quantity; totals: over all tensors; course: (step, what was added since the last one);
            way: for decays, the distance that each moved the weights, summed over tensors;
            tensors: of each quantity the total of each tensor.
        """
        if self._watch is None:
            return None
        return {
            "units": self._units,
            "totals": {quantity: sum(totals.values()) for quantity, totals in self._last.items()},
            "course": [[step, increments] for step, increments in self._course],
            "way": self._way,
            "tensors": {quantity: dict(totals) for quantity, totals in self._last.items()},
        }


def norms(tensors: Mapping[str, Tensor]) -> dict[str, float]:
    """The length of each tensor; this waits for the device."""
    lengths = torch._foreach_norm([p.detach() for p in tensors.values()])
    return dict(zip(tensors, torch.stack(lengths).tolist(), strict=True))


class PathLength:
    """The path length of the weights: the length of each step, summed over tensors, estimated from samples of steps.

    Args:
        params: the parameters.
    """

    def __init__(self, params: Sequence[nn.Parameter]) -> None:
        self._params = params
        self._before: list[Tensor] = []
        self._last = 0
        self._length: Tensor | float = 0.0

    def begin(self) -> None:
        """Remember the weights before a step."""
        self._before = [p.detach().clone() for p in self._params]

    def end(self, step: int) -> None:
        """The step since `begin` stands for all steps since the last sample."""
        moved = torch._foreach_sub([p.detach() for p in self._params], self._before)
        self._before = []
        self._length = self._length + (step - self._last) * torch.stack(torch._foreach_norm(moved)).sum().double()
        self._last = step

    def length(self) -> float | None:
        """The path length so far, None if it is not finite; this waits for the device."""
        length = float(self._length)
        return length if math.isfinite(length) else None

    def state_dict(self) -> dict[str, Any]:
        """The length so far, and the last sample; between `begin` and `end` there is none."""
        return {"last": self._last, "length": self._length}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Add to that length."""
        self._last, self._length = state["last"], state["length"]
