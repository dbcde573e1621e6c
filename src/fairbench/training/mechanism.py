"""The effects of an optimizer's own mechanism in a training: how much it does, when, and in which tensors.

An optimizer makes its mechanism observable by a method `mechanism(named_parameters)`, which is called before the first
step and returns a `Watch`. Without the watch's `state_dict` and `load_state_dict`, an interrupted trial restarts.

Some names and units have a meaning. "tensor_steps" counts pairs of a tensor and a step, "acted" counts the pairs in
which the mechanism changed something, and "fired" the pairs in which a change was triggered. `SHARE` is the unit of
quantities that shrink a tensor.
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
"""The attributes with what a log has collected so far."""
Quantities = Mapping[str, tuple[str, Mapping[str, float]]]
"""The unit of each quantity, and its total in each tensor."""


class Watch(Protocol):
    """The observer that an optimizer's method `mechanism` returns."""

    def quantities(self) -> Quantities:
        """The totals since the watch began. This may wait for the device."""

    def state_dict(self) -> dict[str, Any]:
        """The state, as plain values and tensors."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the state of another watch. The state of the optimizer has already been loaded."""


class MechanismLog:
    """The log of an optimizer's mechanism, which is read at logged steps.

    The log stays empty if the optimizer is None or has no method `mechanism`.
    """

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
        """Record the increment of each quantity since the last call, and how far each decay moved the weights.

        A quantity with a number that is not finite is counted, and otherwise left out.
        """
        if self.watch is None:
            return
        norms = _norms(self._params)
        increments: dict[str, float] = {}
        for quantity, (unit, given) in _quantities(self.watch, self._units).items():
            totals = {name: float(total) for name, total in given.items()}
            before = self._last.get(quantity, {})
            added = {name: total - before.get(name, 0.0) for name, total in totals.items()}
            increment = sum(added.values())
            distance = self._distances.get(quantity, 0.0)
            if unit == SHARE:  # a share of the present norm of each tensor
                distance += sum(share * norms.get(name, math.nan) for name, share in added.items())
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
        """All readings, as a record has them; None without a mechanism.

        A quantity that a reading lacks did not increase.
        """
        if self.watch is None:
            return None
        steps = [step for step, _ in self._increments]
        columns: dict[str, list[float]] = {}
        for quantity in self._units:
            columns[quantity] = [added.get(quantity, 0.0) for _, added in self._increments]
        totals = {}
        tensors = {}
        for quantity, total_of_tensor in self._last.items():
            totals[quantity] = sum(total_of_tensor.values())
            tensors[quantity] = dict(total_of_tensor)
        return MechanismReport(
            units=self._units,
            totals=totals,
            course=Series(steps, columns),
            path_length=self._distances,
            tensors=tensors,
            not_finite=self._not_finite,
        )


def _quantities(watch: Watch, units: Mapping[str, str]) -> Quantities:
    """The quantities of a watch. If they cannot be computed, as 0/0, all quantities with a known unit are NaN."""
    try:
        return watch.quantities()
    except ArithmeticError:
        names = units or ("every quantity",)
        return {name: ("", {"": math.nan}) for name in names}


def _norms(tensors: Mapping[str, Tensor]) -> dict[str, float]:
    """The L2 norm of each tensor. This waits for the device."""
    norms = torch.stack(torch._foreach_norm([tensor.detach() for tensor in tensors.values()]))
    if hasattr(norms, "full_tensor"):  # DTensors: every process of their mesh gets here
        norms = norms.full_tensor()
    return dict(zip(tensors, norms.tolist(), strict=True))


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
        """Keep the weights before a sampled step."""
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
        """The path length so far; None if it is not finite. This waits for the device."""
        length = float(self._length)
        return length if math.isfinite(length) else None

    def state_dict(self) -> dict[str, Any]:
        """The length and the last sampled step. This must not be called between `begin` and `end`."""
        return {"last": self._last, "length": self._length}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._last = state["last"]
        self._length = state["length"]
