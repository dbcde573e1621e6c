"""Monitoring of the chaos detector, tensor by tensor; nothing is read from the device before a result is requested."""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from psilogic.monitor_record import Record, Seen
from psilogic.monitor_results import TOTALS, WRITTEN, ScalarWriter, Spike, TensorChaos, joined
from psilogic.step import Observable
from psilogic.warmup import steps_of_start

__all__ = ["Monitor", "ScalarWriter", "Spike", "TensorChaos", "monitor"]


class Monitor:
    """Counts what an optimizer's chaos detector decides, tensor by tensor; `monitor` makes one.

    Example:
        >>> w = torch.nn.Parameter(torch.ones(3))
        >>> optimizer = psilogic.PsiLogic([("w", w)], chaos_warmup=0)
        >>> watching = psilogic.monitor(optimizer)
        >>> for grad in (*[1.0] * 99, 100.0):
        ...     w.grad = torch.full_like(w, grad)
        ...     optimizer.step()
        >>> watching
        Monitor(100 steps of 1 tensor, 69 of 100 fired, 69 cancelled)
        >>> watching.spikes()[-1].name, watching.read()[0].steps
        ('w', 100)
    """

    def __init__(self, optimizer: Observable, names: Iterable[tuple[str, Tensor]] = ()) -> None:
        self._optimizer = optimizer
        self._names = _names_by_parameter(names)
        self._check_names()
        self._record = Record()
        optimizer.observers.append(self._record.observe)
        self._hook = optimizer.register_step_pre_hook(self._record.count)

    def __repr__(self) -> str:
        """The totals in a line."""
        rows = self.read()
        fired = sum(row.gate_steps for row in rows)
        acted = sum(row.active_steps for row in rows)
        tensor_steps = sum(row.steps for row in rows)
        tensors = "1 tensor" if len(rows) == 1 else f"{len(rows)} tensors"
        return f"Monitor({self._record.step} steps of {tensors}, {fired} of {tensor_steps} fired, {acted} cancelled)"

    def detach(self) -> None:
        """Stop monitoring, if it has not stopped; earlier results can still be read."""
        if self._record.observe in self._optimizer.observers:
            self._optimizer.observers.remove(self._record.observe)
        self._hook.remove()

    def read(self) -> list[TensorChaos]:
        """The results of every tensor that had a gradient, in the optimizer's order. This waits for the device."""
        rows: dict[int, TensorChaos] = {}
        oldest_first = sorted(self._record.seen.values(), key=lambda seen: seen.step)
        for seen in oldest_first:
            for param, row in zip(seen.params, self._rows(seen), strict=True):
                earlier = rows.get(id(param))
                if earlier is not None:
                    row = joined(earlier, row)
                rows[id(param)] = row
        return [rows[id(param)] for param in self._params() if id(param) in rows]

    def totals(self) -> dict[str, float]:
        """The sums over all tensors and steps. This waits for the device.

        Returns:
            tensor_steps: pairs of a tensor and a step; gate_share: fraction of them with s = 1, in the warm-up too;
            active_share: fraction with w c > 0; cancellation: sum of w c; weight_decay: sum of lr weight_decay. A w c
            below the rounding of a weight changes nothing.
        """
        sums = torch.zeros(5, dtype=torch.float64)
        for seen in self._record.seen.values():
            sums = sums + seen.sums.sum(dim=1).cpu()
        fired, active, cancellation, weight_decay, tensor_steps = sums.tolist()
        divisor = max(tensor_steps, 1)
        return {
            "tensor_steps": int(tensor_steps),
            "gate_share": fired / divisor,
            "active_share": active / divisor,
            "cancellation": cancellation,
            "weight_decay": weight_decay,
        }

    def quantities(self) -> dict[str, tuple[str, dict[str, float]]]:
        """For each quantity its unit and each tensor's total since the monitor began. This waits for the device.

        Returns:
            tensor_steps: steps with a gradient; fired: those with s = 1; acted: those that cancelled something;
            cancellation: sum of w c; weight_decay: sum of lr weight_decay.
        """
        rows = self.read()
        quantities = {}
        for name, quantity in TOTALS.items():
            totals = {row.name: float(getattr(row, quantity.attribute)) for row in rows}
            quantities[name] = (quantity.unit, totals)
        return quantities

    def spikes(self) -> list[Spike]:
        """The spikes (s = 1 after the warm-up) in the last 1,000 steps, oldest first.

        The averages start at zero, so at first (68 steps with the defaults) a steady gradient fires, too. These steps
        of a tensor are left out. Compiled steps and replays of a CUDA graph are not in this log; `read` and `totals`
        count them.
        """
        names = self._all_names()
        starts = self._steps_of_starts()
        ages = self._ages_before_log()
        spikes = []
        for firing in self._record.firings:
            for param in firing.params:
                ages[id(param)] += 1
            for i in torch.nonzero(firing.fired).flatten().tolist():
                param = firing.params[i]
                if ages[id(param)] <= starts.get(id(param), 0):
                    continue
                name = names[id(param)]
                spikes.append(Spike(firing.step, name, ratio=float(firing.ratio[i])))
        return spikes

    def write(self, writer: ScalarWriter, step: int) -> None:
        """Write every tensor's quantities as scalars `chaos/QUANTITY/TENSOR`.

        Args:
            writer: a TensorBoard `SummaryWriter`, or anything with its `add_scalar`.
            step: the step passed to the writer.
        """
        for row in self.read():
            for quantity in WRITTEN:
                value = float(getattr(row, quantity))
                writer.add_scalar(f"chaos/{quantity}/{row.name}", value, step)
            writer.add_scalar(f"chaos/total_cancellation/{row.name}", row.total_cancellation, step)

    def state_dict(self) -> dict[str, Any]:
        """All results as plain values and tensors, for the monitor of an optimizer that resumes from a checkpoint."""
        return self._record.state_dict(self._params())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the results of another monitor.

        Args:
            state: its `state_dict`; the optimizers have the same parameters in the same order.
        """
        self._record.load_state_dict(state, self._params())

    def _check_names(self) -> None:
        """Warn if names were given, and all of them are those of other parameters."""
        known = {id(param) for param in self._params()}
        if self._names and known.isdisjoint(self._names):
            warnings.warn(
                f"none of the {len(self._names)} names given to psilogic.monitor is that of a parameter of this "
                "optimizer, so its tensors are named by group and place; give model.named_parameters() of the model "
                "that it trains",
                stacklevel=4,
            )

    def _params(self) -> list[Tensor]:
        return [param for group in self._optimizer.param_groups for param in group["params"]]

    def _rows(self, seen: Seen) -> Iterator[TensorChaos]:
        """The results of the tensors of a bucket, in its order."""
        names = self._all_names()
        group_names = self._group_names()
        last = seen.decision
        vectors = [
            last.gn,
            last.memory.fast,
            last.memory.slow,
            last.ratio,
            last.chaos,
            last.gate,
            last.warmup,
            last.cancellation,
        ]
        # Two transfers from the device, however many tensors there are.
        values_of_each = torch.stack([vector.to(last.gn.dtype) for vector in vectors]).T.tolist()
        sums_of_each = seen.sums.T.tolist()
        for param, values, sums in zip(seen.params, values_of_each, sums_of_each, strict=True):
            gn, fast, slow, ratio, chaos, gate, warmup, cancellation = values
            gate_steps, active_steps, total_cancellation, total_weight_decay, steps = sums
            yield TensorChaos(
                name=names[id(param)],
                group=group_names[id(param)],
                gn=gn,
                fast=fast,
                slow=slow,
                ratio=ratio,
                chaos=chaos,
                gate=bool(gate),
                warmup=warmup,
                cancellation=cancellation,
                steps=round(steps),
                gate_steps=round(gate_steps),
                active_steps=round(active_steps),
                total_cancellation=total_cancellation,
                total_weight_decay=total_weight_decay,
            )

    def _steps_of_starts(self) -> dict[int, int]:
        """For each tensor the steps of its detector's start."""
        starts = {}
        for group in self._optimizer.param_groups:
            start = steps_of_start(group)
            for param in group["params"]:
                starts[id(param)] = start
        return starts

    def _ages_before_log(self) -> Counter[int]:
        """For each tensor the steps that its detector has taken before those in the log of spikes.

        They are counted for each tensor, since one without a gradient takes no part in a step.
        """
        ages: Counter[int] = Counter()
        for param in self._params():
            state = self._optimizer.state.get(param)
            if state:
                ages[id(param)] = int(state["step"]) - int(state.get("chaos_start", 0))
        for firing in self._record.firings:
            for param in firing.params:
                ages[id(param)] -= 1
        return ages

    def _group_names(self) -> dict[int, str]:
        """The name of each tensor's group, or the group's index."""
        names = {}
        for i, group in enumerate(self._optimizer.param_groups):
            for param in group["params"]:
                names[id(param)] = str(group.get("name", i))
        return names

    def _all_names(self) -> dict[int, str]:
        """The given names, or those of the optimizer's groups, or `<group>.<position>`."""
        names: dict[int, str] = {}
        for i, group in enumerate(self._optimizer.param_groups):
            param_names = group.get("param_names")
            if not param_names:
                prefix = group.get("name", i)
                param_names = [f"{prefix}.{k}" for k in range(len(group["params"]))]
            for param, name in zip(group["params"], param_names, strict=True):
                names[id(param)] = name
        names.update(self._names)
        return names


def _names_by_parameter(names: Iterable[tuple[str, Tensor]]) -> dict[int, str]:
    """The name of each parameter, by its identity."""
    wanted = "pairs of a name and a parameter, such as model.named_parameters()"
    if isinstance(names, nn.Module):
        raise TypeError(f"monitor needs {wanted}; got the {type(names).__name__} itself")
    named = {}
    for pair in names:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise TypeError(f"monitor needs {wanted}; got an item of type {type(pair).__name__}")
        name, param = pair
        named[id(param)] = name
    return named


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
        TypeError: the optimizer is not a PsiLogic, or the names are not pairs of a name and a parameter.

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
