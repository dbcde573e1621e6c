"""The tensors of one step, sorted so that each bucket can be treated at once."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from psilogic.norms import Foreach


@dataclass
class Bucket:
    """The tensors of one group that share device and dtype, on their way through one step."""

    group: dict[str, Any]
    params: Foreach
    grads: Foreach

    @property
    def device(self) -> torch.device:
        return self.params[0].device

    @property
    def vector_dtype(self) -> torch.dtype:
        """Vectors over tensors are tiny: float64 costs nothing, where the device has it."""
        return torch.float32 if self.device.type == "mps" else torch.float64

    @property
    def real_grads(self) -> Foreach:
        """The gradients, complex ones as real views."""
        return as_real(self.grads)

    @property
    def rounding(self) -> str:
        """How results are written into the parameters; only bfloat16 has a choice."""
        return str(self.group["bf16_update"]) if self.params[0].dtype == torch.bfloat16 else "nearest"

    @property
    def numel(self) -> Tensor:
        """Number of real elements of each tensor, shape (N,)."""
        counts = [p.numel() * (2 if p.is_complex() else 1) for p in self.params]
        return torch.tensor(counts, dtype=self.vector_dtype).to(self.device)


def collect(param_groups: list[dict[str, Any]]) -> list[Bucket]:
    """The tensors that have gradients, by group, device and dtype.

    Raises:
        RuntimeError: a gradient is sparse, or a parameter is sharded: the norm of one shard is not the tensor's.
    """
    buckets: list[Bucket] = []
    for group in param_groups:
        by_kind: dict[tuple[torch.device, torch.dtype], Bucket] = {}
        for p in group["params"]:
            if p.grad is None:
                continue
            if p.grad.is_sparse:
                raise RuntimeError("PsiLogic does not support sparse gradients; use sparse=False in the embedding")
            if type(p) not in (Tensor, Parameter) and hasattr(p, "placements"):
                raise RuntimeError("PsiLogic does not support sharded parameters (DTensor) yet")
            bucket = by_kind.setdefault((p.device, p.dtype), Bucket(group, [], []))
            bucket.params.append(p)
            bucket.grads.append(p.grad)
        buckets += by_kind.values()
    return buckets


def as_real(tensors: Iterable[Tensor]) -> Foreach:
    """Complex tensors as real views with one more dimension, the others as they are."""
    return [torch.view_as_real(x) if x.is_complex() else x for x in tensors]
