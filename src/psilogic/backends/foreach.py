"""The update on any device and dtype, through torch's foreach operations: the ground truth."""

import torch
from torch import Tensor

from psilogic.backends.batches import Batch, batches
from psilogic.backends.by_torch import ByTorch
from psilogic.backends.factors import EachFactor, Factors, applied, expanded_rows, factors_of, readable, scale_, scaled
from psilogic.backends.rounding import narrow_, widen
from psilogic.step import BucketStep, Tensors
from psilogic.tensors.buckets import Bucket, broadcast_units
from psilogic.tensors.device_tables import DeviceTables
from psilogic.tensors.memory import ordinary, used_addresses
from psilogic.tensors.norms import TensorList, as_real, copied, fresh, traced
from psilogic.tensors.sharding import Piece
from psilogic.tensors.state import local_states

SMALLEST_BATCH = 1 << 20
LARGEST_BATCH = (1 << 24) - (1 << 12)
"""Elements of a batch: a step copies up to 4 times the bytes of each, or 10 times in half precision."""
SMALL = 1 << 16
"""Elements that may be copied at once even if every tensor has fewer."""


class Foreach(ByTorch):
    """Torch's foreach operations."""

    name = "foreach"

    def supports(self, tensors: Tensors, by_rows: bool) -> bool:
        """Every tensor."""
        return True

    def finish(self, work: BucketStep, found_inf: Tensor | None) -> None:
        """Update all tensors, batch after batch, since each operation makes copies of a whole batch."""
        bucket = work.owned
        columns = [bucket.grads, work.tensors.params, work.tensors.exp_avgs, work.tensors.exp_avg_sqs]
        if bucket.rounding == "kahan":
            columns.append(local_states(bucket, work.states, "compensation"))
        factors = factors_of(work.step)
        for batch in batches(bucket, columns, most_elements(bucket), alone=are_one_after_the_other(bucket)):
            update_batch_(work, batch, factors.take(batch.tensors))


def most_elements(bucket: Bucket) -> int:
    """The most elements of a batch; with `foreach=False` as few as if one tensor was updated after the other."""
    numels = list(map(Tensor.numel, bucket.values))
    share = 10 if bucket.dtype.itemsize == 2 else 4
    most = max(SMALLEST_BATCH, min(LARGEST_BATCH, sum(numels) // share))
    if bucket.group["foreach"] is False:
        return min(most, max(SMALL, *numels))
    return most


def are_one_after_the_other(bucket: Bucket) -> bool:
    """Whether no two tensors may share a batch: with `foreach=False` if a parameter may be in another's memory.

    Or in that of a gradient: an update of both would read it when it has changed.
    """
    if bucket.group["foreach"] is not False or traced():
        return False
    if not ordinary([bucket.values, bucket.grads]):
        return True
    of_params = used_addresses(bucket.values)
    distinct = set(of_params)
    return len(distinct) < len(of_params) or not distinct.isdisjoint(used_addresses(bucket.grads))


def update_batch_(work: BucketStep, batch: Batch, factors: Factors) -> None:
    """Update the tensors of one batch, with the rounding that their bucket asks for."""
    _, params, exp_avgs, exp_avg_sqs, *kahan = batch.columns
    grads = as_real(processed_grads(work, batch))
    if work.owned.rounding == "nearest":
        adam_(Tensors(params, grads, exp_avgs, exp_avg_sqs), factors, batch.tables)
        return
    compensations = kahan[0] if kahan else None
    exact = widen(params, compensations)
    adam_(Tensors(exact, grads, exp_avgs, exp_avg_sqs), factors, batch.tables)
    narrow_(params, exact, compensations)


def processed_grads(work: BucketStep, batch: Batch) -> TensorList:
    """scale (g - mean) of a batch; `p.grad` is not changed."""
    bucket = work.owned
    grads, params = batch.columns[:2]
    units = bucket.units
    if bucket.ranks is None:
        units = [len(g) if bucket.by_rows and g.ndim > 1 else 1 for g in grads]
    has_real_views = grads[0].shape == params[0].shape  # of complex tensors, or they are real
    dtype = params[0].dtype if has_real_views else bucket.dtype
    if work.mean is not None:
        grads = centered(grads, work.mean[batch.units], units, work, batch.tables)
    if work.scale is not None:
        scale = work.scale[batch.units]
        if bucket.by_rows:
            grads = scaled_rows(grads, scale, units, work, batch.tables)
        else:
            grads = scaled(grads, scale, batch.tables)
    return copied(grads, dtype)  # scaled in float32 at least


def centered(grads: TensorList, mean: Tensor, units: list[int], work: BucketStep, tables: DeviceTables) -> TensorList:
    """g - mean, where each unit has its mean."""
    if takes_rows_at_once(work):
        means = expanded_rows(mean, units, grads, tables)
        return list(torch._foreach_sub(copied(grads, means[0].dtype), means))
    means = broadcast_units(mean, units, grads, split_pieces(work))
    return [g - m for g, m in zip(grads, means, strict=True)]


def scaled_rows(
    grads: TensorList, scale: Tensor, units: list[int], work: BucketStep, tables: DeviceTables
) -> TensorList:
    """scale g, where each unit has its scale."""
    if takes_rows_at_once(work):
        products = expanded_rows(scale, units, grads, tables)
        torch._foreach_mul_(products, copied(grads, products[0].dtype))
        return products
    scales = broadcast_units(scale, units, grads, split_pieces(work))
    return [g * s for g, s in zip(grads, scales, strict=True)]


def takes_rows_at_once(work: BucketStep) -> bool:
    """Whether the rows of all tensors are treated at once: on a GPU, unless ranks hold pieces of them."""
    bucket = work.owned
    if bucket.ranks is not None or bucket.dtype.is_complex:
        return False
    return not (readable(bucket.values[0]) or traced())


def split_pieces(work: BucketStep) -> list[Piece | None]:
    """The positions of the tensors of which other ranks hold pieces; none if all are whole."""
    return [] if work.owned.ranks is None else work.owned.pieces


def adam_(tensors: Tensors, factors: Factors, tables: DeviceTables) -> None:
    """One step for N tensors of one device and dtype with processed gradients, in place: decay, quantum decay, Adam."""
    scale_(tensors.params, factors.keep, tables)
    if factors.minus_quantum_rate is not None:
        quantum_decay_(tensors.params, tensors.grads, factors.minus_quantum_rate, tables)
    moments_(tensors, factors)
    descend_(tensors, factors, tables)


def quantum_decay_(params: TensorList, grads: TensorList, minus_rate: EachFactor, tables: DeviceTables) -> None:
    """theta <- theta (1 - rate tanh|g|), in the dtype of theta: equation 4 of the paper."""
    factors = copied(list(torch._foreach_abs(grads)), params[0].dtype)
    torch._foreach_tanh_(factors)
    factors = fresh(factors)
    scale_(factors, minus_rate, tables)
    torch._foreach_add_(factors, 1.0)
    torch._foreach_mul_(params, factors)


def moments_(tensors: Tensors, factors: Factors) -> None:
    """m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2."""
    torch._foreach_lerp_(tensors.exp_avgs, tensors.grads, factors.weight1)
    torch._foreach_mul_(tensors.exp_avg_sqs, factors.beta2)
    torch._foreach_addcmul_(tensors.exp_avg_sqs, tensors.grads, tensors.grads, factors.weight2)


def descend_(tensors: Tensors, factors: Factors, tables: DeviceTables) -> None:
    """theta <- theta - lr m_hat / (sqrt(v_hat) + eps)."""
    minus_step_size = factors.minus_step_size
    denominators = fresh(torch._foreach_sqrt(tensors.exp_avg_sqs))
    denominators = applied(torch._foreach_div_, denominators, factors.root2, tables)
    torch._foreach_add_(denominators, factors.eps)
    if isinstance(minus_step_size, list):
        addcdiv_(tensors.params, tensors.exp_avgs, denominators, minus_step_size)
    else:  # addcdiv takes no scalars from the device
        numerators = fresh(tensors.exp_avgs)
        denominators = applied(torch._foreach_div_, denominators, minus_step_size, tables)
        addcdiv_(tensors.params, numerators, denominators, 1.0)


def addcdiv_(
    tensors: TensorList, numerators: TensorList, denominators: TensorList, values: list[float] | float
) -> None:
    """Add values times numerators over denominators, in place.

    With different dtypes a GPU would need a launch for each tensor: there all are converted to the widest of them.
    """
    if readable(tensors[0]) or traced():
        torch._foreach_addcdiv_(tensors, numerators, denominators, values)
        return
    dtypes = [tensors[0].dtype, numerators[0].dtype, denominators[0].dtype]
    widest = max(dtypes, key=lambda dtype: dtype.itemsize)
    sums = copied(tensors, widest)
    torch._foreach_addcdiv_(sums, copied(numerators, widest), copied(denominators, widest), values)
    if widest != tensors[0].dtype:
        torch._foreach_copy_(tensors, sums)


backend = Foreach()
