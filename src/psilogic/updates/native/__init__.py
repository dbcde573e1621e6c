"""The update on a CPU through compiled kernels: one pass for the sums, and one for the update.

An early update is a single pass: it measures norms and applies the step of tensors that do not fire. If none fires, it
is the whole step, and the scalars have their new values; otherwise torch's operations decide, and those that fired are
corrected afterwards.
"""

from array import array

import torch
from torch import Tensor

from psilogic.decision import Step, by_clocks, prepare, t_warm
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
    for work in works:
        bucket, group = work.bucket, work.bucket.group
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
    bucket, group = work.bucket, work.bucket.group
    if work.owned is not bucket:
        return measure(bucket)
    if not work.early:
        params = work.tensors.params if group["agc_clip"] > 0 else None
        sums = kernels.unit_statistics(work.tensors.grads, params, bucket.units, group["grad_centralize"])
        return Sums(None if bucket.ranks is None else bucket.numel, *sums)
    work.quiet = _quiet(work)
    in_place, scalars = bucket.cache.scalars.places(work.states, bucket)
    work.decided = work.decided and in_place
    work.waits = array("q", [0 if work.decided else 2]) * len(work.states)
    tau, signal = work.group["tau_scale" if group["adaptive_tau"] else "chaos_tau"], group["chaos_signal"]
    detector = scalars, signal == "relative", work.group["gamma"], t_warm(group), tau, group["adaptive_tau"]
    norms = kernels.update_(
        work.tensors, work.quiet, bucket.units, work.mean, work.scale, _by_rows(work), work.waits, detector
    )
    work.decided, work.norms = not any(work.waits), torch.frombuffer(norms, dtype=torch.float64)
    if not work.decided and work.quiet.t is None:
        prepare(work)
    return None


def _quiet(work: Work) -> Step:
    """The step of tensors that do not fire. The kernel counts, but with quantum decay, which depends on the count."""
    bucket, group = work.bucket, work.group
    if group["quantum_decay"] == 0:
        lr, weight_decay = group["lr"], group["weight_decay"]
        return Step(None, lr * weight_decay, None, lr, weight_decay, group["eps"], *group["betas"])
    prepare(work)
    w, schedule = by_clocks(group, work.quiet.t, work.t_detector)
    if _by_rows(work):  # the gradients are processed again
        if (count := sum(bucket.units)) not in bucket.cache.unit_vectors:
            bucket.cache.unit_vectors = {count: torch.empty(2, count, dtype=torch.float64, device="cpu")}
        work.mean, work.scale = bucket.cache.unit_vectors[count]
    return work.quiet._replace(quantum_rate=work.quiet.lr * (group["quantum_decay"] * schedule) * w)


def _by_rows(work: Work) -> tuple[float, bool] | None:
    """The options of AGC and centralization in the pass of the update; None without both."""
    clip, centralize = work.bucket.group["agc_clip"], work.bucket.group["grad_centralize"]
    return (clip, centralize) if clip > 0 or centralize else None


def finish(work: Work, found_inf: Tensor | None) -> None:
    """Update parameters and moments in one pass; after an early update tensors that waited, and those that fired."""
    if work.decided:
        return
    step, quiet = work.step, work.quiet
    if not work.early:
        kernels.update_(work.tensors, step, work.owned.units, work.mean, work.scale)
        return
    if late := [i for i, x in enumerate(work.waits) if x == 1]:
        tensors, units = work.tensors.of(late), [work.bucket.units[i] for i in late]
        kernels.update_(tensors, step.of(late), units, by_rows=_by_rows(work))
    if step.decay is quiet.decay:
        return  # nothing fired
    differs = step.decay != quiet.decay
    if step.quantum_rate is not None:
        differs |= step.quantum_rate != quiet.quantum_rate
    if fired := [i for i in differs.nonzero().flatten().tolist() if work.waits[i] != 1]:
        lost = (step.decay - quiet.decay) / (1 - quiet.decay)
        mean, scale = (units_of(x, work.bucket.units, fired) for x in (work.mean, work.scale))
        units = [work.bucket.units[i] for i in fired]
        kernels.cancel_(work.tensors.of(fired), quiet.of(fired), lost[fired], mean, scale, units)


execution = Execution("native", kernels.supports, begin, finish, at_once=True)
