"""The states of a bucket's parameters: what is missing in them is started, and their clocks are moved."""

from collections.abc import Mapping, MutableMapping
from operator import is_
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import _get_scalar_dtype

from psilogic.tensors.buckets import Bucket
from psilogic.tensors.norms import TensorList, transformed
from psilogic.tensors.scalars import CLOCKS, State, detector_dtype, memory_names
from psilogic.tensors.sharding import local


def states_of(every: MutableMapping[Tensor, Any], bucket: Bucket, on_device: bool = False) -> list[State]:
    """The states of a bucket's parameters; entries that its hyperparameters need and that are missing are started.

    With `on_device` clocks start on the device, also if the group is not capturable.

    Raises:
        RuntimeError: there are moments, but nothing says of how many steps; no state is started then.
    """
    states = [every[p] for p in bucket.params]
    moments = moment_names(bucket)
    detector = memory_names(bucket.group)
    needed = {"step", *moments, *detector}
    if all(map(needed.issubset, states)) and all(isinstance(state["step"], Tensor) for state in states):
        return states
    for p, state in zip(bucket.params, states, strict=True):
        if "exp_avg" in state and "step" not in state:
            raise RuntimeError(
                f"the state of a parameter of shape {tuple(p.shape)} has exp_avg, but no step (how many it has taken): "
                'set optimizer.state[p]["step"], or delete optimizer.state[p] to begin again'
            )
    on_device = bucket.group["capturable"] or bucket.group["fused"] or on_device
    for p, state in zip(bucket.params, states, strict=True):
        step = state.get("step", 0)
        if not isinstance(step, Tensor):  # with `fused=True` loading moves the step to the device, as in torch
            clock_device = p.device if on_device else torch.device("cpu")
            state["step"] = torch.full((), step, dtype=_get_scalar_dtype(), device=clock_device)
        for name in moments:
            if name not in state:
                state[name] = torch.zeros_like(p, memory_format=torch.preserve_format)
        if not all(name in state for name in detector):
            _start_detector(p, state, detector)
    return states


def moment_names(bucket: Bucket) -> list[str]:
    """The names of the tensors in the states that are as large as their parameters."""
    if bucket.rounding == "kahan":
        return ["exp_avg", "exp_avg_sq", "compensation"]
    return ["exp_avg", "exp_avg_sq"]


def _start_detector(p: Tensor, state: State, detector: list[str]) -> None:
    """Start the detector of one parameter; its clock starts now."""
    state["chaos_start"] = state["step"].clone()
    for name in detector:
        if transformed():  # one for each tensor that p stands for
            state[name] = p.new_zeros((), dtype=detector_dtype(p))
        else:
            state[name] = torch.zeros((), dtype=detector_dtype(p), device=p.device)


def move_clocks_(states: list[State], device: torch.device) -> None:
    """Move clocks that are elsewhere, where they were loaded, to a device."""
    if all(state["step"].device == device for state in states):
        return
    for state in states:
        for name in CLOCKS:
            state[name] = state[name].to(device)


def local_states(bucket: Bucket, states: list[State], name: str) -> TensorList:
    """The parts on this rank of the states' tensors of a name."""
    tensors = [state[name] for state in states]
    if all(map(is_, bucket.values, bucket.params)):  # no parameter is split
        return tensors
    return [local(x) for x in tensors]


def refuse_other_moments(params: TensorList, moments: Mapping[str, TensorList]) -> None:
    """RuntimeError if a moment has not the dtype and the shape of its parameter, as after `model.double()`."""
    for name, of_params in moments.items():
        for p, moment in zip(params, of_params, strict=True):
            if moment.shape != p.shape:
                raise RuntimeError(
                    f"{name} has the size {tuple(moment.shape)}, its parameter {tuple(p.shape)}: something has resized "
                    "the parameter; give its state that size too, or delete optimizer.state[p] to begin again"
                )
            if moment.dtype != p.dtype:
                raise RuntimeError(
                    f"{name} is {moment.dtype}, its parameter {p.dtype}: something has converted one of them; "
                    "optimizer.load_state_dict(optimizer.state_dict()) converts the state to the dtype of the parameter"
                )
