"""The plan of a step: which backend updates which tensors by which launches, for later steps that would find the same.

It depends on options, on which parameters have gradients, and on metadata and addresses of tensors, but on no value.
The next step compares all of this, which takes a small part of the time of a new plan. Numbers, such as the learning
rate, and the addresses of gradients may change: the step reads them again. After any other change a new plan is made.
"""

from array import array
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
    groups: list[Group]  # the group of each parameter
    counts: list[int]  # the number of them in each group of the optimizer

    def take(self, chosen: list[int]) -> "Participants":
        """The parameters at the chosen positions; `counts` stays that of all."""
        params = [self.params[i] for i in chosen]
        grads = [self.grads[i] for i in chosen]
        groups = [self.groups[i] for i in chosen]
        return Participants(params, grads, groups, self.counts)


class Conditions(NamedTuple):
    """What a plan depends on besides tensors and options."""

    has_grad_scale: bool  # whether GradScaler leaves unscaling to the step
    has_found_inf: bool  # whether GradScaler leaves the check for overflow to the step
    is_observed: bool  # whether something observes the decisions


class Key(NamedTuple):
    """What two steps must have in common, besides the tensors, so that the later one may use the plan of the other."""

    conditions: Conditions
    is_distributed: bool
    others: list[tuple[Any, ...]]  # the options of each group that are not in NUMBERS
    counts: list[int]  # as in `Participants`
    param_ids: list[int]  # the id of each participant


class Entry:
    """The plan of a bucket's step. It keeps none of the caller's tensors, and makes the bucket forget them.

    Args:
        work: the step that was planned, and has been taken.
        members: the positions of the bucket's parameters among the participants.
    """

    def __init__(self, work: BucketStep, members: list[int]) -> None:
        self.bucket = work.bucket
        self.members = members
        moments = moment_names(work.bucket)
        self.names = (*moments, *scalar_names(work.bucket.group))
        self.backend = work.backend
        self.decides_itself = work.decides_itself
        self.sizes = work.sizes
        self.scalar_kinds = work.scalar_kinds
        self.observed = work.observed
        self.kept = work.kept
        self.guard = guard_of(self._all_tensors(work.bucket.params, work.bucket.grads, work.states))
        self.stream = stream_unless_capturing(work.bucket.device)  # launches are prepared for it
        self.tensor_addresses = work.addresses  # the same object, until a gradient moves
        self.scalar_addresses = work.scalar_addresses
        _, _, *others = moments  # but for Adam's two, which are in the addresses of the tensors
        others_addresses = addresses(work.states, tuple(others)) if others else array("q")
        # Where the tensors were in the step, in the order of `_all_tensors`: an observer may have moved one since.
        self.addresses = work.addresses + others_addresses + work.scalar_addresses
        self.param_addresses = frozenset(self.addresses[: len(members)])
        self.bucket.release()

    def _all_tensors(self, params: TensorList, grads: TensorList, states: list[State]) -> TensorList:
        """Parameters, gradients, moments and scalars: each name of them for all parameters, then the next."""
        return params + grads + [state[name] for name in self.names for state in states]

    def step(
        self, found: Participants, every_state: MutableMapping[Tensor, State], numbers_changed: bool
    ) -> BucketStep | None:
        """The step of the same tensors; None if the plan does not hold for them.

        Args:
            found: all participants.
            every_state: the optimizer's states.
            numbers_changed: whether the groups have other numbers than in the step before.
        """
        if len(self.members) < len(found.params):
            found = found.take(self.members)
        params = found.params
        count = len(params)
        states = [every_state[p] for p in params]
        try:
            tensors = self._all_tensors(params, found.grads, states)
        except KeyError:  # a state lacks a tensor, which must be started
            return None
        if not self.guard.check(*tensors) or stream_unless_capturing(self.bucket.device) != self.stream:
            return None
        present = addresses(tensors)
        if present != self.addresses:
            if not self._only_gradients_moved(present, count):
                return None
            self.addresses = present
            self.tensor_addresses = present[: len(Tensors._fields) * count]
        self.bucket.fill(found.groups, params, found.grads, numbers_changed)
        exp_avgs = tensors[2 * count : 3 * count]
        exp_avg_sqs = tensors[3 * count : 4 * count]
        return BucketStep(
            bucket=self.bucket,
            owned=self.bucket,
            states=states,
            tensors=Tensors(params, found.grads, exp_avgs, exp_avg_sqs),
            backend=self.backend,
            addresses=self.tensor_addresses,
            scalar_addresses=self.scalar_addresses,
            sizes=self.sizes,
            scalar_kinds=self.scalar_kinds,
            observed=self.observed,
            decides_itself=self.decides_itself,
            kept=self.kept,
        )

    def _only_gradients_moved(self, present: Any, count: int) -> bool:
        """Whether nothing but gradients is elsewhere, each of them has memory, and none is where a parameter is."""
        before = self.addresses
        if present[:count] != before[:count] or present[2 * count :] != before[2 * count :]:
            return False
        moved = present[count : 2 * count]
        return 0 not in moved and self.param_addresses.isdisjoint(moved)


class Plan:
    """The plan of the last step. Between steps it keeps none of the caller's tensors."""

    def __init__(self) -> None:
        self.forget()

    def __reduce__(self) -> tuple[type["Plan"], tuple[()]]:
        return Plan, ()  # a copy is empty: addresses are part of a plan

    def forget(self) -> None:
        """Forget the plan: the next step makes a new one."""
        self._key: Key | None = None  # of the last step
        self._options: list[tuple[Any, ...]] = []  # of each group
        self._others: list[tuple[Any, ...]] = []  # the options of each group that are not in NUMBERS
        self._entries: list[Entry] = []

    def recall(
        self, groups: list[Group], every_state: MutableMapping[Tensor, State], conditions: Conditions
    ) -> tuple[list[BucketStep] | None, bool]:
        """The steps of all buckets, if the plan holds for these groups, otherwise None; and whether to call `keep`.

        `keep` is called after a step whose key is that of the step before: a guard, which a plan needs, is as costly as
        ten plans.
        """
        options = list(map(values_of, groups))
        if not all(map(has_plain, options)):  # a tensor may change from step to step
            self.forget()
            return None, False
        numbers_changed = options != self._options  # if other options changed, so does the key
        if numbers_changed:
            self._options = options
            self._others = list(map(others_of, groups))
        found = participants(groups)
        is_distributed = dist.is_available() and dist.is_initialized()
        key = Key(conditions, is_distributed, self._others, found.counts, list(map(id, found.params)))
        if key != self._key:
            self._key = key
            self._entries = []
            return None, False
        return self._steps(found, every_state, numbers_changed), True

    def _steps(
        self, found: Participants, every_state: MutableMapping[Tensor, State], numbers_changed: bool
    ) -> list[BucketStep] | None:
        """The steps by the plan; None without one. A plan that does not hold for one of the steps is forgotten."""
        works: list[BucketStep] = []
        for entry in self._entries:
            work = entry.step(found, every_state, numbers_changed)
            if work is None:
                self._entries = []
                return None
            works.append(work)
        return works or None

    def keep(self, works: list[BucketStep]) -> None:
        """Keep the plan of a step that has been taken, by this plan or by a new one, without the caller's tensors."""
        if self._entries:  # the step was taken by this plan
            for entry in self._entries:
                entry.bucket.release()
            return
        if not all(map(can_be_kept, works)):
            return
        assert self._key is not None  # `recall` has set it
        position = {param_id: i for i, param_id in enumerate(self._key.param_ids)}
        entries = []
        for work in works:
            entries.append(Entry(work, [position[id(p)] for p in work.bucket.params]))
        # there may be no guard of such tensors, and there is no stream while a CUDA graph is being captured
        if all(entry.guard is not None and entry.stream is not None for entry in entries):
            self._entries = entries


def participants(groups: Sequence[Group]) -> Participants:
    """The parameters of all groups that have a gradient, in the order of the groups."""
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


def can_be_kept(work: BucketStep) -> bool:
    """Whether one backend runs through the memory of all tensors of a bucket, and no gradient is where a parameter is.

    The tensors must be whole, real and not empty, and no parameter may stand for another tensor.
    """
    bucket = work.bucket
    if work.owned is not bucket or bucket.ranks is not None or bucket.dtype.is_complex:
        return False
    if work.addresses is None or 0 in work.addresses or 0 in work.scalar_addresses:
        return False
    count = len(bucket.params)
    of_params = work.addresses[:count]
    of_grads = work.addresses[count : 2 * count]
    are_apart = set(of_params).isdisjoint(of_grads)
    return are_apart and all(map(is_, bucket.values, bucket.params))
