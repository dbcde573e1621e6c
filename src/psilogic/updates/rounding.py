"""Writing float32 results into bfloat16 parameters so that changes below half an ulp are not lost."""

import torch
from torch import Tensor

from psilogic.tensors.factors import copied, laid_out
from psilogic.tensors.memory import flat
from psilogic.tensors.norms import Foreach

DROPPED_BITS = 16
"""bfloat16 is float32 without its lowest 16 bits."""
TOGETHER = 1 << 22
"""Elements of small tensors that are rounded by the same calls: more would need memory, and a CPU's caches, for all."""


def stochastically_rounded(x: Tensor) -> Tensor:
    """Round float32 values to bfloat16's, up in magnitude with the probability of the part that is cut off.

    The mean over many draws is x. The draws come from torch's global generator of the device; what is not finite
    stays as it is.
    """
    bits = x.view(torch.int32)
    draw = torch.randint_like(bits, 1 << DROPPED_BITS)
    rounded = ((bits + draw) & (-1 << DROPPED_BITS)).view(torch.float32)
    return torch.where(torch.isfinite(x), rounded, x)


def rounded_together(tensors: Foreach) -> Foreach:
    """The tensors stochastically rounded, small neighbours by the same calls: a GPU needs eight launches for each."""
    groups: list[Foreach] = []
    room = 0
    for x in tensors:
        if not groups or x.numel() > room:
            groups.append([])
            room = TOGETHER
        groups[-1].append(x)
        room -= x.numel()
    return [rounded for group in groups for rounded in _rounded_at_once(group)]


def _rounded_at_once(tensors: Foreach) -> Foreach:
    """The tensors stochastically rounded, by the calls for one."""
    if len(tensors) == 1:
        return [stochastically_rounded(tensors[0])]
    parts = stochastically_rounded(torch.cat([flat(x) for x in tensors])).split([x.numel() for x in tensors])
    return [laid_out(x, part) for x, part in zip(tensors, parts, strict=True)]


def widen(params: Foreach, compensations: Foreach | None) -> Foreach:
    """The float32 values of bfloat16 parameters, together with what earlier roundings cut off."""
    exact = copied(params, torch.float32)
    if compensations is not None:
        torch._foreach_add_(exact, copied(compensations, torch.float32))
    return exact


def narrow_(params: Foreach, exact: Foreach, compensations: Foreach | None) -> None:
    """params <- exact: to nearest, with compensations <- what that cuts off; stochastically without compensations."""
    if compensations is None:
        torch._foreach_copy_(params, rounded_together(exact))
        return
    torch._foreach_copy_(params, exact)
    torch._foreach_sub_(exact, copied(params, torch.float32))
    torch._foreach_copy_(compensations, exact)
