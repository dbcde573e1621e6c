"""One factor for each tensor of a list, in the form in which torch's foreach operations take it at once."""

import torch
from torch import Tensor

from psilogic.tensors.memory import is_dense
from psilogic.tensors.norms import Foreach, accumulation_dtype


def traced() -> bool:
    """Whether a compiler or autograd follows the step: they want tensors as they are, and no numbers."""
    return torch.compiler.is_compiling() or torch.is_grad_enabled()


def readable(vector: Tensor) -> bool:
    """Whether to read the numbers of a vector costs nothing: it lies in host memory, and nothing traces the step."""
    return vector.device.type == "cpu" and not traced()


def per_tensor(vector: Tensor, tensors: Foreach) -> list[float] | Foreach:
    """A factor for each of N tensors, shape (N,), as foreach takes it: numbers where reading them is free.

    A GPU would need a launch for each 0-dim tensor of a list, and beside half precision would round it to that first:
    there the factors come in the shapes of the tensors. What traces the step gets them 0-dim.
    """
    if readable(vector):
        return vector.tolist()
    return list(vector.unbind()) if traced() else expanded(vector, tensors)


def expanded(vector: Tensor, tensors: Foreach) -> Foreach:
    """One value for each of N tensors, shape (N,), repeated in the shapes and strides of the tensors.

    In the dtype of sums; by one concatenation for all of them.
    """
    values, numels = vector.to(accumulation_dtype(tensors[0].dtype)).unbind(), [x.numel() for x in tensors]
    parts = torch.cat([value.expand(n) for value, n in zip(values, numels, strict=True)]).split(numels)
    return [
        part.view(x.shape)
        if x.is_contiguous() or not is_dense(x)
        else part.as_strided(x.shape, x.stride(), part.storage_offset())
        for part, x in zip(parts, tensors, strict=True)
    ]


def scaled(tensors: Foreach, vector: Tensor) -> Foreach:
    """Each of N tensors times its value of a vector, shape (N,); half precision may come in float32."""
    if readable(vector) or traced():
        return list(torch._foreach_mul(tensors, per_tensor(vector, tensors)))
    products = expanded(vector, tensors)
    torch._foreach_mul_(products, copied(tensors, products[0].dtype))
    return products


def scale_(tensors: Foreach, vector: Tensor) -> None:
    """Multiply each of N tensors by its value of a vector, shape (N,), in place; half precision in float32."""
    if readable(vector) or traced() or tensors[0].dtype == accumulation_dtype(tensors[0].dtype):
        torch._foreach_mul_(tensors, per_tensor(vector, tensors))
    else:
        torch._foreach_copy_(tensors, scaled(tensors, vector))


def copied(tensors: Foreach, dtype: torch.dtype) -> Foreach:
    """The tensors in another dtype, at once; as they are if it is theirs."""
    if traced() or tensors[0].dtype == dtype:
        return [x.to(dtype) for x in tensors]
    copies = [torch.empty_like(x, dtype=dtype) for x in tensors]
    torch._foreach_copy_(copies, tensors)
    return copies
