"""One factor for each tensor of a list, in the form in which torch's foreach operations take it at once."""

import torch
from torch import Tensor

from psilogic.tensors.memory import is_dense
from psilogic.tensors.norms import Foreach, accumulation_dtype, traced
from psilogic.tensors.uploads import Uploads

BLOCK = 1024
"""Elements that are filled with one factor together: tensors of other sizes leave the rest of their last block."""


def readable(vector: Tensor) -> bool:
    """Whether to read the numbers of a vector costs nothing: it lies in host memory, and nothing traces the step."""
    return vector.device.type == "cpu" and not traced()


def per_tensor(vector: Tensor, tensors: Foreach, uploads: Uploads) -> list[float] | Foreach:
    """A factor for each of N tensors, shape (N,), as foreach takes it: numbers where reading them is free.

    A GPU would need a launch for each 0-dim tensor of a list, and beside half precision would round it to that first:
    there the factors come in the shapes of the tensors. What traces the step gets them 0-dim.
    """
    if readable(vector):
        return vector.tolist()
    return list(vector.unbind()) if traced() else expanded(vector, tensors, uploads)


def expanded(vector: Tensor, tensors: Foreach, uploads: Uploads) -> Foreach:
    """One value for each of N tensors, shape (N,), repeated in the shapes and strides of the tensors.

    In the dtype of sums; by one launch for all of them, whatever their number.
    """
    values = vector.to(accumulation_dtype(tensors[0].dtype)).unsqueeze(1).expand(-1, BLOCK)
    counts = [-(-x.numel() // BLOCK) for x in tensors]

    def owners() -> list[Tensor]:
        return [torch.arange(len(counts), device="cpu").repeat_interleave(torch.tensor(counts, device="cpu"))]

    if len(counts) == 1:
        blocks = values.expand(counts[0], -1).contiguous()
    else:
        blocks = values.index_select(0, *uploads.get("owners of blocks", counts, vector.device, owners))
    parts = [of_tensor.view(-1)[: x.numel()] for of_tensor, x in zip(blocks.split(counts), tensors, strict=True)]
    return [laid_out(x, part) for x, part in zip(tensors, parts, strict=True)]


def expanded_rows(by_unit: Tensor, units: list[int], tensors: Foreach, uploads: Uploads) -> Foreach:
    """One value for each unit of N tensors, shape (U,), repeated in the shapes of the tensors.

    In the dtype of sums; by one launch for all rows of the same length.

    Args:
        by_unit: the values.
        units: of each tensor how many it has: its rows of dimension 0, or 1.
        tensors: the tensors.
        uploads: what the device was told about them.
    """
    by_length: dict[int, list[int]] = {}
    for i, (x, count) in enumerate(zip(tensors, units, strict=True)):
        by_length.setdefault(x.numel() // max(1, count), []).append(i)

    def rows() -> list[Tensor]:
        of_tensors = torch.arange(sum(units), device="cpu").split(units)
        return [torch.cat([of_tensors[i] for i in members]) for members in by_length.values()]

    key = [*units, *map(Tensor.numel, tensors)]
    tables, found = uploads.get("rows by length", key, by_unit.device, rows), list(tensors)
    values = by_unit.to(accumulation_dtype(tensors[0].dtype)).unsqueeze(1)
    for (length, members), table in zip(by_length.items(), tables, strict=True):
        parts = values.expand(-1, length).index_select(0, table).split([units[i] for i in members])
        for i, part in zip(members, parts, strict=True):
            rows_first = tensors[i].ndim < 2 or tensors[i].stride(0) == length
            found[i] = laid_out(tensors[i], part.view(-1)) if rows_first else part.view(tensors[i].shape)
    return found


def laid_out(x: Tensor, elements: Tensor) -> Tensor:
    """Elements, as many as a tensor has, in its shape, and in its strides if its own lie without gaps."""
    if x.is_contiguous() or not is_dense(x):
        return elements.view(x.shape)
    return elements.as_strided(x.shape, x.stride(), elements.storage_offset())


def scaled(tensors: Foreach, vector: Tensor, uploads: Uploads) -> Foreach:
    """Each of N tensors times its value of a vector, shape (N,); half precision may come in float32."""
    if readable(vector) or traced():
        return list(torch._foreach_mul(tensors, per_tensor(vector, tensors, uploads)))
    products = expanded(vector, tensors, uploads)
    torch._foreach_mul_(products, copied(tensors, products[0].dtype))
    return products


def scale_(tensors: Foreach, vector: Tensor, uploads: Uploads) -> None:
    """Multiply each of N tensors by its value of a vector, shape (N,), in place; half precision in float32."""
    if readable(vector) or traced() or tensors[0].dtype == accumulation_dtype(tensors[0].dtype):
        torch._foreach_mul_(tensors, per_tensor(vector, tensors, uploads))
    else:
        torch._foreach_copy_(tensors, scaled(tensors, vector, uploads))


def divided_(tensors: Foreach, vector: Tensor, uploads: Uploads) -> Foreach:
    """Each of N tensors divided by its value of a vector, shape (N,): themselves, or half precision in float32."""
    factors = per_tensor(vector, tensors, uploads)
    quotients = tensors if readable(vector) or traced() else copied(tensors, accumulation_dtype(tensors[0].dtype))
    torch._foreach_div_(quotients, factors)
    return quotients


def addcdiv_(tensors: Foreach, numerators: Foreach, denominators: Foreach, values: list[float] | float) -> None:
    """Add numerators times values over denominators, in place.

    Where dtypes differ, a GPU would need a launch for each tensor: there all come in the widest of them.
    """
    sums = tensors
    if not (readable(tensors[0]) or traced()):
        widest = max((xs[0].dtype for xs in (tensors, numerators, denominators)), key=lambda dtype: dtype.itemsize)
        sums, numerators, denominators = (copied(xs, widest) for xs in (tensors, numerators, denominators))
    torch._foreach_addcdiv_(sums, numerators, denominators, values)
    if sums[0].dtype != tensors[0].dtype:
        torch._foreach_copy_(tensors, sums)


def copied(tensors: Foreach, dtype: torch.dtype) -> Foreach:
    """The tensors in another dtype, at once; as they are if it is theirs."""
    if traced() or tensors[0].dtype == dtype:
        return [x.to(dtype) for x in tensors]
    copies = [torch.empty_like(x, dtype=dtype) for x in tensors]
    torch._foreach_copy_(copies, tensors)
    return copies
