"""The states of a bucket's parameters: what is missing in them is started, and their clocks are moved."""

from collections.abc import MutableMapping
from operator import is_
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import _get_scalar_dtype

from psilogic.tensors.buckets import Bucket
from psilogic.tensors.norms import TensorList, traced
from psilogic.tensors.scalars import CLOCKS, State, detector_dtype, join, memory_names
from psilogic.tensors.sharding import local


def states_of(every: MutableMapping[Tensor, Any], bucket: Bucket, on_device: bool = False) -> list[State]:
    """The states of a bucket's parameters; entries that its hyperparameters need and that are missing are started.

    With `on_device` clocks start on the device, also if the group is not capturable.
    """
    states = [every[p] for p in bucket.params]
    moments = ["exp_avg", "exp_avg_sq"]
    if bucket.rounding == "kahan":
        moments.append("compensation")
    detector = memory_names(bucket.group)
    needed = {*moments, *detector}
    if all(map(needed.issubset, states)):
        return states
    on_device = bucket.group["capturable"] or bucket.group["fused"] or on_device
    for p, state in zip(bucket.params, states, strict=True):
        if "exp_avg" not in state:  # with `fused=True` loading moves the step to the device, as in torch
            clock_device = p.device if on_device else torch.device("cpu")
            state["step"] = _zero("step", p, bucket, _get_scalar_dtype(), clock_device)
        for name in moments:
            if name not in state:
                state[name] = torch.zeros_like(p, memory_format=torch.preserve_format)
        if not all(name in state for name in detector):
            _start_detector(p, state, bucket, detector)
    return states


def _start_detector(p: Tensor, state: State, bucket: Bucket, detector: list[str]) -> None:
    """Start the detector of one parameter; its clock starts now."""
    step = state["step"]
    state["chaos_start"] = _zero("chaos_start", p, bucket, step.dtype, step.device).copy_(step)
    for name in detector:
        state[name] = _zero(name, p, bucket, detector_dtype(p), p.device)


def move_clocks_(states: list[State], device: torch.device) -> None:
    """Move clocks that are elsewhere, where they were loaded, to a device."""
    if all(state["step"].device == device for state in states):
        return
    for state in states:
        for name in CLOCKS:
            state[name] = state[name].to(device)
    join(states, CLOCKS)


def local_states(bucket: Bucket, states: list[State], name: str) -> TensorList:
    """The parts on this rank of the states' tensors of a name."""
    tensors = [state[name] for state in states]
    if all(map(is_, bucket.values, bucket.params)):  # no parameter is split
        return tensors
    return [local(x) for x in tensors]


def _zero(name: str, p: Tensor, bucket: Bucket, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A scalar of a new state: an element of one vector over all parameters, also those whose state starts later."""
    if traced():
        return torch.zeros((), dtype=dtype, device=device)
    free = bucket.cache.free.setdefault((name, dtype, device), {})
    if id(p) not in free:
        ids = _may_start_with(p, bucket)
        zeros = torch.zeros(len(ids), dtype=dtype, device=device)
        free.update(zip(ids, zeros.unbind(), strict=True))
    return free.pop(id(p))


def _may_start_with(p: Tensor, bucket: Bucket) -> list[int]:
    """The ids of a parameter and of all others of its groups whose state may start with scalars of the same dtype."""
    ids: dict[int, None] = {}  # without repetitions, in the order of the groups
    for group in bucket.groups:
        for other in group["params"]:
            if other is p or (other.requires_grad and other.dtype == p.dtype):
                ids[id(other)] = None
    ids[id(p)] = None
    return list(ids)
