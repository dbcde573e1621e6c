"""The update on any device and dtype, through torch's foreach operations: the ground truth."""

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from psilogic.decision import Scalar, Step
from psilogic.gradients import measure
from psilogic.tensors.buckets import Bucket, spread_units
from psilogic.tensors.device_tables import DeviceTables
from psilogic.tensors.memory import alike, flat, is_dense
from psilogic.tensors.norms import Foreach, accumulation_dtype, as_real, copied, fresh, traced
from psilogic.tensors.state import local_states
from psilogic.updates.types import Execution, Tensors, Work

BLOCK = 1024
"""Elements that are filled with one factor at once; a tensor of another size uses a part of its last block."""
SMALLEST_BATCH, LARGEST_BATCH = 1 << 20, (1 << 24) - (1 << 12)
"""Elements of a batch: a step copies up to 4 times the bytes of each, or 10 times in half precision."""
DROPPED_BITS = 16
"""bfloat16 is float32 without its lowest 16 bits."""
TOGETHER = 1 << 22
"""The most elements of small tensors that share a call of the rounding: more would cost memory and cache misses."""


def finish(work: Work, found_inf: Tensor | None) -> None:
    """Update all tensors, batch after batch, since each operation makes copies of a whole batch."""
    bucket, (params, _, *moments) = work.owned, work.tensors
    columns, share = [bucket.grads, params, *moments], 10 if bucket.dtype.itemsize == 2 else 4
    if bucket.rounding == "kahan":
        columns.append(local_states(bucket, work.states, "compensation"))
    most = max(SMALLEST_BATCH, min(LARGEST_BATCH, sum(map(Tensor.numel, bucket.values)) // share))
    for batch in batches(bucket, columns, most, bucket.group["foreach"] is False):
        _, params, exp_avgs, exp_avg_sqs, *rest = batch.columns
        grads, cut_off = as_real(process(work, batch)), rest[0] if rest else None
        exact = params if bucket.rounding == "nearest" else widen(params, cut_off)
        adam_(Tensors(exact, grads, exp_avgs, exp_avg_sqs), work.step.of(batch.tensors), batch.tables)
        if bucket.rounding != "nearest":
            narrow_(params, exact, cut_off)


class Batch(NamedTuple):
    """Tensors that are updated together, or a part of one tensor."""

    columns: list[Foreach]  # gradients, parameters and states
    tensors: slice  # their positions in the whole bucket
    units: slice  # the positions of their units
    tables: DeviceTables  # tables of this batch


def batches(bucket: Bucket, columns: list[Foreach], most: int, alone: bool = False) -> Iterator[Batch]:
    """The tensors of a bucket in batches of at most `most` elements; with `alone` no two tensors share one.

    Tensors that ranks hold pieces of are one batch, like those of a step that is traced.
    """
    numels = list(map(Tensor.numel, bucket.values))
    if bucket.ranks is not None or traced() or (sum(numels) <= most and not alone):
        yield Batch(columns, slice(0, len(numels)), slice(None), bucket.cache.tables)
        return
    unit, position = 0, itertools.count()
    for members in _runs(numels, 0 if alone else most):
        of_run, units = [xs[members] for xs in columns], sum(bucket.units[members])
        run = of_run, slice(unit, unit + units)
        for cut, own in [run] if numels[members.start] <= most else _pieces(of_run, unit, bucket.by_rows, most):
            yield Batch(cut, members, own, bucket.cache.batches.setdefault(next(position), DeviceTables()))
        unit += units


def _runs(numels: list[int], most: int) -> Iterator[slice]:
    """Consecutive tensors with at most `most` elements together, or one that has more."""
    begin, size = 0, 0
    for i, n in enumerate(numels):
        if i > begin and size + n > most:
            yield slice(begin, i)
            begin, size = i, 0
        size += n
    yield slice(begin, len(numels))


def _pieces(
    columns: list[Foreach], unit: int, by_rows: bool, most: int, within_row: bool = False
) -> Iterator[tuple[list[Foreach], slice]]:
    """One tensor, given in several columns, in pieces: whole rows, or parts of a unit.

    A unit is cut in the order of memory if the columns have it without gaps, otherwise along its dimensions.
    """
    by_rows = by_rows and columns[0][0].ndim > 1
    if not by_rows and alike(columns, False):
        columns, within_row = [[flat(xs[0])] for xs in columns], False
    first = columns[0][0]
    rows, row = len(first), first.numel() // len(first)
    size = max(1, most // row)
    for begin in range(0, rows, size):
        end = min(begin + size, rows)
        units = slice(unit + begin, unit + end) if by_rows else slice(unit, unit + 1)
        if row > most:
            yield from _pieces([[xs[0][begin]] for xs in columns], units.start, False, most, by_rows or within_row)
        else:
            parts = [xs[0][begin:end] for xs in columns]
            yield [[x.unsqueeze(0) if within_row else x] for x in parts], units


def process(work: Work, batch: Batch) -> Foreach:
    """scale (g - mean) of a batch; `p.grad` is not changed.

    The rows of all tensors are treated at once where vectors are not read, as on a GPU, unless ranks hold pieces of
    them.
    """
    bucket, grads, tables = work.owned, batch.columns[0], batch.tables
    mean, scale = (None if x is None else x[batch.units] for x in (work.mean, work.scale))
    pieces = bucket.pieces if bucket.ranks is not None else ()
    units = bucket.units if pieces else [len(g) if bucket.by_rows and g.ndim > 1 else 1 for g in grads]
    at_once = not (readable(bucket.values[0]) or traced() or pieces or bucket.dtype.is_complex)
    if mean is not None and at_once:
        means = expanded_rows(mean, units, grads, tables)
        grads = list(torch._foreach_sub(copied(grads, means[0].dtype), means))
        del means  # their memory is needed again
    elif mean is not None:
        grads = [g - m for g, m in zip(grads, spread_units(mean, units, grads, pieces), strict=True)]
    if scale is not None and bucket.by_rows and at_once:
        products = expanded_rows(scale, units, grads, tables)
        torch._foreach_mul_(products, copied(grads, products[0].dtype))
        grads = products
    elif scale is not None and bucket.by_rows:
        grads = [g * s for g, s in zip(grads, spread_units(scale, units, grads, pieces), strict=True)]
    elif scale is not None:
        grads = scaled(grads, scale, tables)
    real_views = batch.columns[0][0].shape == batch.columns[1][0].shape  # of complex tensors, or real ones
    return copied(grads, batch.columns[1][0].dtype if real_views else bucket.dtype)  # scaled in float32 at least


def adam_(tensors: Tensors, step: Step, tables: DeviceTables) -> None:
    """One step for N tensors of one device and dtype with processed gradients, in place: decay, quantum decay, Adam."""
    params, grads, exp_avgs, exp_avg_sqs = tensors
    scale_(params, 1 - step.decay, tables)
    if step.quantum_rate is not None:
        quantum_decay_(params, grads, step.quantum_rate, tables)
    moments_(grads, exp_avgs, exp_avg_sqs, step)
    descend_(params, exp_avgs, exp_avg_sqs, step, tables)


def quantum_decay_(params: Foreach, grads: Foreach, rate: Tensor, tables: DeviceTables) -> None:
    """theta <- theta (1 - rate tanh|g|), in the dtype of theta: equation 4 of the paper."""
    factors = copied(list(torch._foreach_abs(grads)), params[0].dtype)
    torch._foreach_tanh_(factors)
    factors = fresh(factors)
    scale_(factors, -rate, tables)
    torch._foreach_add_(factors, 1.0)
    torch._foreach_mul_(params, factors)


def moments_(grads: Foreach, exp_avgs: Foreach, exp_avg_sqs: Foreach, step: Step) -> None:
    """m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2."""
    torch._foreach_lerp_(exp_avgs, grads, numbers(1 - step.beta1))
    torch._foreach_mul_(exp_avg_sqs, numbers(step.beta2))
    torch._foreach_addcmul_(exp_avg_sqs, grads, grads, numbers(1 - step.beta2))


def descend_(params: Foreach, exp_avgs: Foreach, exp_avg_sqs: Foreach, step: Step, tables: DeviceTables) -> None:
    """theta <- theta - lr m_hat / (sqrt(v_hat) + eps)."""
    root2, step_size = (1 - step.beta2**step.t).sqrt(), -step.lr / (1 - step.beta1**step.t)
    denominators = _applied(torch._foreach_div_, fresh(torch._foreach_sqrt(exp_avg_sqs)), root2, tables)
    torch._foreach_add_(denominators, numbers(step.eps))
    if readable(step_size):
        addcdiv_(params, exp_avgs, denominators, step_size.tolist())
    else:  # addcdiv takes no scalars from the device
        addcdiv_(params, fresh(exp_avgs), _applied(torch._foreach_div_, denominators, step_size, tables), 1.0)


def numbers(x: Scalar) -> float | list[float]:
    """A number, or one for each tensor from a vector on the host, as foreach takes them."""
    return x.tolist() if isinstance(x, Tensor) else x


def readable(vector: Tensor) -> bool:
    """Whether the host can read the numbers of a vector at no cost: it is in host memory and the step is not traced."""
    return vector.device.type == "cpu" and not traced()


def per_tensor(vector: Tensor, tensors: Foreach, tables: DeviceTables) -> list[float] | Foreach:
    """A factor for each of N tensors, shape (N,), as foreach takes it: numbers if the host can read them.

    With a list of 0-dim tensors a GPU needs a launch for each, and rounds them to half precision if the tensors have
    that. On a GPU the factors therefore have the shapes of the tensors. A traced step gets 0-dim tensors.
    """
    if readable(vector):
        return vector.tolist()
    return list(vector.unbind()) if traced() else expanded(vector, tensors, tables)


def expanded(vector: Tensor, tensors: Foreach, tables: DeviceTables) -> Foreach:
    """One value for each of N tensors, shape (N,), repeated in the shapes and strides of the tensors.

    In the dtype of sums; one launch for any number of tensors.
    """
    values = vector.to(accumulation_dtype(tensors[0].dtype)).unsqueeze(1).expand(-1, BLOCK)
    counts = [-(-x.numel() // BLOCK) for x in tensors]

    def owners() -> list[Tensor]:
        return [torch.arange(len(counts), device="cpu").repeat_interleave(torch.tensor(counts, device="cpu"))]

    if len(counts) == 1:
        blocks = values.expand(counts[0], -1).contiguous()
    else:
        blocks = values.index_select(0, *tables.get("owners of blocks", counts, vector.device, owners))
    parts = [of_tensor.view(-1)[: x.numel()] for of_tensor, x in zip(blocks.split(counts), tensors, strict=True)]
    return [laid_out(x, part) for x, part in zip(tensors, parts, strict=True)]


def expanded_rows(by_unit: Tensor, units: list[int], tensors: Foreach, tables: DeviceTables) -> Foreach:
    """One value for each unit of N tensors, shape (U,), repeated in the shapes of the tensors.

    In the dtype of sums; one launch for all rows of the same length. `units` has the number of units of each tensor:
    rows of dimension 0, or 1.
    """
    by_length: dict[int, list[int]] = {}
    for i, (x, count) in enumerate(zip(tensors, units, strict=True)):
        by_length.setdefault(x.numel() // max(1, count), []).append(i)

    def rows() -> list[Tensor]:
        of_tensors = torch.arange(sum(units), device="cpu").split(units)
        return [torch.cat([of_tensors[i] for i in members]) for members in by_length.values()]

    key = [*units, *map(Tensor.numel, tensors)]
    indices, repeated = tables.get("rows by length", key, by_unit.device, rows), list(tensors)
    values = by_unit.to(accumulation_dtype(tensors[0].dtype)).unsqueeze(1)
    for (length, members), index in zip(by_length.items(), indices, strict=True):
        parts = values.expand(-1, length).index_select(0, index).split([units[i] for i in members])
        for i, part in zip(members, parts, strict=True):
            rows_first = tensors[i].ndim < 2 or tensors[i].stride(0) == length
            repeated[i] = laid_out(tensors[i], part.view(-1)) if rows_first else part.view(tensors[i].shape)
    return repeated


def laid_out(x: Tensor, elements: Tensor) -> Tensor:
    """A tensor of `x.numel()` elements in the shape of x, and in its strides if x is dense."""
    if x.is_contiguous() or not is_dense(x):
        return elements.view(x.shape)
    return elements.as_strided(x.shape, x.stride(), elements.storage_offset())


def scaled(tensors: Foreach, vector: Tensor, tables: DeviceTables) -> Foreach:
    """Each of N tensors times its value of a vector, shape (N,); half precision may be returned in float32."""
    if readable(vector) or traced():
        return list(torch._foreach_mul(tensors, per_tensor(vector, tensors, tables)))
    products = expanded(vector, tensors, tables)
    torch._foreach_mul_(products, copied(tensors, products[0].dtype))
    return products


def scale_(tensors: Foreach, vector: Tensor, tables: DeviceTables) -> None:
    """Multiply each of N tensors by its value of a vector, shape (N,), in place; half precision in float32."""
    products = _applied(torch._foreach_mul_, tensors, vector, tables)
    if products[0].dtype != tensors[0].dtype:
        torch._foreach_copy_(tensors, products)


def _applied(operation: Callable[..., None], tensors: Foreach, vector: Tensor, tables: DeviceTables) -> Foreach:
    """Each tensor changed by its value of a vector: in place, but half precision on a device as float32 copies."""
    factors, wide = per_tensor(vector, tensors, tables), accumulation_dtype(tensors[0].dtype)
    changed = tensors if readable(vector) or traced() else copied(tensors, wide)
    operation(changed, factors)
    return changed


def addcdiv_(tensors: Foreach, numerators: Foreach, denominators: Foreach, values: list[float] | float) -> None:
    """Add values times numerators over denominators, in place.

    With different dtypes a GPU would need a launch for each tensor: there all are converted to the widest of them.
    """
    sums = tensors
    if not (readable(tensors[0]) or traced()):
        widest = max((xs[0].dtype for xs in (tensors, numerators, denominators)), key=lambda dtype: dtype.itemsize)
        sums, numerators, denominators = (copied(xs, widest) for xs in (tensors, numerators, denominators))
    torch._foreach_addcdiv_(sums, numerators, denominators, values)
    if sums[0].dtype != tensors[0].dtype:
        torch._foreach_copy_(tensors, sums)


def widen(params: Foreach, compensations: Foreach | None) -> Foreach:
    """The float32 values of bfloat16 parameters, plus the errors of earlier roundings."""
    exact = copied(params, torch.float32)
    if compensations is not None:
        torch._foreach_add_(exact, copied(compensations, torch.float32))
    return exact


def narrow_(params: Foreach, exact: Foreach, compensations: Foreach | None) -> None:
    """params <- exact: to nearest, with compensations <- the rounding errors; stochastically without compensations."""
    if compensations is None:
        torch._foreach_copy_(params, rounded_together(exact))
        return
    torch._foreach_copy_(params, exact)
    torch._foreach_sub_(exact, copied(params, torch.float32))
    torch._foreach_copy_(compensations, exact)


def rounded_together(tensors: Foreach) -> Foreach:
    """The tensors stochastically rounded, small ones by shared calls: a GPU needs eight launches for each call."""
    rounded: Foreach = []
    for members in _runs([x.numel() for x in tensors], TOGETHER):
        run = tensors[members]
        whole = stochastically_rounded(run[0] if len(run) == 1 else torch.cat([flat(x) for x in run]))
        parts = whole.split([x.numel() for x in run]) if len(run) > 1 else [whole]
        rounded += [laid_out(x, part) if len(run) > 1 else part for x, part in zip(run, parts, strict=True)]
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


execution = Execution("foreach", lambda tensors, by_rows: True, lambda work: measure(work.bucket), finish)
