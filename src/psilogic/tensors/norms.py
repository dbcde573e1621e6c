"""Vectors over tensors: norms of gradients, their roots and sums; and the lists of tensors that foreach takes."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

TensorList = list[Tensor]
"""Tensors that one foreach operation takes."""
SIMULATIONS = torch._C._TorchDispatchModeKey.FAKE, torch._C._TorchDispatchModeKey.PROXY
NOTHING = nullcontext()
"""What a step enters where nothing is to be entered: it has no state, so that all share it."""
PART = 1 << 14
"""Longer vectors may be summed by several threads."""
OWN_CALL = 1 << 20
"""Tensors with more elements get a separate call instead of being copied together with others."""
ONE_CALL = 1 << 21
"""The most elements of a call, which may convert all of them to float64."""


def traced() -> bool:
    """Whether a compiler, a simulation or autograd traces the step: then no numbers may be read."""
    return torch.is_grad_enabled() or without_values()


def without_values() -> bool:
    """Whether a step is compiled or transformed, its tensors are fake (estimation of memory), or make_fx records it."""
    if torch.compiler.is_compiling() or transformed():
        return True
    return is_in_torch_dispatch_mode() and any(map(torch._C._get_dispatch_mode, SIMULATIONS))


def transformed() -> bool:
    """Whether torch.func transforms the step, or its tensors may have tangents: foreach takes neither."""
    if torch.compiler.is_compiling():
        return False
    return forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None


def intercepted() -> bool:
    """Whether a compiler, a transformation or a mode takes the operations of the step, and may need to see each one.

    A mode is `torch.autograd.graph.allow_mutation_on_saved_tensors`, for example.
    """
    return without_values() or is_in_torch_dispatch_mode()


def simulation(params: Sequence[Tensor]) -> AbstractContextManager[Any]:
    """The mode of fake parameters, also where the caller has left it; nothing for others."""
    if not params:
        return NOTHING
    return getattr(params[0], "fake_mode", None) or NOTHING


def has_value(x: Tensor) -> bool:
    """Whether the values of a tensor can be read: a meta or a fake tensor has none."""
    return not (x.is_meta or hasattr(x, "fake_mode"))


def fresh(tensors: Sequence[Tensor]) -> TensorList:
    """Copies if autograd records the step, since it keeps operands that are changed in place later."""
    if torch.is_grad_enabled():
        return [x.clone() for x in tensors]
    return list(tensors)


def as_real(tensors: Sequence[Tensor]) -> TensorList:
    """Tensors of one dtype: complex ones as real views with one more dimension, others as they are."""
    if tensors and tensors[0].is_complex():
        return [torch.view_as_real(x) for x in tensors]
    return list(tensors)


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of sums: float32 for half precision, otherwise that of the tensor."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def copied(tensors: TensorList, dtype: torch.dtype) -> TensorList:
    """The tensors in another dtype, by one call; the tensors themselves if they have it."""
    if traced() or tensors[0].dtype == dtype:
        return [x.to(dtype) for x in tensors]
    copies = [torch.empty_like(x, dtype=dtype) for x in tensors]
    torch._foreach_copy_(copies, tensors)
    return copies


def tensor_squares(tensors: TensorList, dtype: torch.dtype) -> Tensor:
    """The sum of |x|^2 of each tensor, shape (N,), in `dtype`; half precision accumulates in float32."""
    dtype_of_sums = accumulation_dtype(tensors[0].dtype)
    if transformed():
        norms = [torch.linalg.vector_norm(x, dtype=dtype_of_sums) for x in tensors]
    else:
        norms = list(torch._foreach_norm(tensors, 2, dtype=dtype_of_sums))
    if norms[0].device.type == "cpu" or traced():
        return torch.stack(norms).to(dtype).square()
    vector = torch.empty(len(norms), dtype=dtype, device=norms[0].device)
    torch._foreach_copy_(list(vector.unbind()), norms)  # one launch; cat takes 128 tensors at a time
    return vector.square()


def row_sums(tensors: TensorList, dtype: torch.dtype, with_sums: bool) -> tuple[Tensor, Tensor | None]:
    """sum |x|^2 and, if asked, sum x of each row of dimension 0: vectors over the rows of all tensors, shape (U,).

    A tensor with ndim <= 1 is one row, with 0 for sum x. Both are computed in `dtype` or its complex counterpart.
    """
    dtype_of_sums = accumulation_dtype(tensors[0].dtype)
    if with_sums:
        dtype_of_sums = torch.promote_types(tensors[0].dtype, dtype)

    def of_matrix(rows: Tensor) -> tuple[Tensor, ...]:
        norms = torch.linalg.vector_norm(rows, dim=1, dtype=dtype_of_sums)
        if not with_sums:
            return (norms,)
        return norms, rows.sum(1, dtype=dtype_of_sums)

    norms, *sums = _of_rows(tensors, of_matrix)
    squares = torch.cat(norms).to(dtype).square()
    if not with_sums:
        return squares, None
    zero = tensors[0].new_zeros(1, dtype=dtype_of_sums)
    sums_by_row: TensorList = []
    for by_row, x in zip(sums[0], tensors, strict=True):
        if x.ndim > 1:
            sums_by_row.append(by_row)
        else:
            sums_by_row.append(zero)
    return squares, torch.cat(sums_by_row)


def _of_rows(tensors: TensorList, of_matrix: Callable[[Tensor], tuple[Tensor, ...]]) -> list[tuple[Tensor, ...]]:
    """Vectors over the rows of each tensor; for each quantity of `of_matrix` those of all tensors."""
    matrices = [_matrix(x) for x in tensors]
    by_tensor: dict[int, tuple[Tensor, ...]] = {}
    for members in _calls(matrices):
        chosen = [matrices[i] for i in members]
        counts = [len(matrix) for matrix in chosen]
        rows = chosen[0]
        if len(chosen) > 1:
            rows = torch.cat(chosen)
        by_quantity = [vector.split(counts) for vector in _in_blocks(rows, of_matrix)]
        by_tensor.update(zip(members, zip(*by_quantity, strict=True), strict=True))
    in_order = [by_tensor[i] for i in range(len(tensors))]
    return list(zip(*in_order, strict=True))


def _matrix(x: Tensor) -> Tensor:
    """The rows of dimension 0; a single row if the tensor has at most one dimension."""
    if x.ndim <= 1:
        return x.reshape(1, -1)
    return x.reshape(len(x), x.shape[1:].numel())


def _calls(matrices: TensorList) -> list[list[int]]:
    """The positions of the matrices that are copied to one, so that one call is enough for them.

    Their rows have the same length. A matrix with more than `OWN_CALL` elements is not copied.
    """
    filled: dict[int, int] = {}  # elements of small matrices, by the length of their rows
    by_call: dict[tuple[int, int], list[int]] = {}
    for i, matrix in enumerate(matrices):
        length = matrix.shape[1]
        call = i
        if matrix.numel() <= OWN_CALL:
            filled[length] = filled.get(length, 0) + matrix.numel()
            call = -1 - filled[length] // ONE_CALL
        by_call.setdefault((length, call), []).append(i)
    return list(by_call.values())


def _in_blocks(rows: Tensor, of_matrix: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """The quantities of a matrix, computed for at most `ONE_CALL` elements at a time, or for one row."""
    most = max(1, ONE_CALL // max(1, rows.shape[1]))
    if len(rows) <= most or traced():
        return of_matrix(rows)
    blocks = [of_matrix(block) for block in rows.split(most)]
    return tuple(map(torch.cat, zip(*blocks, strict=True)))


def root(squares: Tensor) -> Tensor:
    """Square root whose derivative at zero is zero, as a norm's."""
    if not (torch.is_grad_enabled() or transformed()):
        return squares.sqrt()
    zero = squares == 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, squares).sqrt())


def root_of_count(numel: Tensor) -> Tensor:
    """sqrt(numel), and 1 for tensors without elements, whose norm is 0."""
    return numel.clamp(min=1).sqrt()


def total(vector: Tensor) -> Tensor:
    """The sum of a vector, 0-dim: on a CPU in parts so short that torch sums each by one thread.

    The last bits of a longer sum depend on the number of threads.
    """
    if vector.device.type != "cpu" or len(vector) <= PART:
        return vector.sum()
    return torch.stack([part.sum() for part in vector.split(PART)]).sum()


def parts_sums(vector: Tensor, counts: list[int], on_host: bool) -> Tensor:
    """The sum of each of N consecutive parts of a vector, shape (N,)."""
    if counts.count(1) == len(counts):
        return vector
    if on_host:  # on a GPU the order of these additions is not deterministic
        indices = torch.tensor(range(len(counts)), device="cpu")
        owner = indices.repeat_interleave(torch.tensor(counts, device="cpu"))
        return vector.new_zeros(len(counts)).index_add_(0, owner, vector)
    (sums,) = _of_rows(list(vector.split(counts)), lambda rows: (rows.sum(1),))
    return torch.cat(sums)
