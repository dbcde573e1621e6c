"""The plan of a step: which backend updates which tensors by which launches, for later steps that would find the same.

It depends on options, on which parameters have gradients, and on metadata and addresses of tensors, but on no value.
The next step compares these, which is a small part of the work of a plan. It reads again what may change in each step:
numbers such as the learning rate, and the addresses of gradients. After any other change a new plan is made.
"""

from collections.abc import MutableMapping, Sequence
from operator import is_
from typing import Any, NamedTuple

from torch import Tensor
from torch import distributed as dist

from psilogic.options import has_plain, others_of, values_of
from psilogic.step import BucketStep, Tensors
from psilogic.tensors.buckets import Group
from psilogic.tensors.device_tables import stream_unless_capturing
from psilogic.tensors.memory import addresses, guard_of
from psilogic.tensors.norms import TensorList
from psilogic.tensors.scalars import State, scalar_names
from psilogic.tensors.state import moment_names


class Participants(NamedTuple):
    """The parameters that have a gradient."""

    params: TensorList
    grads: TensorList
    groups: list[Group]  # of each of them
    counts: list[int]  # their number in each group

    def take(self, chosen: list[int]) -> "Participants":
        """Those at the chosen positions."""
        params = [self.params[i] for i in chosen]
        grads = [self.grads[i] for i in chosen]
        groups = [self.groups[i] for i in chosen]
        return Participants(params, grads, groups, self.counts)


class Conditions(NamedTuple):
    """What a plan depends on besides tensors and options."""

    has_grad_scale: bool  # whether GradScaler leaves unscaling to the step
    has_found_inf: bool  # whether it leaves the check for overflow to the step
    is_observed: bool  # whether something observes the decisions


class Entry:
    """The step of a bucket, without the caller's tensors.

    Args:
        work: the step that was planned.
        members: the positions of its tensors among the participants.
    """

    def __init__(self, work: BucketStep, members: list[int]) -> None:
        self.bucket = work.bucket
        self.members = members
        self.names = (*moment_names(work.bucket), *scalar_names(work.bucket.group))
        self.backend = work.backend
        self.decides_itself = work.decides_itself
        self.sizes = work.sizes
        self.scalar_kinds = work.scalar_kinds
        self.observed = work.observed
        self.kept = work.kept
        flat = self._flat(work.bucket.params, work.bucket.grads, work.states)
        self.guard = guard_of(flat)
        self.stream = stream_unless_capturing(work.bucket.device)
        self.addresses = addresses(flat)
        self.of_params = frozenset(self.addresses[: len(members)])
        self.of_tensors = work.addresses  # the same object, as long as it holds
        self.of_scalars = work.scalar_addresses
        self.bucket.release()

    def _flat(self, params: TensorList, grads: TensorList, states: list[State]) -> TensorList:
        """All tensors, column after column."""
        return params + grads + [state[name] for name in self.names for state in states]

    def step(
        self, found: Participants, every_state: MutableMapping[Tensor, State], is_changed: bool
    ) -> BucketStep | None:
        """The step of the same tensors; None if the plan does not hold for them.

        With `is_changed` numbers in the groups are others than before.
        """
        if len(self.members) < len(found.params):
            found = found.take(self.members)
        params = found.params
        count = len(params)
        states = [every_state[p] for p in params]
        try:
            flat = self._flat(params, found.grads, states)
        except KeyError:  # a state lacks a tensor, which must be started
            return None
        if not self.guard.check(*flat) or stream_unless_capturing(self.bucket.device) != self.stream:
            return None
        present = addresses(flat)
        if present != self.addresses:
            if not self._only_gradients_moved(present, count):
                return None
            self.addresses = present
            self.of_tensors = present[: 4 * count]
        self.bucket.fill(found.groups, params, found.grads, is_changed)
        tensors = Tensors(params, found.grads, flat[2 * count : 3 * count], flat[3 * count : 4 * count])
        return BucketStep(
            bucket=self.bucket,
            owned=self.bucket,
            states=states,
            tensors=tensors,
            backend=self.backend,
            addresses=self.of_tensors,
            scalar_addresses=self.of_scalars,
            sizes=self.sizes,
            scalar_kinds=self.scalar_kinds,
            observed=self.observed,
            decides_itself=self.decides_itself,
            kept=self.kept,
        )

    def _only_gradients_moved(self, present: Any, count: int) -> bool:
        """Whether nothing but gradients is elsewhere, and none where a parameter is."""
        before = self.addresses
        if present[:count] != before[:count] or present[2 * count :] != before[2 * count :]:
            return False
        moved = present[count : 2 * count]
        return 0 not in moved and self.of_params.isdisjoint(moved)


class Plan:
    """The plan of the last step. Between steps it keeps none of the caller's tensors."""

    def __init__(self) -> None:
        self.forget()

    def __reduce__(self) -> tuple[type["Plan"], tuple[()]]:
        return Plan, ()  # a copy is empty: addresses are part of a plan

    def forget(self) -> None:
        """Forget the plan: the next step makes a new one."""
        self._key: Any = None  # what the last step depended on besides tensors
        self._options: list[tuple[Any, ...]] = []  # of each group
        self._others: list[tuple[Any, ...]] = []  # those that are no numbers
        self._recurs = False  # whether the step before had the same key
        self._entries: list[Entry] = []

    def recall(
        self, groups: list[Group], every_state: MutableMapping[Tensor, State], conditions: Conditions
    ) -> list[BucketStep] | None:
        """The steps of all buckets, if the plan holds for these groups; otherwise None."""
        options = list(map(values_of, groups))
        if not all(map(has_plain, options)):  # a tensor may change from step to step
            self.forget()
            return None
        is_changed = options != self._options
        if is_changed:
            self._options = options
            self._others = list(map(others_of, groups))
        found = participants(groups)
        is_distributed = dist.is_available() and dist.is_initialized()
        key = (conditions, is_distributed, self._others, found.counts, list(map(id, found.params)))
        self._recurs = key == self._key
        self._key = key
        if not self._recurs:
            self._entries = []
        works: list[BucketStep] = []
        for entry in self._entries:
            work = entry.step(found, every_state, is_changed)
            if work is None:
                self._entries = []
                return None
            works.append(work)
        return works or None

    def keep(self, works: list[BucketStep]) -> None:
        """Keep the plan of a step that has been taken, if the next step may find the same.

        A guard is as costly as ten plans: it is made when a key occurs again.
        """
        if self._entries:
            for entry in self._entries:
                entry.bucket.release()
            return
        if not self._options or not self._recurs or not all(map(can_recur, works)):
            return
        position = {address: i for i, address in enumerate(self._key[-1])}
        entries = []
        for work in works:
            entries.append(Entry(work, [position[id(p)] for p in work.bucket.params]))
        if all(entry.guard is not None and entry.stream is not None for entry in entries):
            self._entries = entries


def participants(groups: Sequence[Group]) -> Participants:
    """The parameters of all groups that have a gradient."""
    params: TensorList = []
    grads: TensorList = []
    group_of_each: list[Group] = []
    counts: list[int] = []
    for group in groups:
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                params.append(p)
                grads.append(grad)
        counts.append(len(params) - len(group_of_each))
        group_of_each += [group] * counts[-1]
    return Participants(params, grads, group_of_each, counts)


def can_recur(work: BucketStep) -> bool:
    """Whether the tensors of a bucket are whole and real, and one backend runs through their memory.

    No gradient may be where a parameter is.
    """
    bucket = work.bucket
    if work.owned is not bucket or bucket.ranks is not None or bucket.dtype.is_complex:
        return False
    if work.addresses is None or 0 in work.addresses or 0 in work.scalar_addresses:
        return False
    count = len(bucket.params)
    are_apart = set(work.addresses[:count]).isdisjoint(work.addresses[count : 2 * count])
    return are_apart and all(map(is_, bucket.values, bucket.params))
