"""The number of kernels that a step would launch on a GPU, counted on the meta device by rules of torch's CUDA code.

A foreach operation takes its tensors together if those of each position have the same dtype, shape and strides without
gaps; otherwise it needs one launch for each. One launch takes as many as fit into its arguments, a number that is fixed
when torch is built: `MultiTensorApply.cuh`, which is part of torch.
"""

from collections import Counter
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
    launches = tensors = blocks = 0
    for size in filter(None, sizes):
        tensors += 1
        chunks = -(-size // CHUNK)
        while chunks:
            taken = min(chunks, capacity.blocks - blocks)
            chunks, blocks = chunks - taken, blocks + taken
            if blocks == capacity.blocks or (not chunks and tensors == capacity.tensors[depth - 1]):
                launches, blocks, tensors = launches + 1, 0, min(chunks, 1)
    return launches + (blocks > 0)


class Launches(TorchDispatchMode):
    """Counts launches by kind and by name of the operation.

    The kinds are those over tensors ("lists"), and those over vectors of one number for each tensor ("vectors").
    """

    def __init__(self, params, capacity=CUDA_13):
        super().__init__()
        self.params, self.capacity, self.elements = params, capacity, sum(map(torch.numel, params))
        self.counts, self.names = Counter(), Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result, name = func(*args, **(kwargs or {})), func.overloadpacket.__name__
        operands = [x for x in tree_leaves((args, kwargs, result)) if isinstance(x, torch.Tensor)]
        if name in FREE or func.is_view or not any(x.is_meta for x in operands):
            return result
        lists = [x for x in args if isinstance(x, list | tuple) and x and isinstance(x[0], torch.Tensor)]
        launches = 1
        if name in ("cat", "stack"):
            dense = all(x.is_contiguous() for x in lists[0])
            launches = -(-len(lists[0]) // (TOGETHER if dense else TOGETHER // 2))
        elif lists:
            depth = len(lists) + (not name.endswith("_") and name != "_foreach_norm")
            together = launches_together(map(torch.numel, lists[0]), depth, self.capacity)
            launches = together if _at_once(lists, name == "_foreach_copy_") else len(lists[0])
        if name == "_foreach_norm":  # it clears the sums of its blocks, and adds them
            self.counts["vectors"] += 1
            launches += 1
        whole = max(x.numel() for x in operands) >= self.elements
        self.counts["lists" if whole or any(len(xs) == len(self.params) for xs in lists) else "vectors"] += launches
        self.names[name] += launches
        return result


def _at_once(lists, is_copy):
    alike = all(len({(x.shape, x.stride()) for x in row}) == 1 for row in zip(*lists, strict=True))
    dense = all(torch.ops.aten.is_non_overlapping_and_dense(x) for xs in lists for x in xs)
    dtypes = {tuple({x.dtype for x in xs}) for xs in lists}
    return alike and dense and all(len(of_list) == 1 for of_list in dtypes) and (is_copy or len(dtypes) == 1)


def count(optimizer, params, capacity=CUDA_13):
    """The launches of a step that is not the first."""
    for p in params:
        p.grad = torch.empty_like(p)
    optimizer.step()
    with Launches(params, capacity) as launches:
        optimizer.step()
    return launches
