"""The rule that selects a backend for each bucket: among those that its options admit, by the layouts of tensors."""

from collections.abc import MutableMapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from psilogic.backends import by_methods, cpu, foreach
from psilogic.backends.admitted import admitted_backends, check_fused
from psilogic.backends.by_methods import has_own_methods, is_negated
from psilogic.step import Backend, BucketStep, Tensors
from psilogic.tensors.buckets import Bucket, BucketCache
from psilogic.tensors.device_tables import warn_of_frozen
from psilogic.tensors.memory import Sizes, addresses, has_own_dispatch, refuse_released, sizes_of, turns
from psilogic.tensors.norms import as_real, intercepted, transformed
from psilogic.tensors.scalars import ScalarKind, State, scalar_kinds, scalar_names
from psilogic.tensors.state import local_states, move_clocks_, refuse_other_moments, states_of


class Part(NamedTuple):
    """Tensors of a bucket that one backend updates."""

    backend: Backend
    members: list[int]  # their positions in the bucket
    sizes: Sizes | None  # theirs, for a backend that runs through memory


class Fit(NamedTuple):
    """How backends and tensors of a bucket fit together."""

    parts: list[Part]
    scalar_kinds: list[ScalarKind | None]  # of the states, in the order of their names


def select(
    buckets: list[Bucket], every_state: MutableMapping[Tensor, Any], scaled: bool, observed: bool
) -> list[BucketStep]:
    """Select the backend of each tensor: one for a bucket, or one for each part of it where a layout is unusual.

    Args:
        buckets: the tensors of this step.
        every_state: the optimizer's states; missing ones are started.
        scaled: whether GradScaler leaves unscaling, or the check for overflow, to the step.
        observed: whether something observes the decisions.

    Returns:
        What this process updates of each bucket. All decide in the same way.

    Raises:
        RuntimeError: a group's `fused=True` can never be honored for any of its tensors, and no state is started then;
            or a tensor has lost its memory, or a moment is unlike its parameter, and nothing is changed then.
    """
    if torch.cuda.is_initialized():
        for bucket in buckets:
            warn_of_frozen("lr", bucket.groups[0]["lr"])
    candidates: list[list[Backend]] = []
    for bucket in buckets:
        candidates.append(admitted_backends(bucket))
    if any(bucket.group["fused"] for bucket in buckets):
        check_fused(buckets, candidates)
    works: list[BucketStep] = []
    for bucket, admitted in zip(buckets, candidates, strict=True):
        works += _works(bucket, every_state, admitted, observed)
    if not scaled:
        cpu.select_whole_steps(works)
    if all(work.backend.on_device for work in works):
        from psilogic.backends import triton  # not at the top, because it takes a second to import

        triton.decide_by_kernels(works)
    return works


def _works(
    bucket: Bucket, every_state: MutableMapping[Tensor, Any], admitted: list[Backend], observed: bool
) -> list[BucketStep]:
    """The owned tensors of a bucket with their states, and the backends that update them."""
    owned = bucket
    if len(bucket.owned) < len(bucket.params):
        owned = bucket.owned_part()
    may_be_on_device = any(backend.on_device for backend in admitted)
    states = states_of(every_state, owned, may_be_on_device)
    tensors = _tensors(owned, states)
    fit = _fit(owned, states, tensors, admitted)
    whole = BucketStep(bucket, owned, states, tensors, fit.parts[0].backend, observed=observed)
    whole.scalar_kinds = fit.scalar_kinds
    works: list[BucketStep] = []
    for work in _split(whole, fit.parts):
        if work.backend.on_device:
            move_clocks_(work.states, bucket.device)
        works += _in_memory(work, admitted)
    return works


def _split(work: BucketStep, parts: list[Part]) -> list[BucketStep]:
    """The step of a bucket as the steps of its parts."""
    if len(parts) == 1:
        work.backend = parts[0].backend
        work.sizes = parts[0].sizes
        return [work]
    works: list[BucketStep] = []
    for position, part in enumerate(parts):
        cache = work.bucket.cache.parts.setdefault(position, BucketCache())
        bucket = work.bucket.part(part.members, cache)
        states = [work.states[i] for i in part.members]
        tensors = work.tensors.take(part.members)
        of_part = BucketStep(bucket, bucket, states, tensors, part.backend, observed=work.observed)
        of_part.sizes = part.sizes
        of_part.scalar_kinds = work.scalar_kinds
        works.append(of_part)
    return works


def _in_memory(work: BucketStep, admitted: list[Backend]) -> list[BucketStep]:
    """The step with the addresses that its backend needs; parameters that share memory are updated in turns.

    Raises:
        RuntimeError: a tensor has lost its memory.
    """
    if not work.backend.in_memory:
        return [work]
    columns = work.tensors
    names = scalar_names(work.bucket.group)
    work.addresses = addresses([*columns.params, *columns.grads, *columns.exp_avgs, *columns.exp_avg_sqs])
    work.scalar_addresses = addresses(work.states, names)
    cache = work.bucket.cache
    if work.addresses == cache.addresses and work.scalar_addresses == cache.scalar_addresses:
        return [work]
    have_memory = 0 not in work.addresses and 0 not in work.scalar_addresses
    if not have_memory:
        by_name: dict[str, Sequence[Tensor]] = columns._asdict()
        for name in names:
            by_name[name] = [state[name] for state in work.states]
        refuse_released(by_name)
    count = len(columns.params)
    addresses_of_params = work.addresses[:count]
    if len(set(addresses_of_params)) < count:  # most steps have no address twice
        members_of_turns = turns(addresses_of_params)
        if len(members_of_turns) > 1:
            return _in_turns(work, members_of_turns, admitted)
    if have_memory:
        cache.addresses = work.addresses
        cache.scalar_addresses = work.scalar_addresses
    return [work]


def _in_turns(work: BucketStep, members_of_turns: list[list[int]], admitted: list[Backend]) -> list[BucketStep]:
    """The steps of a bucket some of whose parameters share memory: the backend updates one after the other.

    Tensors that ranks hold pieces of stay together: a backend that needs no addresses updates all of them.
    """
    columns = work.tensors
    if work.owned is not work.bucket or work.bucket.ranks is not None:
        work.addresses = None
        others = [backend for backend in admitted if not backend.in_memory]
        other = _first(others, columns, work.bucket.by_rows)
        every = list(range(len(columns.params)))
        return _split(work, [_part(other, work.owned, columns, every)])
    parts = [_part(work.backend, work.owned, columns, members) for members in members_of_turns]
    works: list[BucketStep] = []
    for turn in _split(work, parts):
        works += _in_memory(turn, admitted)
    return works


def _tensors(bucket: Bucket, states: list[State]) -> Tensors:
    """The parts on this rank of the tensors and of their moments, as real tensors."""
    exp_avgs = local_states(bucket, states, "exp_avg")
    exp_avg_sqs = local_states(bucket, states, "exp_avg_sq")
    tensors = Tensors(bucket.values, bucket.grads, exp_avgs, exp_avg_sqs)
    if bucket.dtype.is_complex:
        return Tensors(*map(as_real, tensors))
    return tensors


def _fit(bucket: Bucket, states: list[State], tensors: Tensors, admitted: list[Backend]) -> Fit:
    """The first backend that supports each tensor, or foreach."""
    if not bucket.params or torch.is_grad_enabled() or intercepted():
        return Fit(_parts(bucket, tensors, admitted), [])
    names = scalar_names(bucket.group)

    def computed() -> Fit:
        return Fit(_parts(bucket, tensors, admitted), scalar_kinds(states, names))

    key = (admitted, bucket.by_rows, bucket.rounding, names, list(map(id, bucket.params)))
    guarded = list(chain(*tensors))
    for name in names:
        guarded += [state[name] for state in states]
    fit = bucket.cache.metadata.get(key, guarded, computed)
    assert fit is not None
    return fit


def _parts(bucket: Bucket, tensors: Tensors, admitted: list[Backend]) -> list[Part]:
    """Each tensor goes to the first backend that supports it; a single part if one supports all.

    Raises:
        RuntimeError: a class of parameters has methods of its own, and an option needs others.
    """
    every = list(range(len(bucket.params)))
    if transformed():
        return [_part(by_methods.backend, bucket, tensors, every)]
    special = {kind for kind in set(map(type, bucket.values)) if has_own_methods(kind)}
    are_negated = not torch.compiler.is_compiling() and any(map(Tensor.is_neg, bucket.values))
    own: list[int] = []
    if special or are_negated:
        own = [i for i in every if type(bucket.values[i]) in special or is_negated(bucket.values[i])]
    if not own:
        return _usual_parts(bucket, tensors, admitted, every)
    if bucket.rounding != "nearest":
        names = ", ".join(sorted({type(bucket.values[i]).__name__ for i in own}))
        raise RuntimeError(
            f"bf16_update={bucket.rounding!r} would change {names} without the methods of this class: "
            'use bf16_update="nearest" for its parameters'
        )
    others = sorted(set(every) - set(own))
    parts = [_part(by_methods.backend, bucket, tensors, own)]
    if others:
        parts += _usual_parts(bucket, tensors, admitted, others)
    return parts


def _usual_parts(bucket: Bucket, tensors: Tensors, admitted: list[Backend], members: list[int]) -> list[Part]:
    """The parts of the members of a bucket whose classes have no methods of their own.

    Tensors of which other ranks hold pieces stay together: those ranks see other layouts. Classes with a dispatch of
    their own are apart, since they take each list for one of theirs.
    """
    if len(members) < len(bucket.params):
        backend = _first(admitted, tensors.take(members), bucket.by_rows)
    else:
        backend = _first(admitted, tensors, bucket.by_rows)
    if backend is not foreach.backend or bucket.ranks is not None:
        return [_part(backend, bucket, tensors, members)]
    by_kind: dict[tuple[Backend, bool], list[int]] = {}
    for i in members:
        backend = _first(admitted, tensors.take([i]), bucket.by_rows)
        by_kind.setdefault((backend, has_own_dispatch(bucket.values[i])), []).append(i)
    return [_part(backend, bucket, tensors, of_kind) for (backend, _), of_kind in by_kind.items()]


def _part(backend: Backend, bucket: Bucket, tensors: Tensors, members: list[int]) -> Part:
    """The part of a bucket that a backend updates."""
    sizes = None
    if backend.in_memory:
        params = [tensors.params[i] for i in members]
        units = [bucket.units[i] for i in members]
        sizes = sizes_of(params, units)
    if backend is foreach.backend:  # the others support no moments of another dtype or shape
        chosen = tensors.take(members)
        refuse_other_moments(chosen.params, {"exp_avg": chosen.exp_avgs, "exp_avg_sq": chosen.exp_avg_sqs})
    return Part(backend, members, sizes)


def _first(backends: list[Backend], tensors: Tensors, by_rows: bool) -> Backend:
    """The first backend that supports all of some tensors, or foreach."""
    for backend in backends:
        if backend.supports(tensors, by_rows):
            return backend
    return foreach.backend
