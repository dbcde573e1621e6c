"""The plan of the step of one bucket, and the comparison with the tensors of a later step."""

from array import array
from collections.abc import MutableMapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from psilogic.step import BucketStep, Tensors
from psilogic.tensors.buckets import Group
from psilogic.tensors.device_tables import stream_unless_capturing
from psilogic.tensors.lookups import ADDRESS_BYTES, Participants, columns, moved
from psilogic.tensors.memory import addresses, guard_of
from psilogic.tensors.norms import TensorList
from psilogic.tensors.scalars import State, scalar_names
from psilogic.tensors.state import moment_names


class Found(NamedTuple):
    """The tensors of a bucket in a later step."""

    params: TensorList
    grads: TensorList
    states: list[State]
    every: TensorList  # parameters, gradients, moments and scalars: each name of them for all parameters
    # The addresses of the gradients, as 64-bit integers; None if nothing has moved, empty if other tensors have moved.
    moved: bytes | None

    def changed(self) -> TensorList:
        """The tensors that a step changes, but for the scalars: parameters and Adam's moments."""
        count = len(self.params)
        return self.params + self.every[2 * count : 4 * count]


class PlannedBucket:
    """The plan of a bucket's step. It keeps none of the caller's tensors, and makes the bucket forget them.

    Args:
        work: the step that was planned, and has been taken; nothing of the caller has seen the tensors since.
        members: the positions of the bucket's parameters among the participants.
    """

    def __init__(self, work: BucketStep, members: list[int]) -> None:
        self.bucket = work.bucket
        self.members = members
        moments = moment_names(work.bucket)
        self.names = (*moments, *scalar_names(work.bucket.group))
        self.first_scalar = 2 + len(moments)  # the position of its name in the order of `Found.every`
        self.backend = work.backend
        self.decides_itself = work.decides_itself
        self.sizes = work.sizes
        self.scalar_kinds = work.scalar_kinds
        self.observed = work.observed
        self.kept = work.kept
        of_states = [state[name] for name in self.names for state in work.states]
        self.guard = guard_of(work.bucket.params + work.bucket.grads + of_states)
        self.stream = stream_unless_capturing(work.bucket.device)  # launches are prepared for it
        self.tensor_addresses = work.addresses  # column after column
        self.scalar_addresses = work.scalar_addresses
        _, _, *others = moments  # but for Adam's two, which are in the addresses of the tensors
        others_addresses = addresses(work.states, tuple(others)) if others else array("q")
        # Where the tensors are, in the order of `Found.every`.
        self.places = bytearray((work.addresses + others_addresses + work.scalar_addresses).tobytes())
        self.param_addresses = frozenset(work.addresses[: len(members)])
        self.bucket.release()

    def find(self, found: Participants, every_state: MutableMapping[Tensor, State]) -> Found | None:
        """The tensors of the bucket; None if the plan does not hold for them.

        Args:
            found: all participants.
            every_state: the optimizer's states.
        """
        if len(self.members) < len(found.params):
            found = found.take(self.members)
        try:
            states, every = columns(found.params, found.grads, every_state, self.names)
        except KeyError:  # a state lacks a tensor, which must be started
            return None
        if not self.guard.check(*every) or stream_unless_capturing(self.bucket.device) != self.stream:
            return None
        count = len(self.members)
        of_grads = moved(every, self.places, count, 2 * count)
        if of_grads is not None and not self._take_places(every, of_grads):
            return None
        return Found(found.params, found.grads, states, every, of_grads)

    def fill(self, found: Found, group_of_each: list[Group], numbers_changed: bool) -> None:
        """Let the bucket take the tensors of a step, and the numbers of their groups if these have changed."""
        if len(self.members) < len(group_of_each):
            group_of_each = [group_of_each[i] for i in self.members]
        self.bucket.fill(group_of_each, found.params, found.grads, numbers_changed)

    def step(self, found: Found, group_of_each: list[Group], numbers_changed: bool) -> BucketStep:
        """The step of the same tensors.

        Args:
            found: the tensors.
            group_of_each: the group of each participant.
            numbers_changed: whether the groups have other numbers than in the step before.
        """
        self.fill(found, group_of_each, numbers_changed)
        count = len(found.params)
        exp_avgs = found.every[2 * count : 3 * count]
        exp_avg_sqs = found.every[3 * count : 4 * count]
        return BucketStep(
            bucket=self.bucket,
            owned=self.bucket,
            states=found.states,
            tensors=Tensors(found.params, found.grads, exp_avgs, exp_avg_sqs),
            backend=self.backend,
            addresses=self.tensor_addresses,
            scalar_addresses=self.scalar_addresses,
            sizes=self.sizes,
            scalar_kinds=self.scalar_kinds,
            observed=self.observed,
            decides_itself=self.decides_itself,
            kept=self.kept,
        )

    def _take_places(self, every: TensorList, of_grads: bytes) -> bool:
        """Take other addresses, of which those of the gradients are noted already unless other tensors have moved, too.

        Returns:
            False if a tensor has no memory, if a parameter shares it, or if more than gradients has moved on a device,
            where launches have the other addresses.
        """
        if not of_grads:
            if self.bucket.device.type != "cpu":
                return False
            present = addresses(every)
            if 0 in present:
                return False
            self.places = bytearray(present.tobytes())
            self.param_addresses = frozenset(self._columns(0, 1))
            self.scalar_addresses = self._columns(self.first_scalar, len(present) // len(self.members))
        self.tensor_addresses = self._columns(0, len(Tensors._fields))
        addresses_of_grads = self._columns(1, 2)
        is_each_alone = len(self.param_addresses) == len(self.members)
        return is_each_alone and 0 not in addresses_of_grads and self.param_addresses.isdisjoint(addresses_of_grads)

    def _columns(self, first: int, last: int) -> Any:
        """The addresses of some names, in the order of `Found.every`: from the first to before the last."""
        size = len(self.members) * ADDRESS_BYTES
        return array("q", bytes(self.places[first * size : last * size]))


def are_apart(buckets: Sequence[PlannedBucket]) -> bool:
    """Whether no parameter has its address in common with one of another bucket."""
    every: set[int] = set()
    for planned in buckets:
        every.update(planned.param_addresses)
    return len(every) == sum(len(planned.members) for planned in buckets)
