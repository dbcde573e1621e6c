"""The same update, executed in different ways; an update knows no equation but Adam's.

A step asks this package what updates each bucket and who decides, and nobody else knows which execution it is.
"""

import os
from collections.abc import MutableMapping
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from psilogic.gradients import Statistics
from psilogic.tensors.buckets import Bucket
from psilogic.tensors.memory import places
from psilogic.tensors.norms import as_real
from psilogic.tensors.reduction import complete
from psilogic.tensors.state import held, move_clocks_, states_of
from psilogic.tensors.uploads import warn_of_frozen
from psilogic.updates import by_vectors, foreach, fused, native
from psilogic.updates.native import ahead
from psilogic.updates.work import Decider, Execution, Settled, Tensors, Work

TRITON_ON_CUDA = False
"""Whether `fused=None` means Triton's kernels on CUDA, where `fused=True` means them in any case.

To turn it on takes this line, and the dated tables that `make gpu-test` and `make gpu-bench` write on a GPU.
"""


def prepare(buckets: list[Bucket], every_state: MutableMapping[Tensor, Any], scaled: bool) -> list[Work]:
    """What is updated of each bucket, and by which execution.

    Args:
        buckets: the tensors of this step.
        every_state: the optimizer's states; what is missing is started.
        scaled: whether GradScaler leaves unscaling, or the overflow, to the step.

    Raises:
        RuntimeError: a group's `fused=True` cannot be honoured for any of its tensors.
    """
    for bucket in buckets:
        warn_of_frozen("lr", bucket.group["lr"])
    candidates = [_candidates(bucket) for bucket in buckets]
    _check_fused(buckets, list(map(bool, candidates)))  # before any state is started
    works = [_work(bucket, every_state, admitted) for bucket, admitted in zip(buckets, candidates, strict=True)]
    _check_fused(buckets, [work.execution in admitted for work, admitted in zip(works, candidates, strict=True)])
    early = [i for i, x in enumerate(works) if x.execution is native.execution and not scaled and ahead.foreseeable(x)]
    others = [work for i, work in enumerate(works) if i not in early]
    if early and ahead.independent([works[i] for i in early], others):
        for i in early:
            works[i] = replace(works[i], execution=ahead.execution)
    return works


def _work(bucket: Bucket, every_state: MutableMapping[Tensor, Any], admitted: list[Execution]) -> Work:
    """What is updated of a bucket by the first execution that can treat all of it, else foreach."""
    mine = bucket.mine()
    states = states_of(every_state, mine, any(execution.skips for execution in admitted))
    lists = [mine.values, mine.grads, *(held(mine, states, name) for name in ("exp_avg", "exp_avg_sq"))]
    tensors = Tensors(*map(as_real, lists))
    execution = _pick(mine, tensors, admitted)
    if execution.skips:  # it decides there, too
        move_clocks_(states, bucket.device)
    return Work(bucket, mine, states, tensors, execution)


def _candidates(bucket: Bucket) -> list[Execution]:
    """The executions that a bucket's flags and kind admit, the best one first; none where foreach alone is left."""
    group = bucket.group
    if group["fused"] is False or (group["fused"] is None and group["foreach"] is not None):
        return []
    if bucket.rounding != "nearest" or group["differentiable"] or torch.compiler.is_compiling():
        return []
    # A row may begin in another rank's piece; of a complex row the real view has not the mean.
    if bucket.by_rows and (bucket.ranks is not None or bucket.dtype.is_complex):
        return []
    on_host = [native.execution, fused.execution] if bucket.device.type == "cpu" else []
    with_triton = group["fused"] or (TRITON_ON_CUDA and bucket.device.type == "cuda")
    return [*(_triton(bucket) if with_triton else []), *on_host]


def _pick(bucket: Bucket, tensors: Tensors, admitted: list[Execution]) -> Execution:
    """The first execution that can treat all of a bucket's tensors, else foreach."""
    by_rows = bucket.by_rows
    if not admitted or not bucket.params:
        return foreach.execution

    def first(admitted: list[Execution]) -> Execution | None:
        return next((execution for execution in admitted if execution.supports(tensors, by_rows)), None)

    key = admitted, by_rows, list(map(id, bucket.params))
    found = bucket.known.guarded.get(key, list(chain(*tensors)), lambda: first(admitted))
    if found and found.at_once and len(set(begins := places(tensors.params))) < len(begins):
        found = first([execution for execution in admitted if not execution.at_once])
    return found or foreach.execution


def _triton(bucket: Bucket) -> list[Execution]:
    """Triton's execution, whose package takes a second to import; none where it cannot run.

    Where it could, but for what the machine lacks, which a warning has said, foreach stands for it.
    """
    on_cuda = bucket.device.type == "cuda"
    if on_cuda == (os.environ.get("TRITON_INTERPRET") == "1"):  # the interpreter reads the host's memory alone
        return []
    try:
        from psilogic.updates import triton
        from psilogic.updates.triton.launching import can_launch
    except ImportError:
        return []
    return [triton.execution if not on_cuda or can_launch(bucket.device) else foreach.execution]


def _check_fused(buckets: list[Bucket], found: list[bool]) -> None:
    """Refuse a group's `fused=True` if nothing fused was found for any of its buckets; one is enough.

    What is traced is fused by the compiler.
    """
    honoured = {id(bucket.group) for bucket, any_fused in zip(buckets, found, strict=True) if any_fused}
    for bucket in buckets:
        if bucket.group["fused"] and bucket.owned and id(bucket.group) not in honoured:
            if torch.compiler.is_compiling():
                return
            raise RuntimeError(
                f"fused=True cannot be honoured: nothing fused updates these {bucket.dtype} tensors on {bucket.device} "
                f"with bf16_update={bucket.group['bf16_update']!r}; pass fused=None, which takes what fits"
            )


def decider(works: list[Work]) -> Decider:
    """Who decides: kernels on the device if they can do it for all tensors of the step, else torch's vectors."""
    if not all(work.execution.skips for work in works):
        return by_vectors.decider
    from psilogic.updates.triton import on_device  # here, because it needs triton

    return on_device.decider if all(map(on_device.admits, works)) else by_vectors.decider


def measure(works: list[Work], before: list[Any], found_inf: Tensor | None) -> tuple[list[Any], Tensor | None]:
    """Read the gradients of all tensors, and complete over the ranks what is known of those that are split."""
    measured: dict[int, Any] = {}
    for i in sorted(range(len(works)), key=lambda i: works[i].execution.early):
        measured[i] = works[i].execution.measure(works[i], before[i])
    split = {i: measured[i] for i, work in enumerate(works) if work.bucket.ranks is not None}
    sums, found_inf = complete([work.bucket for work in works], split, found_inf)
    measured |= {i: Statistics(*of_bucket) for i, of_bucket in sums.items()}
    return [measured[i] for i in range(len(works))], found_inf


def update_(works: list[Work], measured: list[Any], settled: list[Settled], found_inf: Tensor | None) -> None:
    """Make all parameters and states what was decided; what has begun is ended first."""
    every = zip(works, measured, settled, strict=True)
    for work, known, decided in sorted(every, key=lambda x: not x[0].execution.early):
        if work.states:
            work.execution.update_(work, known, decided, found_inf)
            work.mine.known.scalars.write(work.states, decided.scalars)
