"""The update: an execution for each bucket begins and finishes it. Only this package knows the executions."""

import os
from collections.abc import Callable, MutableMapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from psilogic import decision
from psilogic.gradients import Sums
from psilogic.tensors.buckets import Bucket
from psilogic.tensors.device_tables import warn_of_frozen
from psilogic.tensors.memory import places
from psilogic.tensors.norms import as_real, without_values
from psilogic.tensors.sharding import complete
from psilogic.tensors.state import local_states, move_clocks_, states_of
from psilogic.updates import foreach, fused, native
from psilogic.updates.types import Execution, Tensors, Work


def select(
    buckets: list[Bucket], every_state: MutableMapping[Tensor, Any], scaled: bool, observed: bool
) -> tuple[list[Work], Callable[..., None]]:
    """Select the execution of each bucket, and what decides.

    Args:
        buckets: the tensors of this step.
        every_state: the optimizer's states; missing ones are started.
        scaled: whether GradScaler leaves unscaling, or the check for overflow, to the step.
        observed: whether something observes the decisions.

    Returns:
        What this process updates of each bucket, early updates last, and the function that decides: by torch's
        operations, or by kernels.

    Raises:
        RuntimeError: a group's `fused=True` can never be honored for any of its tensors; no state is started then.
    """
    if torch.cuda.is_initialized():
        for bucket in buckets:
            warn_of_frozen("lr", bucket.groups[0]["lr"])
    candidates = [_candidates(bucket) for bucket in buckets]
    if any(bucket.group["fused"] for bucket in buckets):
        _check_fused(buckets, candidates)
    works = [_work(bucket, every_state, admitted) for bucket, admitted in zip(buckets, candidates, strict=True)]
    if not scaled:
        for work, is_early in zip(works, native.early(works), strict=True):
            work.early = is_early
    if all(work.execution.skips for work in works):
        from psilogic.updates.triton import decision as on_device  # not at the top, because it needs triton

        if all(map(on_device.admits, works)):
            for work in works:
                work.decided = True
            return works, on_device.decide
    for work in works:
        work.group = work.owned.hyperparameters()
        work.decided = work.early and not observed and work.bucket.group["chaos_scope"] == "tensor"
        if not work.early:
            decision.prepare(work)
    return sorted(works, key=lambda work: work.early), decision.decide


def begin(works: list[Work], found_inf: Tensor | None) -> Tensor | None:
    """Sum over the gradients of all tensors, also over the ranks that hold pieces of them.

    Returns:
        GradScaler's `found_inf`, above 0 if any rank found an overflow.
    """
    for work in works:
        work.sums = work.execution.begin(work)
    split = {i: work.sums for i, work in enumerate(works) if work.bucket.ranks is not None}
    if split:
        sums, found_inf = complete([work.bucket for work in works], split, found_inf)
        for i, of_bucket in sums.items():
            works[i].sums = Sums(*of_bucket)
    return found_inf


def finish(works: list[Work], found_inf: Tensor | None) -> None:
    """Apply what was decided to parameters and states; updates that began early are finished first."""
    for work in sorted(works, key=lambda work: not work.early):
        if work.states:
            work.execution.finish(work, found_inf)
            work.owned.cache.scalars.write(work.states, work.scalars)


def _candidates(bucket: Bucket) -> list[Execution]:
    """The executions that a bucket's hyperparameters and dtype admit, best first; none if only foreach remains."""
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
    on_host = [native.execution, fused.execution] if bucket.device.type == "cpu" else []
    on_nvidia = bucket.device.type == "cuda" and torch.version.hip is None  # nobody has tried an AMD GPU
    return [*(_triton(bucket) if group["fused"] or on_nvidia else []), *on_host]


def _triton(bucket: Bucket) -> list[Execution]:
    """Triton's execution, whose package takes a second to import; none where it cannot run.

    Foreach replaces it on a machine where Triton cannot compile, after a warning.
    """
    on_cuda = bucket.device.type == "cuda"
    if on_cuda == (os.environ.get("TRITON_INTERPRET") == "1"):  # the interpreter only reads host memory
        return []
    try:
        from psilogic.updates import triton
    except ImportError:
        return []
    return [triton.execution if not on_cuda or triton.can_launch(bucket.device) else foreach.execution]


def _work(bucket: Bucket, every_state: MutableMapping[Tensor, Any], admitted: list[Execution]) -> Work:
    """The owned tensors of a bucket with their states, and the execution that updates them."""
    owned = bucket if len(bucket.owned) == len(bucket.params) else bucket.owned_part()
    states = states_of(every_state, owned, any(execution.skips for execution in admitted))
    columns = [owned.values, owned.grads, *(local_states(owned, states, name) for name in ("exp_avg", "exp_avg_sq"))]
    tensors = Tensors(*(map(as_real, columns) if bucket.dtype.is_complex else columns))
    execution = _pick(owned, tensors, admitted)
    if execution.skips:  # it decides on the device too
        move_clocks_(states, bucket.device)
    return Work(bucket, owned, states, tensors, execution)


def _pick(bucket: Bucket, tensors: Tensors, admitted: list[Execution]) -> Execution:
    """The first execution that supports all of a bucket's tensors, or foreach."""
    by_rows = bucket.by_rows
    if not admitted or not bucket.params:
        return foreach.execution

    def first(admitted: list[Execution]) -> Execution | None:
        return next((execution for execution in admitted if execution.supports(tensors, by_rows)), None)

    key = admitted, by_rows, list(map(id, bucket.params))
    picked = bucket.cache.metadata.get(key, list(chain(*tensors)), lambda: first(admitted))
    if picked and picked.at_once and len(set(begins := places(tensors.params))) < len(begins):
        picked = first([execution for execution in admitted if not execution.at_once])
    return picked or foreach.execution


def _check_fused(buckets: list[Bucket], candidates: list[list[Execution]]) -> None:
    """Refuse a group's `fused=True` if devices, dtypes and options admit nothing fused for any of its buckets.

    A layout may be that of one step only, and is left to foreach. A compiler fuses a step that it traces.
    """
    honored = {id(g) for bucket, admitted in zip(buckets, candidates, strict=True) if admitted for g in bucket.groups}
    for bucket in buckets:
        if bucket.group["fused"] and bucket.owned and not honored.issuperset(map(id, bucket.groups)):
            if without_values():
                return
            raise RuntimeError(
                f"fused=True cannot be honored: nothing fused updates these {bucket.dtype} tensors on {bucket.device} "
                f"with bf16_update={bucket.group['bf16_update']!r}; pass fused=None"
            )
