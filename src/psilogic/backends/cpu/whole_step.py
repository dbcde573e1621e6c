"""Compiled kernels for a CPU that take the whole step of a bucket in one call: sums, decision and update.

Where no norm of other tensors counts, they read memory once, and correct the tensors that turn out to fire.
"""

from array import array

import torch
from torch import Tensor

from psilogic.backends.cpu import kernels, two_passes
from psilogic.gradients import pools
from psilogic.step import BucketStep, Decision, DetectorState
from psilogic.tensors.memory import ordinary, used_addresses
from psilogic.tensors.scalars import CLOCKS, ScalarKind, detector_dtype, memory_names, read, scalar_names

DECISIONS = 11
"""The quantities of a decision, in the order of `Decision` in detector.h."""


class WholeStep(two_passes.TwoPasses):
    """Compiled kernels that sum, decide and update."""

    def begin(self, work: BucketStep) -> None:
        """Nothing: the step waits until those of other backends are decided."""

    def finish(self, work: BucketStep, found_inf: Tensor | None) -> None:
        """Take the whole step."""
        work.group = work.bucket.hyperparameters()
        pool_of_each = None
        if work.group["chaos_scope"] != "tensor":
            pool_of_each = pools([work])[0][0]
        rows = None
        if work.observed:
            rows = torch.empty(DECISIONS, len(work.states), dtype=torch.float64, device="cpu")
        kernels.step_(work, _scalar_addresses(work), pool_of_each, _unit_vectors(work), rows)
        if rows is not None:
            work.decision = _decision(work, rows)


def take_whole_steps(works: list[BucketStep]) -> None:
    """Let the step of a bucket be taken in one call, where all that it depends on is known in the bucket.

    Not if a parameter shares memory with one of another bucket, or with a gradient that is read after it has changed.
    """
    admitted = []
    for work in works:
        if _is_known_here(work, is_alone=len(works) == 1):
            admitted.append(work)
    if not admitted or not _apart(works):
        return
    for work in admitted:
        work.backend = backend
        work.decides_itself = True


def _is_known_here(work: BucketStep, is_alone: bool) -> bool:
    """Whether norms of other buckets count for nothing in the step of this one."""
    bucket = work.bucket
    if work.backend is not two_passes.backend or work.owned is not bucket or bucket.ranks is not None:
        return False
    if not bucket.by_unit:
        return False
    return is_alone or (bucket.group["max_grad_norm"] is None and bucket.group["chaos_scope"] == "tensor")


def _apart(works: list[BucketStep]) -> bool:
    """Whether no parameter shares memory with another, or with a gradient that is read again later."""
    params: list[int] = []
    grads: list[int] = []
    for work in works:
        are_read_later = len(works) > 1 or work.bucket.group["quantum_decay"] > 0
        if work.addresses is None:
            params += used_addresses([x for x in work.tensors.params if ordinary([[x]])])
            grads += used_addresses([x for x in work.tensors.grads if ordinary([[x]])])
            continue
        if are_read_later:  # the parameters of a single bucket were compared when its backend was selected
            count = len(work.tensors.params)
            params += filter(None, work.addresses[:count])
            grads += filter(None, work.addresses[count : 2 * count])
    return len(set(params)) == len(params) and set(params).isdisjoint(grads)


def _scalar_addresses(work: BucketStep) -> "array[int]":
    """The addresses of the states' scalars, name after name; of copies, if they are of other dtypes.

    Copies become the new values of the states' scalars.
    """
    names = scalar_names(work.group)
    cpu = torch.device("cpu")
    memory = ScalarKind(detector_dtype(work.bucket.params[0]), cpu)
    kinds = [ScalarKind(torch.float32, cpu)] * len(CLOCKS) + [memory] * len(memory_names(work.group))
    if work.scalar_kinds == kinds:
        in_place: array[int] = work.scalar_addresses
        return in_place
    found = array("q")
    for (name, vector), kind in zip(read(work.states, names).items(), kinds, strict=True):
        work.scalars[name] = vector.to(dtype=kind.dtype, device=cpu)
        begin = work.scalars[name].data_ptr()
        found.extend(range(begin, begin + len(vector) * kind.dtype.itemsize, kind.dtype.itemsize))
    return found


def _unit_vectors(work: BucketStep) -> Tensor | None:
    """Memory for the mean and the scale of each unit, shape (2, U), where a quantum decay may be undone."""
    group = work.group
    if group["quantum_decay"] == 0 or not (group["agc_clip"] > 0 or group["grad_centralize"]):
        return None
    cache = work.bucket.cache
    count = sum(work.bucket.units)
    if count not in cache.unit_vectors:
        cache.unit_vectors = {count: torch.empty(2, count, dtype=torch.float64, device="cpu")}
    return cache.unit_vectors[count]


def _decision(work: BucketStep, rows: Tensor) -> Decision:
    """What was decided, from the kernel's rows."""
    decay, quantum_rate, gn, fast, slow, reference, ratio, chaos, gate, warmup, cancellation = rows
    is_relative = work.group["chaos_signal"] == "relative"
    return Decision(
        gn=gn,
        memory=DetectorState(fast, slow, reference if is_relative else None),
        ratio=ratio,
        chaos=chaos,
        gate=gate.bool(),
        warmup=warmup,
        cancellation=cancellation,
        decay=decay,
        quantum_rate=quantum_rate if work.group["quantum_decay"] > 0 else None,
    )


backend = WholeStep()
