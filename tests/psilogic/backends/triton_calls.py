"""Triton's launches for tensors that are given as lists, without an optimizer."""

from psilogic.backends.triton import sums, update
from psilogic.tensors.memory import addresses, sizes_of


def unit_sums(grads, params, units, with_sums, tables):
    """The sums over the units of gradients, and of parameters if they are given."""
    columns = [*grads, *grads] if params is None else [*params, *grads]
    return sums.unit_sums(
        grads[0],
        addresses(columns),
        sizes_of(grads, units),
        with_params=params is not None,
        with_sums=with_sums,
        tables=tables,
    )


def update_(tensors, step, mean, scale, units, tables):
    """The update of tensors in place."""
    columns = [*tensors.params, *tensors.grads, *tensors.exp_avgs, *tensors.exp_avg_sqs]
    update.update_(tensors, addresses(columns), sizes_of(tensors.params, units), step, mean, scale, tables)
