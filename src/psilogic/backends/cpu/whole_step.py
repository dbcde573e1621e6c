"""Compiled kernels for a CPU that take the whole step of a bucket in one call: sums, decision and update.

Without global clipping and `maximize` most tensors are updated while their norms are summed, as if none spiked. Those
whose decay turns out to be another one, since they do spike, are corrected after that.
"""

from array import array

import torch
from torch import Tensor

from psilogic.backends.cpu import kernels, two_passes
from psilogic.gradients import pools
from psilogic.step import BucketStep, Decision, DetectorState
from psilogic.tensors.memory import ordinary, used_addresses
from psilogic.tensors.scalars import CLOCKS, ScalarKind, detector_dtype, memory_names, read, scalar_names

DECISION_ROWS = (
    "decay",
    "quantum_rate",
    "gn",
    "fast",
    "slow",
    "reference",
    "ratio",
    "chaos",
    "gate",
    "warmup",
    "cancellation",
)
"""The quantities of a decision as the kernel writes them, row after row: the order of `Decision` in detector.h."""


class WholeStep(two_passes.TwoPasses):
    """Compiled kernels that sum, decide and update."""

    def begin(self, work: BucketStep) -> None:
        """Nothing: the step waits until those of other backends are decided."""

    def finish(self, work: BucketStep, found_inf: Tensor | None) -> None:
        """Take the whole step, and keep its decision if something observes it.

        `found_inf` is None: no whole step is selected for a step with GradScaler.
        """
        work.group = work.bucket.hyperparameters()
        pool_of_each_tensor = None
        if work.group["chaos_scope"] != "tensor":
            pools_by_position, _ = pools([work])
            pool_of_each_tensor = pools_by_position[0]  # the position of the only bucket
        rows = None
        if work.observed:
            rows = torch.empty(len(DECISION_ROWS), len(work.states), dtype=torch.float64, device="cpu")
        kernels.step_(work, _scalar_addresses(work), pool_of_each_tensor, _unit_vectors(work), rows)
        if rows is not None:
            work.decision = _decision(work, rows)


def select_whole_steps(works: list[BucketStep]) -> None:
    """Select this backend for each bucket that can take its step in one call.

    No bucket does if a call would read what an update before it has changed: a gradient that lies where a parameter is,
    or for AGC the norm of a parameter that shares memory with another one.
    """
    admitted = []
    for work in works:
        if _can_step_in_one_call(work, is_only_bucket=len(works) == 1):
            admitted.append(work)
    if not admitted:
        return
    if _reads_gradients_after_updates(works) and not _is_memory_apart(works):
        return
    for work in admitted:
        work.backend = backend
        work.decides_itself = True


def _can_step_in_one_call(work: BucketStep, is_only_bucket: bool) -> bool:
    """Whether compiled kernels update all tensors of a bucket, these are whole, and no norm of other buckets counts."""
    bucket = work.bucket
    if work.backend is not two_passes.backend or work.owned is not bucket or bucket.ranks is not None:
        return False
    if not bucket.by_unit:  # the kernel processes a unit by its own sums
        return False
    clips_globally = bucket.group["max_grad_norm"] is not None
    has_pools = bucket.group["chaos_scope"] != "tensor"
    return is_only_bucket or not (clips_globally or has_pools)


def _reads_gradients_after_updates(works: list[BucketStep]) -> bool:
    """Whether gradients are read when parameters have changed.

    With several buckets, those of the next bucket are: each call sums over its own gradients. In a single bucket, those
    of corrected tensors are, if a quantum decay must be undone.
    """
    if len(works) > 1:
        return True
    return bool(works[0].bucket.group["quantum_decay"] > 0)


def _is_memory_apart(works: list[BucketStep]) -> bool:
    """Whether no gradient has its address in common with a parameter, nor, with AGC, a parameter with another one."""
    every_param: list[int] = []
    every_grad: list[int] = []
    for work in works:
        params, grads = _addresses_of(work)
        every_param += params
        every_grad += grads
    distinct = set(every_param)
    if not distinct.isdisjoint(every_grad):
        return False
    reads_params = any(work.bucket.group["agc_clip"] > 0 for work in works)
    return len(distinct) == len(every_param) or not reads_params


def _addresses_of(work: BucketStep) -> tuple[list[int], list[int]]:
    """The addresses of the parameters and of the gradients of a bucket, without those of empty tensors."""
    if work.addresses is None:  # its backend needs none, so a tensor may have no memory of its own
        params = [x for x in work.tensors.params if ordinary([[x]])]
        grads = [x for x in work.tensors.grads if ordinary([[x]])]
        return used_addresses(params), used_addresses(grads)
    count = len(work.tensors.params)
    of_params = work.addresses[:count]
    of_grads = work.addresses[count : 2 * count]
    return list(filter(None, of_params)), list(filter(None, of_grads))


def _scalar_addresses(work: BucketStep) -> "array[int]":
    """The addresses of the scalars that the kernel reads and changes, name after name.

    They are the states' own scalars if all are in host memory, in the dtypes that the kernel takes. Otherwise they are
    copies in `work.scalars`, from which the states' scalars are set after the step.
    """
    kinds = work.once("kinds of scalars", lambda: _kinds_of_scalars(work))
    if work.scalar_kinds == kinds:
        of_states: array[int] = work.scalar_addresses
        return of_states
    names = scalar_names(work.group)
    of_copies = array("q")
    for (name, vector), kind in zip(read(work.states, names).items(), kinds, strict=True):
        copy = vector.to(dtype=kind.dtype, device=kind.device)
        work.scalars[name] = copy
        begin = copy.data_ptr()
        of_copies.extend(range(begin, begin + len(copy) * kind.dtype.itemsize, kind.dtype.itemsize))
    return of_copies


def _kinds_of_scalars(work: BucketStep) -> list[ScalarKind]:
    """The kinds of scalars that the kernel takes, in the order of their names."""
    cpu = torch.device("cpu")
    of_clock = ScalarKind(torch.float32, cpu)
    of_memory = ScalarKind(detector_dtype(work.bucket.params[0]), cpu)
    return [of_clock] * len(CLOCKS) + [of_memory] * len(memory_names(work.group))


def _unit_vectors(work: BucketStep) -> Tensor | None:
    """Memory for the mean and the scale of each unit, shape (2, U), the same in each step; None if none is needed.

    The correction of a tensor undoes its quantum decay, and processes its gradients again for that.
    """
    group = work.group
    changes_gradients = group["agc_clip"] > 0 or group["grad_centralize"]
    if group["quantum_decay"] == 0 or not changes_gradients:
        return None
    cache = work.bucket.cache
    count = sum(work.bucket.units)
    if count not in cache.unit_vectors:
        cache.unit_vectors = {count: torch.empty(2, count, dtype=torch.float64, device="cpu")}
    return cache.unit_vectors[count]


def _decision(work: BucketStep, rows: Tensor) -> Decision:
    """What was decided, from the kernel's rows."""
    row = dict(zip(DECISION_ROWS, rows, strict=True))
    is_relative = work.group["chaos_signal"] == "relative"
    has_quantum_decay = work.group["quantum_decay"] > 0
    return Decision(
        gn=row["gn"],
        memory=DetectorState(row["fast"], row["slow"], row["reference"] if is_relative else None),
        ratio=row["ratio"],
        chaos=row["chaos"],
        gate=row["gate"].bool(),
        warmup=row["warmup"],
        cancellation=row["cancellation"],
        decay=row["decay"],
        quantum_rate=row["quantum_rate"] if has_quantum_decay else None,
    )


backend = WholeStep()
