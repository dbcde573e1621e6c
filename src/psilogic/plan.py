"""The plan of a step: which backend updates which tensors by which launches, for later steps that would find the same.

It depends on options, on which parameters have gradients, and on metadata and addresses of tensors, but on no value.
A later step compares all of this, which takes a small part of the time of a new plan. Numbers, such as the learning
rate, and the addresses of gradients may change, and in host memory betas, eps and all addresses: the step reads them
again. After any other change a new plan is made. Several plans are kept, since parameters may have gradients in turns.
"""

from array import array
from collections import Counter
from collections.abc import MutableMapping, Sequence
from operator import attrgetter, is_
from typing import Any, NamedTuple

from torch import Tensor
from torch import distributed as dist

from psilogic.known_options import KnownOptions
from psilogic.options import is_plain, numbers_of
from psilogic.planned_bucket import Found, PlannedBucket, are_apart
from psilogic.step import BucketStep, Repetition
from psilogic.tensors.buckets import Group
from psilogic.tensors.lookups import Participants, participants
from psilogic.tensors.norms import TensorList
from psilogic.tensors.scalars import State

HAS_DISTRIBUTED = dist.is_available()
MOST_PLANS = 4
"""Plans that are kept at one time."""


class Conditions(NamedTuple):
    """What a plan depends on besides tensors and options."""

    has_grad_scale: bool  # whether GradScaler leaves unscaling to the step
    has_found_inf: bool  # whether GradScaler leaves the check for overflow to the step
    is_observed: bool  # whether something observes the decisions

    @classmethod
    def of(cls, optimizer: Any, observers: Sequence[Any]) -> "Conditions":
        """The conditions of an optimizer's next step. GradScaler sets attributes for it."""
        grad_scale = getattr(optimizer, "grad_scale", None)
        found_inf = getattr(optimizer, "found_inf", None)
        return cls(grad_scale is not None, found_inf is not None, bool(observers))


class Key(NamedTuple):
    """What two steps must have in common, besides the tensors, so that the later one may use the plan of the other."""

    conditions: Conditions
    is_distributed: bool
    has_tensors: bool  # whether a number is a tensor in host memory
    others: list[tuple[Any, ...]]  # the options of each group in OTHERS
    counts: list[int]  # as in `Participants`
    param_ids: bytes  # likewise


class Recalled(NamedTuple):
    """What a plan knows about a step."""

    works: list[BucketStep] | None = None  # the steps of all buckets; None if they must be planned, or are repeated
    repeated: TensorList | None = None  # the tensors that change, if the step is a repetition of that before
    recurs: bool = False  # whether to call `keep` when it has been taken


NOTHING = Recalled()
NO_EXECUTION: Counter[str] = Counter()
"""What a plan without buckets has executed. It never changes."""


class PlannedStep:
    """The plan of the steps that have a key in common. Between steps it keeps none of the caller's tensors.

    Args:
        key: what the steps have in common.
        options: those of the first of these steps.
        is_on_host: whether all parameters are in host memory.
    """

    def __init__(self, key: Key, options: KnownOptions, is_on_host: bool) -> None:
        self.key = key
        self.reading = options.reading  # of the numbers that its buckets have
        self.numbers_of_device = options.numbers_of_device  # likewise
        self.reads_all_numbers = is_on_host  # launches that are prepared have those of a device
        self.forget()

    def find(self, participants: Participants, every_state: MutableMapping[Tensor, State]) -> list[Found]:
        """The tensors of all buckets; none without a plan. One that does not hold for a bucket is forgotten."""
        found_buckets: list[Found] = []
        for planned in self.buckets:
            found = planned.find(participants, every_state)
            if found is None:
                self.forget()
                return []
            found_buckets.append(found)
        has_moved = any(found.moved == b"" for found in found_buckets)
        if has_moved and not are_apart(self.buckets):
            self.forget()
            return []
        return found_buckets

    def forget(self) -> None:
        """Forget the buckets."""
        self.buckets: list[PlannedBucket] = []
        self.repetition: Repetition | None = None
        self.executed = NO_EXECUTION

    def repeated(
        self, repetition: Repetition, found_buckets: list[Found], group_of_each: list[Group], numbers_changed: bool
    ) -> Recalled:
        """The step as a repetition of that before, which takes what has changed: numbers and addresses of gradients."""
        changed: TensorList = []
        for position, found in enumerate(found_buckets):
            if found.moved is not None:
                repetition.move_gradients(position, found.moved)
            if numbers_changed:
                self.buckets[position].fill(found, group_of_each, numbers_changed)
            changed += found.changed()
        if numbers_changed:
            repetition.take_numbers()
            self.release()
        return Recalled(repeated=changed)

    def release(self) -> None:
        """Let the buckets forget the caller's tensors."""
        for planned in self.buckets:
            planned.bucket.release()

    def keep(self, works: list[BucketStep]) -> None:
        """Keep the buckets of a step that has been taken, without the caller's tensors."""
        position = {param_id: i for i, param_id in enumerate(array("q", self.key.param_ids))}
        repetition = None
        if not any(self.key.conditions) and len({work.backend for work in works}) == 1:
            repetition = works[0].backend.repetition(works)
        buckets = []
        for work in works:
            buckets.append(PlannedBucket(work, [position[id(p)] for p in work.bucket.params]))
        # there may be no guard of such tensors, and there is no stream while a CUDA graph is being captured
        if all(planned.guard is not None and planned.stream is not None for planned in buckets):
            self.buckets = buckets
            self.repetition = repetition
            self.reads_all_numbers = not any(work.backend.on_device for work in works)
            executed: Counter[str] = Counter()
            for work in works:
                executed[work.backend.name] += len(work.states)
            self.executed = executed


class Plan:
    """The plans of the last steps."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget all plans: the next step makes a new one."""
        self._steps: list[PlannedStep] = []  # that of the last step is the first
        self.options = KnownOptions()

    def recall(
        self, groups: list[Group], every_state: MutableMapping[Tensor, State], conditions: Conditions, has_others: bool
    ) -> Recalled:
        """What is known about the step of these groups; `has_others` as in `KnownOptions.take`.

        Without gradients there is nothing to do, and the plans stay for steps that have some.

        `keep` is called after a step with a key that is known: a guard, which a plan needs, is as costly as ten plans.
        """
        found = participants(groups)
        is_distributed = HAS_DISTRIBUTED and dist.is_initialized()
        if not found.params and not is_distributed:  # otherwise another rank may have gradients
            return Recalled(works=[])
        if not self.options.take(groups, has_others):  # a tensor on a device may change from step to step
            self.forget()
            return NOTHING
        options = self.options
        key = Key(conditions, is_distributed, options.has_tensors, options.others, found.counts, found.ids)
        planned = self._first_of(key)
        if planned is None:
            is_on_host = all(map(attrgetter("is_cpu"), found.params))
            self._steps = [PlannedStep(key, options, is_on_host), *self._steps[: MOST_PLANS - 1]]
            return NOTHING
        numbers_changed = planned.reading != options.reading
        planned.reading = options.reading
        planned.numbers_of_device = options.numbers_of_device
        found_buckets = planned.find(found, every_state)
        if not found_buckets:
            return Recalled(recurs=True)
        group_of_each: list[Group] = []
        if numbers_changed or planned.repetition is None:
            for group, count in zip(groups, found.counts, strict=True):
                group_of_each += [group] * count
        if planned.repetition is not None:
            return planned.repeated(planned.repetition, found_buckets, group_of_each, numbers_changed)
        works: list[BucketStep] = []
        for bucket, of_bucket in zip(planned.buckets, found_buckets, strict=True):
            works.append(bucket.step(of_bucket, group_of_each, numbers_changed))
        return Recalled(works, recurs=True)

    def _first_of(self, key: Key) -> PlannedStep | None:
        """What is known about the steps with this key and the present options, which is then the first; or None."""
        for position, planned in enumerate(self._steps):
            if planned.key != key:
                continue
            if planned.reads_all_numbers or planned.numbers_of_device == self.options.numbers_of_device:
                if position > 0:
                    self._steps.insert(0, self._steps.pop(position))
                return planned
        return None

    def repeat(self, changed: TensorList) -> Counter[str]:
        """Take the step before again.

        Args:
            changed: what was recalled.

        Returns:
            The number of tensors by backend.
        """
        planned = self._steps[0]
        assert planned.repetition is not None  # otherwise nothing is recalled to be repeated
        planned.repetition.run(changed)
        return planned.executed

    def keep(self, works: list[BucketStep]) -> None:
        """Keep the plan of a step that has been taken, by this plan or by a new one, without the caller's tensors."""
        planned = self._steps[0]
        if planned.buckets:  # the step was taken by this plan
            planned.release()
        elif works and all(map(can_be_kept, works)):
            planned.keep(works)


def can_be_kept(work: BucketStep) -> bool:
    """Whether one backend runs through the memory of all tensors of a bucket, and no gradient is where a parameter is.

    The tensors must be whole, real and not empty, and no parameter may stand for another tensor. On a device all
    numbers must be Python's.
    """
    bucket = work.bucket
    if bucket.device.type != "cpu" and not all(map(is_plain, map(numbers_of, bucket.groups))):
        return False
    if work.owned is not bucket or bucket.ranks is not None or bucket.dtype.is_complex:
        return False
    if work.addresses is None or 0 in work.addresses or 0 in work.scalar_addresses:
        return False
    count = len(bucket.params)
    of_params = work.addresses[:count]
    of_grads = work.addresses[count : 2 * count]
    are_apart = set(of_params).isdisjoint(of_grads)
    return are_apart and all(map(is_, bucket.values, bucket.params))
