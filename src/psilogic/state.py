"""What PsiLogic keeps for each parameter: Adam's state and the detector's scalars."""

from collections.abc import MutableMapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim.optimizer import _get_scalar_dtype

from psilogic.buckets import Bucket
from psilogic.checkpoint import detector_dtype
from psilogic.decision import Chaos
from psilogic.scalars import State
from psilogic.updates.operands import Step


class Before(NamedTuple):
    """What a step of N tensors starts from, but for gradients.

    Attributes:
        steps: the new step counts, where the states keep theirs, shape (N,).
        t_detector: the detector's own updates, from 1, shape (N,).
        memory: the detector's memory.
        quiet: what is done to tensors that do not fire, but for quantum decay.
    """

    steps: Tensor
    t_detector: Tensor
    memory: Chaos
    quiet: Step


def states_of(every: MutableMapping[Tensor, Any], bucket: Bucket) -> list[State]:
    """The states of a bucket's parameters, each with all that its group keeps.

    Args:
        every: the optimizer's states; what is missing is started.
        bucket: the parameters.
    """
    names = ["exp_avg", *["compensation"] * (bucket.rounding == "kahan"), *memory_names(bucket)]
    states: list[State] = [every[p] for p in bucket.params]
    if any(name not in state for name in names for state in states):
        for p, state in zip(bucket.params, states, strict=True):
            _complete(state, p, names, bucket.group["capturable"] or bucket.group["fused"])
    return states


def memory_names(bucket: Bucket) -> list[str]:
    """What states call the detector's memory."""
    return ["chaos_fast", "chaos_slow", *["chaos_ref"] * (bucket.group["chaos_signal"] == "relative")]


def _complete(state: State, p: Tensor, names: list[str], step_on_device: bool | None) -> None:
    """Start what is missing in a parameter's state, the detector's clock included.

    As in torch, `step` and the moments come together, and with `fused=True` loading moves `step` to the device.
    """
    if "exp_avg" not in state:
        state["step"] = torch.zeros((), dtype=_get_scalar_dtype(), device=p.device if step_on_device else "cpu")
        state["exp_avg"] = torch.zeros_like(p, memory_format=torch.preserve_format)
        state["exp_avg_sq"] = torch.zeros_like(p, memory_format=torch.preserve_format)
    if "compensation" in names and "compensation" not in state:
        state["compensation"] = torch.zeros_like(p, memory_format=torch.preserve_format)
    chaos = [name for name in names if name.startswith("chaos")]
    if any(name not in state for name in chaos):
        state["chaos_start"] = state["step"].clone()
        for name in chaos:
            state[name] = torch.zeros((), dtype=detector_dtype(p), device=p.device)
