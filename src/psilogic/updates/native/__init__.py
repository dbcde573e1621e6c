"""The update on a CPU through compiled kernels: one pass for the sums, and one for the update.

An early update is a single pass: it measures norms and applies the step of tensors that do not fire; those that fired
are corrected afterwards.
"""

from typing import Any

import torch
from torch import Tensor

from psilogic.decision import Step, by_clocks, likely_to_fire
from psilogic.gradients import Sums, measure, units_of
from psilogic.tensors.memory import ordinary, places
from psilogic.updates.native import kernels
from psilogic.updates.types import Execution, Work


def early(works: list[Work]) -> list[bool]:
    """Whether the step of each work's tensors is known before their norms are, except for the chaos term.

    For no work if a parameter that is changed early shares memory with a tensor that is changed or read afterwards:
    with other parameters, gradients of works that are updated later, and gradients that quantum decay reads again.
    """
    admitted, params, elsewhere = [], [], []
    for bucket, group, work in ((work.bucket, work.bucket.group, work) for work in works):
        whole = work.owned is bucket and bucket.ranks is None and group["max_grad_norm"] is None
        admitted.append(work.execution is execution and whole and bucket.by_unit and not group["maximize"])
    for work, admits in zip(works, admitted, strict=True) if any(admitted) else ():
        mine, grads, *_ = work.tensors
        if admits:
            params += places(mine)
            elsewhere += places(grads) if work.bucket.group["quantum_decay"] > 0 else []
        else:  # tensors that are changed early are ordinary
            elsewhere += places([x for x in (*mine, *grads) if ordinary([[x]])])
    apart = len(set(params)) == len(params) and set(params).isdisjoint(elsewhere)
    return admitted if apart else [False] * len(works)


def begin(work: Work) -> Sums | None:
    """The sums over units, by torch's operations if another process updates some tensors; or the early update."""
    bucket, group, (params, grads, *_) = work.bucket, work.bucket.group, work.tensors
    if work.owned is not bucket:
        return measure(bucket)
    clip, centralize, units = group["agc_clip"], group["grad_centralize"], bucket.units
    if not work.early:
        sums = kernels.unit_statistics(grads, params if clip > 0 else None, units, centralize)
        return Sums(None if bucket.ranks is None else bucket.numel, *sums)
    work.quiet, work.deferred = _speculate(work)
    if bucket.by_rows or clip > 0:
        if work.quiet.quantum_rate is not None or any(work.deferred):  # the gradients are processed again
            if (count := sum(units)) not in bucket.cache.unit_vectors:
                bucket.cache.unit_vectors = {count: torch.empty(2, count, dtype=torch.float64, device="cpu")}
            work.mean, work.scale = bucket.cache.unit_vectors[count]
        squares = kernels.process_and_update_(
            work.tensors, work.quiet, work.mean, work.scale, units, work.deferred, clip, centralize
        )
    else:
        squares = kernels.update_(work.tensors, work.quiet, None, None, units, work.deferred)
    work.norms = squares.sqrt()
    return None


def _speculate(work: Work) -> tuple[Step, list[bool]]:
    """The quiet step, and which tensors are deferred: likely to fire, or decayed by too much for a correction."""
    group, quiet, n = work.group, work.quiet, len(work.states)
    if group["quantum_decay"] > 0:
        w, schedule = by_clocks(group, quiet.t, work.t_detector)
        quiet = quiet._replace(quantum_rate=quiet.lr * (group["quantum_decay"] * schedule) * w)
    decays = quiet.lr * group["weight_decay"], quiet.lr * group["quantum_decay"]
    if any(x.max() >= 0.5 if isinstance(x, Tensor) else x >= 0.5 for x in decays):  # too little is left to correct
        return quiet, [True] * n
    likely, gamma = likely_to_fire(group, work.memory, work.t_detector), group["gamma"]
    if group["quantum_decay"] == 0 and (isinstance(gamma, Tensor) or gamma == 0):
        likely &= gamma > 0  # what fires changes nothing without chaos gain
    return quiet, likely.tolist()


def finish(work: Work, found_inf: Tensor | None) -> None:
    """Update parameters and moments in one pass; after an early update the deferred tensors, and those that fired."""
    step = work.step
    if not work.early:
        kernels.update_(work.tensors, step, work.mean, work.scale, work.owned.units)
        return
    quiet = work.quiet
    if late := [i for i, is_deferred in enumerate(work.deferred) if is_deferred]:
        tensors, *units = _part(work, late)
        kernels.update_(tensors, step.of(late), *units)
    if step.decay is quiet.decay:
        return  # nothing fired
    differs = step.decay != quiet.decay
    if step.quantum_rate is not None:
        differs |= step.quantum_rate != quiet.quantum_rate
    if fired := [i for i in differs.nonzero().flatten().tolist() if not work.deferred[i]]:
        lost = (step.decay - quiet.decay) / (1 - quiet.decay)
        tensors, *units = _part(work, fired)
        kernels.cancel_(tensors, quiet.of(fired), lost[fired], *units)


def _part(work: Work, chosen: list[int]) -> tuple[Any, ...]:
    """The chosen tensors, mean and scale of their units, and the number of units of each."""
    units = work.bucket.units
    mean, scale = (units_of(x, units, chosen) for x in (work.mean, work.scale))
    return work.tensors.of(chosen), mean, scale, [units[i] for i in chosen]


execution = Execution("native", kernels.supports, begin, finish, at_once=True)
