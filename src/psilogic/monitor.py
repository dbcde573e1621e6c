"""Monitoring of the chaos detector, tensor by tensor; nothing is read from the device before a result is requested."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer

from psilogic.decision import Chaos, Decision, Observable
from psilogic.tensors.device_tables import capturing

SPIKE_LOG_STEPS = 1000
"""Number of last steps that the spike log covers."""


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


_QUANTITIES = {
    "tensor_steps": ("tensor steps", "steps"),
    "fired": ("tensor steps", "gate_steps"),
    "acted": ("tensor steps", "active_steps"),
    "cancellation": ("share of the tensor", "total_cancellation"),
    "weight_decay": ("share of the tensor", "total_weight_decay"),
}
"""Quantity: its unit, and the attribute of `TensorChaos` that is its total."""


class ScalarWriter(Protocol):
    """The interface of `torch.utils.tensorboard.SummaryWriter` that `Monitor.write` needs."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        """Record a value."""


@dataclass
class _Seen:
    """The tensors of a bucket: their sums, shape (5, N), the last decision about them and the step of that decision.

    Sums, the number of steps among them, are added on the device, so that they include replays of a CUDA graph.
    """

    params: list[Tensor]
    sums: Tensor
    decision: Decision
    step: int


class Monitor:
    """Counts what an optimizer's chaos detector decides, tensor by tensor; `monitor` makes one.

    Example:
        >>> w = torch.nn.Parameter(torch.ones(3))
        >>> optimizer = psilogic.PsiLogic([("w", w)], chaos_warmup=0)
        >>> watching = psilogic.monitor(optimizer)
        >>> for grad in (1.0, 1.0, 100.0):
        ...     w.grad = torch.full_like(w, grad)
        ...     optimizer.step()
        >>> watching
        Monitor(3 steps of 1 tensor, 3 of 3 fired, 3 cancelled)
        >>> watching.spikes()[-1].name, watching.read()[0].steps
        ('w', 3)
    """

    def __init__(self, optimizer: Observable, names: Iterable[tuple[str, Tensor]] = ()) -> None:
        self._optimizer = optimizer
        self._names = {id(p): name for name, p in names}
        self._seen: dict[tuple[int, ...], _Seen] = {}
        self._spikes: deque[tuple[int, list[Tensor], Tensor, Tensor]] = deque()
        self._step = 0
        optimizer._observers.append(self._observe)
        self._hook = optimizer.register_step_pre_hook(self._count)

    def __repr__(self) -> str:
        """The totals in a line."""
        rows = self.read()
        fired, acted, pairs = (sum(getattr(x, n) for x in rows) for n in ("gate_steps", "active_steps", "steps"))
        tensors = "1 tensor" if len(rows) == 1 else f"{len(rows)} tensors"
        return f"Monitor({self._step} steps of {tensors}, {fired} of {pairs} fired, {acted} cancelled)"

    def detach(self) -> None:
        """Stop monitoring, if it has not stopped; earlier results can still be read."""
        if self._observe in self._optimizer._observers:
            self._optimizer._observers.remove(self._observe)
        self._hook.remove()

    def read(self) -> list[TensorChaos]:
        """The results of every tensor that had a gradient, in the optimizer's order. This waits for the device."""
        rows: dict[int, TensorChaos] = {}
        for seen in sorted(self._seen.values(), key=lambda seen: seen.step):
            for p, row in zip(seen.params, self._rows(seen), strict=True):
                rows[id(p)] = _joined(rows[id(p)], row) if id(p) in rows else row
        return [rows[id(p)] for p in self._params() if id(p) in rows]

    def totals(self) -> dict[str, float]:
        """The sums over all tensors and steps. This waits for the device.

        Returns:
            tensor_steps: pairs of a tensor and a step; gate_share: fraction of them with s = 1; active_share: fraction
            that cancelled something; cancellation: sum of w c; weight_decay: sum of lr weight_decay.
        """
        sums = sum((seen.sums.sum(dim=1).cpu() for seen in self._seen.values()), torch.zeros(5, dtype=torch.float64))
        gate, active, cancellation, weight_decay, pairs = sums.tolist()
        shares = {"gate_share": gate / max(pairs, 1), "active_share": active / max(pairs, 1)}
        return {"tensor_steps": int(pairs), **shares, "cancellation": cancellation, "weight_decay": weight_decay}

    def quantities(self) -> dict[str, tuple[str, dict[str, float]]]:
        """For each quantity its unit and each tensor's total since the monitor began. This waits for the device.

        Returns:
            tensor_steps: steps with a gradient; fired: those with s = 1; acted: those that cancelled something;
            cancellation: sum of w c; weight_decay: sum of lr weight_decay.
        """
        rows = self.read()
        return {
            quantity: (unit, {row.name: float(getattr(row, attribute)) for row in rows})
            for quantity, (unit, attribute) in _QUANTITIES.items()
        }

    def spikes(self) -> list[Spike]:
        """The spikes (s = 1 after the warm-up) in the last `SPIKE_LOG_STEPS` steps, oldest first.

        Compiled steps and replays of a CUDA graph are not in this log; `read` and `totals` count them.
        """
        names = self._all_names()
        return [
            Spike(step, names[id(params[i])], float(ratios[i]))
            for step, params, fired, ratios in self._spikes
            for i in torch.nonzero(fired).flatten().tolist()
        ]

    def write(self, writer: ScalarWriter, step: int) -> None:
        """Write every tensor's quantities as scalars `chaos/QUANTITY/TENSOR`.

        Args:
            writer: a TensorBoard `SummaryWriter`, or anything with its `add_scalar`.
            step: the step passed to the writer.
        """
        for row in self.read():
            for quantity in ("gn", "fast", "slow", "ratio", "chaos", "gate", "warmup", "cancellation"):
                writer.add_scalar(f"chaos/{quantity}/{row.name}", float(getattr(row, quantity)), step)
            writer.add_scalar(f"chaos/total_cancellation/{row.name}", row.total_cancellation, step)

    def state_dict(self) -> dict[str, Any]:
        """All results as plain values and tensors, for the monitor of an optimizer that resumes from a checkpoint."""
        place = {id(p): i for i, p in enumerate(self._params())}

        def places(params: list[Tensor]) -> list[int]:
            return [place[id(p)] for p in params]

        every = [(x, {**x.decision._asdict(), "memory": x.decision.memory._asdict()}) for x in self._seen.values()]
        seen = [{"params": places(x.params), "sums": x.sums, "decision": d, "step": x.step} for x, d in every]
        spikes = [(step, places(params), fired, ratio) for step, params, fired, ratio in self._spikes]
        return {"step": self._step, "seen": seen, "spikes": spikes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the results of another monitor.

        Args:
            state: its `state_dict`; the optimizers have the same parameters in the same order.
        """
        params = self._params()
        self._step = state["step"]
        self._seen.clear()
        for seen in state["seen"]:
            mine = [params[i] for i in seen["params"]]
            decision = Decision(**{**seen["decision"], "memory": Chaos(**seen["decision"]["memory"])})
            self._seen[tuple(map(id, mine))] = _Seen(mine, seen["sums"].clone(), decision, seen["step"])
        self._spikes = deque((step, [params[i] for i in places], *rest) for step, places, *rest in state["spikes"])

    def _params(self) -> list[Tensor]:
        return [p for group in self._optimizer.param_groups for p in group["params"]]

    def _count(self, *step_arguments: Any) -> None:
        self._step += 1
        while self._spikes and self._spikes[0][0] <= self._step - SPIKE_LOG_STEPS:
            self._spikes.popleft()

    def _observe(self, params: list[Tensor], decision: Decision) -> None:
        active, once = decision.cancellation > 0, torch.ones_like(decision.gate)
        rows = (decision.gate, active, decision.cancellation, decision.decay - decision.cancellation, once)
        sums = torch.stack([row.to(decision.gn.dtype) for row in rows]).detach()
        key = tuple(map(id, params))
        seen = self._seen.get(key)
        if seen is not None:
            seen.sums.add_(sums)
            seen.decision, seen.step = decision, self._step
        elif capturing():  # each replay would reset the sums to this step's
            raise RuntimeError("a CUDA graph captures a monitored step: take a monitored step without a graph first")
        else:
            self._seen[key] = _Seen(params, sums, decision, self._step)
        if not (capturing() or torch.compiler.is_compiling()):  # a growing log would be compiled again in every step
            self._spikes.append((self._step, params, decision.gate & (decision.warmup > 0), decision.ratio))

    def _rows(self, seen: _Seen) -> Iterator[TensorChaos]:
        names, groups = self._all_names(), self._optimizer.param_groups
        group_names = {id(p): str(group.get("name", i)) for i, group in enumerate(groups) for p in group["params"]}
        d = seen.decision
        last = (d.gn, d.memory.fast, d.memory.slow, d.ratio, d.chaos, d.gate, d.warmup, d.cancellation)
        table = torch.stack([vector.to(d.gn.dtype) for vector in last]).T.tolist()
        for p, found, sums in zip(seen.params, table, seen.sums.T.tolist(), strict=True):
            found[5], counts = bool(found[5]), (round(sums[4]), round(sums[0]), round(sums[1]))
            row: Any = (names[id(p)], group_names[id(p)], *found, *counts, sums[2], sums[3])
            yield TensorChaos(*row)

    def _all_names(self) -> dict[int, str]:
        """The given names, or those of the optimizer's groups, or `<group>.<position>`."""
        names: dict[int, str] = {}
        for i, group in enumerate(self._optimizer.param_groups):
            known = group.get("param_names") or [f"{group.get('name', i)}.{k}" for k in range(len(group["params"]))]
            names |= {id(p): name for p, name in zip(group["params"], known, strict=True)}
        return names | self._names


def _joined(earlier: TensorChaos, later: TensorChaos) -> TensorChaos:
    """The later values with the sums of both: one tensor that was in two different buckets."""
    sums = ("steps", "gate_steps", "active_steps", "total_cancellation", "total_weight_decay")
    return TensorChaos(**{**vars(later), **{name: getattr(earlier, name) + getattr(later, name) for name in sums}})


def monitor(optimizer: Optimizer, names: Iterable[tuple[str, Tensor]] = ()) -> Monitor:
    """Monitor an optimizer's chaos detector from now on.

    Before something is read, a step costs a few operations on vectors over tensors and no wait for the device. `read`
    and `totals` include replays of a CUDA graph if a monitored step without the graph preceded its capture. Replays and
    compiled steps leave no spikes.

    Args:
        optimizer: the optimizer, or a framework's wrapper of it (Accelerate, Hugging Face's Trainer, Lightning).
        names: names of the parameters, as `model.named_parameters()`; without them those of the optimizer are used.

    Returns:
        The monitor: `read()` for each tensor, `totals()` for all together, `spikes()` for the log of spikes,
        `write(writer, step)` for TensorBoard.

    Raises:
        TypeError: the optimizer is not a PsiLogic.

    Example:
        >>> model = torch.nn.Linear(3, 1)
        >>> optimizer = psilogic.PsiLogic(model.parameters())
        >>> watching = monitor(optimizer, model.named_parameters())
        >>> model(torch.ones(2, 3)).sum().backward()
        >>> optimizer.step()
        >>> [row.name for row in watching.read()]
        ['weight', 'bias']
    """
    unwrapped: Any = optimizer
    while not isinstance(unwrapped, Observable) and hasattr(unwrapped, "optimizer"):
        unwrapped = unwrapped.optimizer
    if not isinstance(unwrapped, Observable):
        raise TypeError(f"monitor needs a PsiLogic, got {type(optimizer).__name__}")
    return Monitor(unwrapped, names)
