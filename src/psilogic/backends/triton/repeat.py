"""The launches of a step whose decisions are the device's, for later steps in which all of them are the same.

Sizes, and the addresses of all but the gradients, are those of the step before. What is left for the host is to take
numbers that have changed, and to launch the kernels in their order.
"""

import torch
from torch import Tensor

from psilogic.backends.triton.decide import Deciding, on_device
from psilogic.backends.triton.launch import are_observed, is_current
from psilogic.backends.triton.sums import UnitSums
from psilogic.backends.triton.tables import AddressTable
from psilogic.backends.triton.update import Update
from psilogic.gradients import total_squares
from psilogic.step import BucketStep, Repetition
from psilogic.tensors.device_tables import stream_unless_capturing
from psilogic.tensors.norms import TensorList


class RepeatedLaunches(Repetition):
    """The launches of a step of buckets on one stream, or one for each device.

    Args:
        works: the step, which has been taken.
    """

    def __init__(self, works: list[BucketStep]) -> None:
        self._buckets = [work.bucket for work in works]
        self._devices = [bucket.device for bucket in self._buckets]
        self._is_one_device = len(set(self._devices)) == 1
        self._stream = stream_unless_capturing(self._devices[0])
        self._clips = self._buckets[0].group["max_grad_norm"] is not None
        self._tables: list[AddressTable] = [work.kept["addresses"] for work in works]
        self._pointed: list[Tensor | None] = [None for _ in works]  # the tables that launches were given here
        self._sums: list[UnitSums] = [work.sums for work in works]
        self._decisions: list[Deciding] = [work.kept["decision"] for work in works]
        self._updates: list[Update] = [work.kept["update"] for work in works]

    def take_numbers(self) -> None:
        """Take the numbers of the buckets, such as learning rates, which have changed."""
        for bucket, decision, update in zip(self._buckets, self._decisions, self._updates, strict=True):
            decision.take_hyperparameters(bucket)
            update.take_numbers(decision.step)

    def move_gradients(self, position: int, addresses: bytes) -> None:
        """Write the addresses of the gradients of a bucket to its table."""
        table = self._tables[position].move_gradients(addresses)
        if table is not self._pointed[position]:
            self._pointed[position] = table
            self._sums[position].launch.point(addresses=table)
            self._updates[position].launch.point(addresses=table)

    def run(self, changed: TensorList) -> None:
        """Launch the sums of all buckets, then their decisions, then their updates."""
        stream = self._stream
        if not self._is_one_device or not is_current(self._devices[0]) or are_observed():
            stream = None
        for sums in self._sums:
            sums.launch.again(stream)
        total = None
        if self._clips:
            total = total_squares(self._sums)
        for decision, device in zip(self._decisions, self._devices, strict=True):
            decision.again(stream, on_device(total, device))
        for update in self._updates:
            update.launch.again(stream)
        torch.autograd.graph.increment_version(changed)
