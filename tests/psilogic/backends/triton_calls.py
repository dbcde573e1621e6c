"""Triton's launches for tensors that are given as lists, without an optimizer."""

from psilogic.backends.triton import sums, update
from psilogic.backends.triton.tables import uploaded_addresses
from psilogic.tensors.memory import addresses, sizes_of


def unit_sums(grads, params, units, with_sums, tables):
    """The sums over the units of gradients, and of parameters if they are given."""
    first = grads[0]
    columns = [*grads, *grads] if params is None else [*params, *grads]
    table = uploaded_addresses(tables, addresses(columns), first.device)
    result = sums.unit_sums(first, table, sizes_of(grads, units), params is not None, with_sums, tables)
    result.launch()
    return result


def update_(tensors, step, mean, scale, units, tables):
    """The update of tensors in place."""
    first = tensors.params[0]
    columns = [*tensors.params, *tensors.grads, *tensors.exp_avgs, *tensors.exp_avg_sqs]
    table = uploaded_addresses(tables, addresses(columns), first.device)
    update.Update(first, table, sizes_of(tensors.params, units), tables)(tensors, table, step, mean, scale)
