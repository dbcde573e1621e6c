"""The state of each parameter: Adam's state and the detector's scalars."""

from collections.abc import MutableMapping
from operator import is_
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import _get_scalar_dtype

from psilogic.tensors.buckets import Bucket
from psilogic.tensors.norms import Foreach, traced
from psilogic.tensors.scalars import State, join
from psilogic.tensors.sharding import local


def detector_dtype(param: Tensor) -> torch.dtype:
    """The dtype of the detector's scalars: float64 for float64 parameters, otherwise float32."""
    return torch.float64 if param.dtype in (torch.float64, torch.complex128) else torch.float32


def states_of(every: MutableMapping[Tensor, Any], bucket: Bucket, on_device: bool = False) -> list[State]:
    """The states of a bucket's parameters, each complete for its group's hyperparameters.

    Args:
        every: the optimizer's states; missing entries are started.
        bucket: the parameters.
        on_device: start their clocks on the device, also if the group is not capturable.
    """
    names = ["exp_avg", *["compensation"] * (bucket.rounding == "kahan"), *memory_names(bucket)]
    states: list[State] = [every[p] for p in bucket.params]
    if not all(map(set(names).issubset, states)):
        for p, state in zip(bucket.params, states, strict=True):
            _complete(state, p, names, bucket, bucket.group["capturable"] or bucket.group["fused"] or on_device)
    return states


def move_clocks_(states: list[State], device: torch.device) -> None:
    """Move clocks that are elsewhere, where they were loaded, to a device."""
    if any(state["step"].device != device for state in states):
        for state in states:
            state |= {name: state[name].to(device) for name in ("step", "chaos_start")}
        join(states, ("step", "chaos_start"))


def local_states(bucket: Bucket, states: list[State], name: str) -> Foreach:
    """The parts on this rank of the states' tensors of a name."""
    tensors = [state[name] for state in states]
    return tensors if all(map(is_, bucket.values, bucket.params)) else [local(x) for x in tensors]


def memory_names(bucket: Bucket) -> list[str]:
    """The names of the detector's memory in the states."""
    return ["chaos_fast", "chaos_slow", *["chaos_ref"] * (bucket.group["chaos_signal"] == "relative")]


def _complete(state: State, p: Tensor, names: list[str], bucket: Bucket, step_on_device: bool | None) -> None:
    """Start the missing entries of a parameter's state, including the detector's clock.

    As in torch, `step` and the moments come together, and with `fused=True` loading moves `step` to the device.
    """
    if "exp_avg" not in state:
        clock = p.device if step_on_device else torch.device("cpu")
        state["step"] = _zero("step", p, bucket, _get_scalar_dtype(), clock)
        state["exp_avg"] = torch.zeros_like(p, memory_format=torch.preserve_format)
        state["exp_avg_sq"] = torch.zeros_like(p, memory_format=torch.preserve_format)
    if "compensation" in names and "compensation" not in state:
        state["compensation"] = torch.zeros_like(p, memory_format=torch.preserve_format)
    chaos = [name for name in names if name.startswith("chaos")]
    if any(name not in state for name in chaos):
        step = state["step"]
        state["chaos_start"] = _zero("chaos_start", p, bucket, step.dtype, step.device).copy_(step)
        for name in chaos:
            state[name] = _zero(name, p, bucket, detector_dtype(p), p.device)


def _zero(name: str, p: Tensor, bucket: Bucket, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A scalar of a new state: an element of one vector over all parameters, also those whose state starts later."""
    if traced():
        return torch.zeros((), dtype=dtype, device=device)
    free = bucket.cache.free.setdefault((name, dtype, device), {})
    if id(p) not in free:
        every = {id(q): q for group in bucket.groups for q in group["params"]} | {id(p): p}
        alike = [i for i, q in every.items() if q is p or (q.requires_grad and q.dtype == p.dtype)]
        free.update(zip(alike, torch.zeros(len(alike), dtype=dtype, device=device).unbind(), strict=True))
    return free.pop(id(p))
