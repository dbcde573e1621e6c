"""How many kernels a step would launch on a GPU, counted on the meta device by what torch's CUDA code does with a call.

A foreach operation is one launch for all its tensors if those of each position have the same dtype, shape and strides
without gaps, else one for each; so torch has had it since 2.5, with up to 250 tensors and 140M elements for a launch.
"""

from collections import Counter

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

FREE = {"empty", "new_empty", "empty_like", "detach", "alias", "_reshape_alias", "view", "split", "split_with_sizes"}
TOGETHER = 128  # tensors that a launch of a concatenation takes; half as many where they have gaps


class Launches(TorchDispatchMode):
    """Counts launches: those over tensors ("lists"), and those over vectors of one number for each tensor ("vectors").

    Attributes:
        params: the tensors.
        elements: how many they have together.
        counts: launches by kind.
        names: launches by the name of the operation.
    """

    def __init__(self, params):
        super().__init__()
        self.params, self.elements = params, sum(map(torch.numel, params))
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
            launches = 1 if _at_once(lists, name == "_foreach_copy_") else len(lists[0])
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


def count(optimizer, params):
    """The launches of a step that is not the first."""
    for p in params:
        p.grad = torch.empty_like(p)
    optimizer.step()
    with Launches(params) as launches:
        optimizer.step()
    return launches
