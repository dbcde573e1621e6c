"""How bfloat16 parameters are rounded: stochastically, or with the error kept (Kahan)."""

import torch
from torch import Tensor

from psilogic.backends.batches import runs
from psilogic.backends.factors import laid_out
from psilogic.tensors.memory import flat
from psilogic.tensors.norms import TensorList, copied

DROPPED_BITS = 16
"""bfloat16 is float32 without its lowest 16 bits."""
TOGETHER = 1 << 22
"""The most elements of small tensors that share a call of the rounding: more would cost memory and cache misses."""


def widen(params: TensorList, compensations: TensorList | None) -> TensorList:
    """The float32 values of bfloat16 parameters, plus the errors of earlier roundings."""
    exact = copied(params, torch.float32)
    if compensations is not None:
        torch._foreach_add_(exact, copied(compensations, torch.float32))
    return exact


def narrow_(params: TensorList, exact: TensorList, compensations: TensorList | None) -> None:
    """params <- exact: to nearest, with compensations <- the rounding errors; stochastically without compensations."""
    if compensations is None:
        torch._foreach_copy_(params, rounded_together(exact))
        return
    torch._foreach_copy_(params, exact)
    torch._foreach_sub_(exact, copied(params, torch.float32))
    torch._foreach_copy_(compensations, exact)


def rounded_together(tensors: TensorList) -> TensorList:
    """The tensors stochastically rounded, small ones by shared calls: a GPU needs eight launches for each call."""
    rounded: TensorList = []
    for members in runs([x.numel() for x in tensors], TOGETHER):
        run = tensors[members]
        if len(run) == 1:
            rounded.append(stochastically_rounded(run[0]))
            continue
        whole = stochastically_rounded(torch.cat([flat(x) for x in run]))
        parts = whole.split([x.numel() for x in run])
        rounded += [laid_out(x, part) for x, part in zip(run, parts, strict=True)]
    return rounded


def stochastically_rounded(x: Tensor) -> Tensor:
    """Round float32 values to bfloat16's, up in magnitude with a probability equal to the part that is cut off.

    The mean over many draws is x. The draws come from torch's global generator of the device; values that are not
    finite are returned as they are.
    """
    bits = x.view(torch.int32)
    draw = torch.randint_like(bits, 1 << DROPPED_BITS)
    rounded = ((bits + draw) & (-1 << DROPPED_BITS)).view(torch.float32)
    return torch.where(torch.isfinite(x), rounded, x)
