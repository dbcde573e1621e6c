"""The same update, executed in different ways; an update knows no equation but Adam's."""

import os
from itertools import accumulate
from operator import is_
from typing import Any

import torch
from torch import Tensor

from psilogic.buckets import Bucket
from psilogic.gradients import Processing, Statistics, measure, process
from psilogic.norms import Foreach, as_real
from psilogic.scalars import State
from psilogic.sharding import local
from psilogic.updates import foreach, fused, native
from psilogic.updates.operands import Step, Tensors
from psilogic.updates.rounding import narrow_, widen


def candidates(bucket: Bucket) -> list[str]:
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


def pick(bucket: Bucket, tensors: Tensors) -> str:
    """The execution of a bucket's update: the first one that can treat all of its tensors, else foreach."""
    admitted, by_rows = candidates(bucket), bucket.by_rows
    if "triton" in admitted and triton_module(bucket).supports(tensors, by_rows):
        return "triton"
    if "native" in admitted and native.supports(tensors, by_rows):
        return "native"
    return "fused" if "fused" in admitted and fused.supports(tensors, by_rows) else "foreach"


def statistics(bucket: Bucket) -> Statistics:
    """What `measure` returns, by kernels where they can sum these tensors."""
    group, admitted = bucket.group, candidates(bucket)
    values, grads = as_real(bucket.values), as_real(bucket.grads)
    params = values if group["agc_clip"] > 0 else None
    whole = bucket.ranks is None and len(bucket.owned) == len(bucket.params)
    if "triton" in admitted and whole and triton_module(bucket).supports((values, grads), bucket.by_rows):
        kernels, with_sums = triton_module(bucket), group["grad_centralize"]
        sums = kernels.unit_statistics(grads, params, bucket.units, with_sums, bucket.uploads)
    elif "native" in admitted and native.supports((values, grads), bucket.by_rows):
        sums = native.unit_statistics(grads, params, bucket.units, group["grad_centralize"])
    else:
        return measure(bucket)
    return Statistics(bucket.numel, *sums)


def foreseeable(bucket: Bucket) -> bool:
    """Whether what an update does is known before the norms are, but for what active cancellation adds to it."""
    group, whole = bucket.group, bucket.ranks is None and len(bucket.owned) == len(bucket.params)
    as_it_is = not (bucket.by_rows or group["agc_clip"] > 0 or group["max_grad_norm"] is not None or group["maximize"])
    if not (bucket.on_host and whole and as_it_is) or group["quantum_decay"] > 0:
        return False
    # The gate of `chaos_tau` would stay open for long; of a parameter that loses all there is nothing left to cancel.
    return bool(group["adaptive_tau"] and group["lr"] * group["weight_decay"] < 0.5)


def ahead(bucket: Bucket, states: list[State]) -> Tensors | None:
    """The tensors of a `foreseeable` update, if an execution can change them and sum in the same pass."""
    tensors = tensors_of(bucket, states)
    return tensors if pick(bucket, tensors) == "native" else None


def update_ahead_(bucket: Bucket, tensors: Tensors, quiet: Step) -> Statistics:
    """Change parameters and moments as if nothing fired, and sum in the same pass.

    Args:
        bucket: the tensors.
        tensors: what `ahead` returned.
        quiet: what to do to tensors that do not fire.

    Returns:
        What `measure` returns.
    """
    return Statistics(bucket.numel, native.update_(tensors, quiet, None, None, bucket.units), None, None)


def cancel_(tensors: Tensors, quiet: Step, step: Step) -> str:
    """Let those tensors lose what they should have lost besides in the update ahead.

    Args:
        tensors: what was updated.
        quiet: what was done to them.
        step: what should have been done.

    Returns:
        The execution of the update.
    """
    lost = (step.decay - quiet.decay) / (1 - quiet.decay)
    fired = lost.nonzero().flatten()
    if len(fired):
        chosen = Tensors(*([xs[i] for i in fired.tolist()] for xs in tensors))
        native.cancel_(chosen, quiet.of(fired), lost[fired])
    return "native"


def update_(
    bucket: Bucket, states: list[State], processing: Processing, step: Step, found_inf: Tensor | None = None
) -> str:
    """Change parameters and moments.

    Args:
        bucket: the tensors.
        states: their states.
        processing: what becomes of their gradients.
        step: what to do to the tensors.
        found_inf: above 0 where nothing may change, which only Triton's kernel asks; None for 0.

    Returns:
        The execution that was picked.
    """
    tensors = tensors_of(bucket, states)
    execution = pick(bucket, tensors)
    if execution == "native":
        native.update_(tensors, step, processing.mean, processing.scale, bucket.units)
    elif execution == "fused":
        _fused_update_(bucket, tensors, processing, step)
    elif execution == "triton":
        mean, scale, _ = processing
        triton_module(bucket).update_(tensors, step, mean, scale, bucket.units, bucket.uploads, found_inf)
    else:
        compensations = _held(bucket, states, "compensation") if bucket.rounding == "kahan" else None
        tensors = tensors._replace(grads=as_real(process(bucket, processing)))
        _foreach_update_(bucket, tensors, compensations, step)
    return execution


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


def tensors_of(bucket: Bucket, states: list[State]) -> Tensors:
    """What this rank holds of the bucket's tensors and of their moments, as real tensors."""
    lists = [bucket.values, bucket.grads, *(_held(bucket, states, name) for name in ("exp_avg", "exp_avg_sq"))]
    return Tensors(*map(as_real, lists))


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
