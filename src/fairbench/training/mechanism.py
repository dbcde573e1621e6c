"""What an optimizer's own mechanism does in a training: how much, when, and in which tensors.

Any optimizer makes its mechanism observable by a method `mechanism(named_parameters)`, which is called before the first
step and returns a `Watch`. Without the watch's `state_dict` and `load_state_dict` an interrupted trial restarts.

Some names and units have a meaning. "tensor_steps" counts pairs of tensor and step, "acted" those in which something
was changed, "fired" those in which a change was triggered. `SHARE` is the unit of quantities that shrink a tensor.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from fairbench.study.record import MechanismReport, Series

SHARE = "share of the tensor"
"""The unit of a sum of factors: 0.01 means that 1% of the tensor was subtracted."""

READINGS = ("_last", "_units", "_increments", "_distances", "_not_finite")
"""What a log has collected so far."""
Quantities = Mapping[str, tuple[str, Mapping[str, float]]]
"""The unit of each quantity, and its total in each tensor."""


class Watch(Protocol):
    """What an optimizer's method `mechanism` returns."""

    def quantities(self) -> Quantities:
        """The totals since the watch began; this may wait for the device."""

    def state_dict(self) -> dict[str, Any]:
        """The state, as plain values and tensors."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the state of another watch; the state of the optimizer has been loaded before."""


class MechanismLog:
    """Reads an optimizer's mechanism at logged steps; one without a method `mechanism`, or None, gives an empty log."""

    def __init__(
        self, optimizer: torch.optim.Optimizer | None, named_parameters: Iterable[tuple[str, nn.Parameter]]
    ) -> None:
        self._params = dict(named_parameters)
        start = getattr(optimizer, "mechanism", None)
        self.watch: Watch | None = start(list(self._params.items())) if callable(start) else None
        self._last: dict[str, Mapping[str, float]] = {}
        self._units: dict[str, str] = {}
        self._increments: list[tuple[int, dict[str, float]]] = []
        self._distances: dict[str, float] = {}
        self._not_finite: dict[str, int] = {}

    def read(self, step: int) -> None:
        """Record the finite increments since the last call, and how far each decay moved the weights."""
        if self.watch is None:
            return
        lengths = _norms(self._params)
        increments: dict[str, float] = {}
        for quantity, (unit, given) in _quantities(self.watch, self._units).items():
            totals = {name: float(total) for name, total in given.items()}
            before = self._last.get(quantity, {})
            added = {name: total - before.get(name, 0.0) for name, total in totals.items()}
            increment = sum(added.values())
            distance = self._distances.get(quantity, 0.0)
            if unit == SHARE:  # of the present norm of each tensor
                distance += sum(share * lengths.get(name, math.nan) for name, share in added.items())
            numbers = (sum(totals.values()), increment, distance)
            if not all(map(math.isfinite, numbers)):
                self._not_finite[quantity] = self._not_finite.get(quantity, 0) + 1
                continue
            increments[quantity] = increment
            self._last[quantity] = totals
            self._units[quantity] = unit
            if unit == SHARE:
                self._distances[quantity] = distance
        self._increments.append((step, increments))

    def state_dict(self) -> dict[str, Any]:
        return {
            "watch": None if self.watch is None else self.watch.state_dict(),
            **{name: getattr(self, name) for name in READINGS},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.watch is not None:
            self.watch.load_state_dict(state["watch"])
        for name in READINGS:
            setattr(self, name, state[name])

    def recorded(self) -> MechanismReport | None:
        """All readings, as in a record; None without a mechanism. A quantity that a reading lacks did not increase."""
        if self.watch is None:
            return None
        steps = [step for step, _ in self._increments]
        columns: dict[str, list[float]] = {}
        for quantity in self._units:
            columns[quantity] = [added.get(quantity, 0.0) for _, added in self._increments]
        totals = {}
        tensors = {}
        for quantity, of_tensors in self._last.items():
            totals[quantity] = sum(of_tensors.values())
            tensors[quantity] = dict(of_tensors)
        return MechanismReport(
            units=self._units,
            totals=totals,
            course=Series(steps, columns),
            path_length=self._distances,
            tensors=tensors,
            not_finite=self._not_finite,
        )


def _quantities(watch: Watch, units: Mapping[str, str]) -> Quantities:
    """The quantities of a watch; NaN for those that had a unit before if they cannot be computed, as 0/0."""
    try:
        return watch.quantities()
    except ArithmeticError:
        names = units or ("every quantity",)
        return {name: ("", {"": math.nan}) for name in names}


def _norms(tensors: Mapping[str, Tensor]) -> dict[str, float]:
    """The L2 norm of each tensor; this waits for the device."""
    norms = torch._foreach_norm([tensor.detach() for tensor in tensors.values()])
    lengths = torch.stack(norms)
    if hasattr(lengths, "full_tensor"):  # of DTensors, in every process of their mesh
        lengths = lengths.full_tensor()
    return dict(zip(tensors, lengths.tolist(), strict=True))


class PathLength:
    """The path length of the weights: the L2 norm of each step, summed over tensors, estimated from samples of steps.

    length = sum over samples of (steps since the last sample) * sum over tensors of ||w_after - w_before||
    """

    def __init__(self, params: Sequence[nn.Parameter]) -> None:
        self._params = params
        self._before: list[Tensor] = []
        self._last = 0
        self._length: Tensor | float = 0.0

    def begin(self) -> None:
        self._before = [p.detach().clone() for p in self._params]

    def end(self, step: int) -> None:
        """Add the step since `begin`, which stands for all steps since the last sample."""
        after = [p.detach() for p in self._params]
        moved = torch._foreach_sub(after, self._before)
        self._before = []
        distance = torch.stack(torch._foreach_norm(moved)).sum().double()
        self._length = self._length + (step - self._last) * distance
        self._last = step

    def length(self) -> float | None:
        """The path length so far, None if it is not finite; this waits for the device."""
        length = float(self._length)
        return length if math.isfinite(length) else None

    def state_dict(self) -> dict[str, Any]:
        """The length and the last sampled step; not to be called between `begin` and `end`."""
        return {"last": self._last, "length": self._length}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._last = state["last"]
        self._length = state["length"]
