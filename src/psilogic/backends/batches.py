"""The tensors of a bucket in batches, so that copies of a batch need little additional memory."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor

from psilogic.tensors.buckets import Bucket
from psilogic.tensors.device_tables import DeviceTables
from psilogic.tensors.memory import flat, same_layouts
from psilogic.tensors.norms import TensorList, traced


class Batch(NamedTuple):
    """Tensors that are updated together, or a part of one tensor."""

    columns: list[TensorList]  # gradients, parameters and states
    tensors: slice  # their positions in the whole bucket
    units: slice  # the positions of their units
    tables: DeviceTables  # what is kept for the same batch of later steps


class Part(NamedTuple):
    """Whole tensors, or a part of one tensor."""

    columns: list[TensorList]  # gradients, parameters and states
    units: slice  # the positions of their units in the whole bucket


def batches(bucket: Bucket, columns: list[TensorList], most: int, alone: bool = False) -> Iterator[Batch]:
    """The tensors of a bucket in batches of at most `most` elements.

    Tensors that ranks hold pieces of are one batch of any size, like those of a step that is traced.

    Args:
        bucket: the bucket.
        columns: its gradients, parameters and states.
        most: the most elements of a batch.
        alone: whether no two tensors may share a batch.
    """
    numels = list(map(Tensor.numel, bucket.values))
    is_small = sum(numels) <= most and not alone
    if bucket.ranks is not None or traced() or is_small:
        yield Batch(columns, slice(0, len(numels)), slice(None), bucket.cache.tables)
        return
    most_of_run = 0 if alone else most
    first_unit = 0
    batch_number = itertools.count()
    for members in runs(numels, most_of_run):
        of_run = [xs[members] for xs in columns]
        after_last_unit = first_unit + sum(bucket.units[members])
        if numels[members.start] <= most:
            parts = iter([Part(of_run, slice(first_unit, after_last_unit))])
        else:  # a run with a larger tensor has no other one
            parts = _parts(of_run, first_unit, bucket.by_rows, most)
        for part in parts:
            tables = bucket.cache.batches.setdefault(next(batch_number), DeviceTables())
            yield Batch(part.columns, members, part.units, tables)
        first_unit = after_last_unit


def runs(numels: list[int], most: int) -> Iterator[slice]:
    """The positions of consecutive tensors with at most `most` elements together, or of one that has more."""
    begin = 0
    size = 0
    for i, numel in enumerate(numels):
        if i > begin and size + numel > most:
            yield slice(begin, i)
            begin = i
            size = 0
        size += numel
    yield slice(begin, len(numels))


def _parts(
    columns: list[TensorList], first_unit: int, by_rows: bool, most: int, within_row: bool = False
) -> Iterator[Part]:
    """One tensor in parts of at most `most` elements: whole rows, or parts of a unit.

    A unit is cut in the order of memory if the columns have it without gaps, otherwise along its dimensions.

    Args:
        columns: the tensor's gradient, parameter and states, each alone in a list.
        first_unit: the position of its first unit in the bucket.
        by_rows: whether its units are rows.
        most: the most elements of a part.
        within_row: whether the tensor is a row of a larger one. A part with its dimensions is then given another one in
            front, so that it is a single row.
    """
    by_rows = by_rows and columns[0][0].ndim > 1
    if not by_rows and same_layouts(columns, by_rows=False):
        columns = [[flat(xs[0])] for xs in columns]
        within_row = False  # a part with one dimension is a single unit
    first_column = columns[0][0]
    rows = len(first_column)
    row_numel = first_column.numel() // rows
    rows_of_part = max(1, most // row_numel)
    for begin in range(0, rows, rows_of_part):
        end = min(begin + rows_of_part, rows)
        units = slice(first_unit, first_unit + 1)
        if by_rows:
            units = slice(first_unit + begin, first_unit + end)
        if row_numel > most:
            row = [[xs[0][begin]] for xs in columns]
            yield from _parts(row, units.start, by_rows=False, most=most, within_row=by_rows or within_row)
            continue
        tensors = [xs[0][begin:end] for xs in columns]
        if within_row:
            tensors = [x.unsqueeze(0) for x in tensors]
        yield Part([[x] for x in tensors], units)
