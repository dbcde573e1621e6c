"""The same update, executed in different ways; an update knows no equation but Adam's."""

import os
from itertools import accumulate, chain
from operator import is_
from typing import Any, NamedTuple

import torch
from torch import Tensor

from psilogic.buckets import Bucket
from psilogic.gradients import Processing, Statistics, measure, process
from psilogic.norms import Foreach, as_real
from psilogic.scalars import State
from psilogic.sharding import local
from psilogic.updates import foreach, fused, native
from psilogic.updates.guarded import Guarded
from psilogic.updates.operands import Step, Tensors
from psilogic.updates.rounding import narrow_, widen


class Work(NamedTuple):
    """What this process updates of a bucket.

    Attributes:
        bucket: the tensors, all of them owned.
        states: theirs.
        tensors: what this rank holds of them and of their moments, as real tensors.
        execution: what changes them.
    """

    bucket: Bucket
    states: list[State]
    tensors: Tensors
    execution: str


def prepare(bucket: Bucket, states: list[State], guarded: Guarded) -> Work:
    """Pick the execution of the update of a bucket's tensors.

    Args:
        bucket: the tensors, all of them owned.
        states: theirs, which have all that they need.
        guarded: what was found out about them in earlier steps.
    """
    lists = [bucket.values, bucket.grads, *(_held(bucket, states, name) for name in ("exp_avg", "exp_avg_sq"))]
    tensors = Tensors(*map(as_real, lists))
    return Work(bucket, states, tensors, _pick(bucket, tensors, guarded))


def _candidates(bucket: Bucket) -> list[str]:
    """The executions besides foreach that a bucket's flags and kind admit, the best one first.

    Triton's kernel, which has never run on a GPU, is taken only where `fused=True` asks for it.
    """
    group = bucket.group
    if group["fused"] is False or (group["fused"] is None and group["foreach"] is not None):
        return []
    if bucket.rounding != "nearest" or group["differentiable"] or torch.compiler.is_compiling():
        return []
    # A row may begin in another rank's piece; of a complex row the real view has not the mean.
    if bucket.by_rows and (bucket.ranks is not None or bucket.dtype.is_complex):
        return []
    triton = ["triton"] if group["fused"] and triton_module(bucket) is not None else []
    return [*triton, "native", "fused"] if bucket.device.type == "cpu" else triton


def _pick(bucket: Bucket, tensors: Tensors, guarded: Guarded) -> str:
    """The first execution that can treat all of a bucket's tensors, else foreach."""
    admitted, by_rows = _candidates(bucket), bucket.by_rows
    if not admitted:
        return "foreach"

    def find() -> str | None:
        modules = {"triton": triton_module(bucket), "native": native, "fused": fused}
        return next((name for name in admitted if modules[name].supports(tensors, by_rows)), None)

    found = guarded.get((admitted, by_rows, list(map(id, bucket.params))), list(chain(*tensors)), find)
    if found == "native" and len(set(places := native.places(tensors.params))) < len(places):
        return "fused"  # parameters that share their memory would be changed by several threads at once
    return found or "foreach"


def statistics(bucket: Bucket, work: Work | None) -> Statistics:
    """What `measure` returns, by kernels where they change all of the bucket's tensors.

    Args:
        bucket: the tensors.
        work: what is updated of them, None for nothing.
    """
    if work is None or work.bucket is not bucket:
        return measure(bucket)
    group, (params, grads, *_) = bucket.group, work.tensors
    what = grads, params if group["agc_clip"] > 0 else None, bucket.units, group["grad_centralize"]
    if work.execution == "native":
        return Statistics(bucket.numel, *native.unit_statistics(*what))
    if work.execution == "triton" and bucket.ranks is None:
        return Statistics(bucket.numel, *triton_module(bucket).unit_statistics(*what, bucket.uploads))
    return measure(bucket)


def update_(work: Work, processing: Processing, step: Step, found_inf: Tensor | None = None) -> None:
    """Change parameters and moments.

    Args:
        work: what to change.
        processing: what becomes of the gradients.
        step: what to do to the tensors.
        found_inf: above 0 where nothing may change, which only Triton's kernel asks; None for 0.
    """
    bucket, states, tensors, execution = work
    mean, scale, _ = processing
    if execution == "native":
        native.update_(tensors, step, mean, scale, bucket.units)
    elif execution == "fused":
        _fused_update_(bucket, tensors, processing, step)
    elif execution == "triton":
        triton_module(bucket).update_(tensors, step, mean, scale, bucket.units, bucket.uploads, found_inf)
    else:
        compensations = _held(bucket, states, "compensation") if bucket.rounding == "kahan" else None
        tensors = tensors._replace(grads=as_real(process(bucket, processing)))
        _foreach_update_(bucket, tensors, compensations, step)


def _fused_update_(bucket: Bucket, tensors: Tensors, processing: Processing, step: Step) -> None:
    """The update of the tensors with rows, and of those that are one unit each: these a number scales."""
    mean, scale, _ = processing
    if not bucket.by_rows:
        fused.update_(tensors, step, None, None if scale is None else scale.tolist())
        return
    with_rows = [x.ndim > 1 for x in bucket.values]
    first_units = list(accumulate(bucket.units, initial=0))
    for of_rows in set(with_rows):
        chosen = [i for i, mine in enumerate(with_rows) if mine == of_rows]
        part = Tensors(*([xs[i] for i in chosen] for xs in tensors)), step.of(torch.tensor(chosen, device="cpu"))
        if of_rows:
            fused.update_(*part, *(None if x is None else bucket.spread(x, chosen) for x in (mean, scale)))
        else:  # the mean is 0
            values = None if scale is None else scale.tolist()
            fused.update_(*part, None, None if values is None else [values[first_units[i]] for i in chosen])


def _foreach_update_(bucket: Bucket, tensors: Tensors, compensations: Foreach | None, step: Step) -> None:
    """The update of all tensors together, or of one after the other with `foreach=False`."""
    every = range(len(tensors.params))
    for batch in [slice(None)] if bucket.group["foreach"] is not False else [slice(i, i + 1) for i in every]:
        params, *others = (xs[batch] for xs in tensors)
        cut_off = compensations and compensations[batch]
        exact = params if bucket.rounding == "nearest" else widen(params, cut_off)
        foreach.update_(Tensors(exact, *others), step.of(batch), bucket.on_host)
        if bucket.rounding != "nearest":
            narrow_(params, exact, cut_off)


def _held(bucket: Bucket, states: list[State], name: str) -> Foreach:
    """What this rank holds of what the states have under a name."""
    held = [state[name] for state in states]
    return held if all(map(is_, bucket.values, bucket.params)) else [local(x) for x in held]


def triton_module(bucket: Bucket) -> Any:
    """The module of Triton's kernels, which takes a second to import; None where they cannot run."""
    if bucket.device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return None
    try:
        from psilogic.updates import triton
    except ImportError:
        return None
    return triton
