"""The number of kernels that a step would launch on a GPU, counted on the meta device by rules of torch's CUDA code.

A foreach operation takes its tensors together if those of each position have the same dtype, shape and strides without
gaps; otherwise it needs one launch for each. One launch takes as many as fit into its arguments, a number that is fixed
when torch is built: `MultiTensorApply.cuh`, which is part of torch.
"""

from typing import NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

FREE = {"empty", "new_empty", "empty_like", "detach", "alias", "_reshape_alias", "view", "split", "split_with_sizes"}
TOGETHER = 128  # tensors that a launch of a concatenation takes; half as many where they have gaps
CHUNK = 65_536  # elements of a tensor for one block


class Capacity(NamedTuple):
    """The most that one launch of a foreach operation takes."""

    tensors: tuple[int, ...]  # by the number of lists that it reads and writes, from one
    blocks: int  # the number of chunks


CUDA_13 = Capacity((770, 448, 336, 252, 210), 2240)
OLDER = Capacity((110, 64, 48, 36, 30), 320)  # CUDA 12, and ROCm


def launches_together(sizes, depth, capacity):
    """How many launches tensors of these sizes are, for an operation on as many lists of them as `depth`."""
    most_tensors = capacity.tensors[depth - 1]
    launches = 0
    tensors = 0  # in the launch that is being filled
    blocks = 0
    for size in sizes:
        if size == 0:
            continue
        tensors += 1
        chunks = -(-size // CHUNK)
        while chunks:
            taken = min(chunks, capacity.blocks - blocks)
            chunks -= taken
            blocks += taken
            if blocks == capacity.blocks or (chunks == 0 and tensors == most_tensors):
                launches += 1
                blocks = 0
                tensors = 1 if chunks else 0  # the rest of a tensor goes into the next launch
    if blocks:
        launches += 1
    return launches


class Launches(TorchDispatchMode):
    """Counts the launches of all operations, in `total`."""

    def __init__(self, capacity=CUDA_13):
        super().__init__()
        self.capacity = capacity
        self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        operands = [x for x in tree_leaves((args, kwargs, result)) if isinstance(x, torch.Tensor)]
        if name not in FREE and not func.is_view and any(x.is_meta for x in operands):
            lists = [x for x in args if _is_list_of_tensors(x)]
            self.total += self.launches_of(name, lists)
        return result

    def launches_of(self, name, lists):
        """The launches of an operation with these lists of tensors as arguments."""
        if not lists:
            return 1
        first = lists[0]
        if name in ("cat", "stack"):
            dense = all(x.is_contiguous() for x in first)
            most = TOGETHER if dense else TOGETHER // 2
            return -(-len(first) // most)
        launches = len(first)
        if _at_once(lists, is_copy=name == "_foreach_copy_"):
            has_result_list = not name.endswith("_") and name != "_foreach_norm"
            depth = len(lists) + has_result_list
            launches = launches_together([x.numel() for x in first], depth, self.capacity)
        if name == "_foreach_norm":  # it clears the sums of its blocks, and adds them
            launches += 2
        return launches


def _is_list_of_tensors(argument):
    return isinstance(argument, list | tuple) and len(argument) > 0 and isinstance(argument[0], torch.Tensor)


def _at_once(lists, is_copy):
    """Whether a foreach operation takes these tensors together."""
    for at_one_position in zip(*lists, strict=True):
        if len({(x.shape, x.stride()) for x in at_one_position}) > 1:
            return False
    all_dtypes = set()
    for tensors in lists:
        dtypes = {x.dtype for x in tensors}
        if len(dtypes) > 1 or not all(map(torch.ops.aten.is_non_overlapping_and_dense, tensors)):
            return False
        all_dtypes |= dtypes
    return is_copy or len(all_dtypes) == 1


def count(optimizer, params, capacity=CUDA_13):
    """The number of launches of a step that is not the first."""
    for p in params:
        p.grad = torch.empty_like(p)
    optimizer.step()
    with Launches(capacity) as launches:
        optimizer.step()
    return launches.total
