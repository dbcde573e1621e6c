"""The rule that selects a backend for each bucket. Only this file knows the backends."""

import os
from collections.abc import MutableMapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from psilogic.backends import cpu, foreach, torch_fused
from psilogic.step import Backend, BucketStep, Tensors
from psilogic.tensors.buckets import Bucket
from psilogic.tensors.device_tables import warn_of_frozen
from psilogic.tensors.norms import as_real, without_values
from psilogic.tensors.state import local_states, move_clocks_, states_of


def select(
    buckets: list[Bucket], every_state: MutableMapping[Tensor, Any], scaled: bool, observed: bool
) -> list[BucketStep]:
    """Select the backend of each bucket.

    Args:
        buckets: the tensors of this step.
        every_state: the optimizer's states; missing ones are started.
        scaled: whether GradScaler leaves unscaling, or the check for overflow, to the step.
        observed: whether something observes the decisions.

    Returns:
        What this process updates of each bucket; backends that speculate are last. All decide in the same way.

    Raises:
        RuntimeError: a group's `fused=True` can never be honored for any of its tensors; no state is started then.
    """
    if torch.cuda.is_initialized():
        for bucket in buckets:
            warn_of_frozen("lr", bucket.groups[0]["lr"])
    candidates: list[list[Backend]] = []
    for bucket in buckets:
        candidates.append(_candidates(bucket))
    if any(bucket.group["fused"] for bucket in buckets):
        _check_fused(buckets, candidates)
    works: list[BucketStep] = []
    for bucket, admitted in zip(buckets, candidates, strict=True):
        works.append(_work(bucket, every_state, admitted))
    if not scaled:
        cpu.speculate(works, observed)
    if all(work.backend.on_device for work in works):
        from psilogic.backends import triton  # not at the top, because it takes a second to import

        triton.decide_by_kernels(works)
    waiting: list[BucketStep] = []
    speculating: list[BucketStep] = []
    for work in works:
        if work.backend.speculates:
            speculating.append(work)
        else:
            waiting.append(work)
    return waiting + speculating


def _candidates(bucket: Bucket) -> list[Backend]:
    """The backends that a bucket's hyperparameters and dtype admit, best first; none if only foreach remains."""
    group = bucket.group
    if group["fused"] is False or (group["fused"] is None and group["foreach"] is not None):
        return []
    if bucket.rounding != "nearest" or group["differentiable"] or without_values():
        return []
    if group is bucket.groups[0] and isinstance(group["weight_decay"], Tensor):  # on a GPU: kernels take a number
        return []
    # A row may begin in another rank's piece; the real view of a complex row has another mean.
    if bucket.by_rows and (bucket.ranks is not None or bucket.dtype.is_complex):
        return []
    candidates: list[Backend] = []
    on_nvidia = bucket.device.type == "cuda" and torch.version.hip is None  # nobody has tried an AMD GPU
    if group["fused"] or on_nvidia:
        candidates += _triton(bucket)
    if bucket.device.type == "cpu":
        candidates += [cpu.backend, torch_fused.backend]
    return candidates


def _triton(bucket: Bucket) -> list[Backend]:
    """Triton's backend, whose package takes a second to import; none where it cannot run.

    Foreach replaces it on a machine where Triton cannot compile, after a warning.
    """
    on_cuda = bucket.device.type == "cuda"
    in_interpreter = os.environ.get("TRITON_INTERPRET") == "1"
    if on_cuda == in_interpreter:  # the interpreter only reads host memory
        return []
    try:
        from psilogic.backends import triton
    except ImportError:
        return []
    if on_cuda and not triton.can_launch(bucket.device):
        return [foreach.backend]
    return [triton.backend]


def _work(bucket: Bucket, every_state: MutableMapping[Tensor, Any], admitted: list[Backend]) -> BucketStep:
    """The owned tensors of a bucket with their states, and the backend that updates them."""
    owned = bucket
    if len(bucket.owned) < len(bucket.params):
        owned = bucket.owned_part()
    may_be_on_device = False
    for backend in admitted:
        if backend.on_device:
            may_be_on_device = True
    states = states_of(every_state, owned, may_be_on_device)
    exp_avgs = local_states(owned, states, "exp_avg")
    exp_avg_sqs = local_states(owned, states, "exp_avg_sq")
    tensors = Tensors(owned.values, owned.grads, exp_avgs, exp_avg_sqs)
    if bucket.dtype.is_complex:
        tensors = Tensors(*map(as_real, tensors))
    picked = _pick(owned, tensors, admitted)
    if picked.on_device:
        move_clocks_(states, bucket.device)
    return BucketStep(bucket=bucket, owned=owned, states=states, tensors=tensors, backend=picked)


def _pick(bucket: Bucket, tensors: Tensors, admitted: list[Backend]) -> Backend:
    """The first backend that supports all of a bucket's tensors, or foreach."""
    if not admitted or not bucket.params:
        return foreach.backend

    def first_that_supports() -> Backend | None:
        return _first(admitted, tensors, bucket.by_rows)

    key = (admitted, bucket.by_rows, list(map(id, bucket.params)))
    picked = bucket.cache.metadata.get(key, list(chain(*tensors)), first_that_supports)
    if picked is not None and not picked.supports_addresses(tensors.params):
        others = [backend for backend in admitted if backend.supports_addresses(tensors.params)]
        picked = _first(others, tensors, bucket.by_rows)
    return picked or foreach.backend


def _first(backends: list[Backend], tensors: Tensors, by_rows: bool) -> Backend | None:
    """The first backend that supports the tensors."""
    for backend in backends:
        if backend.supports(tensors, by_rows):
            return backend
    return None


def _check_fused(buckets: list[Bucket], candidates: list[list[Backend]]) -> None:
    """Refuse a group's `fused=True` if devices, dtypes and options admit nothing fused for any of its buckets.

    A layout may be that of one step only, and is left to foreach. A compiler fuses a step that it traces.
    """
    honored: set[int] = set()
    for bucket, admitted in zip(buckets, candidates, strict=True):
        if admitted:
            honored.update(map(id, bucket.groups))
    for bucket in buckets:
        if bucket.group["fused"] and bucket.owned and not honored.issuperset(map(id, bucket.groups)):
            if without_values():
                return
            raise RuntimeError(
                f"fused=True cannot be honored: nothing fused updates these {bucket.dtype} tensors on {bucket.device} "
                f"with bf16_update={bucket.group['bf16_update']!r}; pass fused=None"
            )
