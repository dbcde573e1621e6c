"""Speculative update: the pass that measures norms applies the quiet step; tensors that fired are then corrected."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from psilogic import equations as eq
from psilogic.decision import by_clocks
from psilogic.equations import Scalar
from psilogic.gradients import Processing, decided_by_unit, units_of
from psilogic.tensors.buckets import Bucket
from psilogic.tensors.memory import ordinary, places
from psilogic.tensors.norms import root
from psilogic.updates.native import kernels
from psilogic.updates.types import Execution, PreStep, Step, Tensors, UpdatePlan, Work
from psilogic.updates.vectorized_decider import likely_to_fire


class Speculation(NamedTuple):
    """The update of N tensors before their norms were known.

    Attributes:
        processing: the processing of the gradients, also of deferred tensors; mean and scale only if `finish` needs
            them.
        quiet: the step of tensors that do not fire.
        deferred: for each tensor whether its update waits for the norms.
    """

    processing: Processing
    quiet: Step
    deferred: list[bool]

    def to_processing(self, bucket: Bucket, factor: Tensor | None) -> Processing:
        """The processing; there is no factor, since clipping and scaling exclude speculation."""
        return self.processing


def admits(work: Work) -> bool:
    """Whether the step of the tensors is known before their norms are, except for the chaos term."""
    bucket, group = work.bucket, work.bucket.group
    if work.owned is not bucket or bucket.ranks is not None or group["max_grad_norm"] is not None:
        return False
    return decided_by_unit(group) and not group["maximize"]


def independent(works: list[Work], early: list[bool]) -> bool:
    """Whether no parameter that is changed early shares memory with a tensor that is changed or read afterwards.

    Such tensors are other parameters, gradients of works that are updated later, and gradients that quantum decay reads
    again.
    """
    params: list[int] = []
    elsewhere: list[int] = []
    for (mine, grads, *_), bucket, is_early in ((w.tensors, w.bucket, e) for w, e in zip(works, early, strict=True)):
        if is_early:
            params += places(mine)
            elsewhere += places(grads) if bucket.group["quantum_decay"] > 0 else []
        else:  # tensors that are changed early are ordinary
            elsewhere += places([x for x in (*mine, *grads) if ordinary([[x]])])
    return len(set(params)) == len(params) and set(params).isdisjoint(elsewhere)


def begin(work: Work, pre_step: PreStep) -> Speculation:
    """Process gradients, apply the quiet step to parameters and moments, and sum, all in the same pass."""
    bucket, group = work.bucket, work.bucket.group
    quiet, deferred = _speculate(group, pre_step)
    if bucket.by_rows or group["agc_clip"] > 0:
        how = group["agc_clip"], group["grad_centralize"]
        mean, scale, squares = kernels.process_and_update_(work.tensors, quiet, bucket.units, deferred, *how)
    else:
        mean, scale, squares = None, None, kernels.update_(work.tensors, quiet, None, None, bucket.units, deferred)
    return Speculation(Processing(mean, scale, root(squares), None), quiet, deferred)


def _speculate(group: dict[str, Any], pre_step: PreStep) -> tuple[Step, list[bool]]:
    """The quiet step, and which tensors are deferred: likely to fire, or decayed by too much for a correction."""
    quiet, n = pre_step.quiet, len(pre_step.quiet.t)
    if group["quantum_decay"] > 0:
        w, schedule = by_clocks(group, quiet.t, pre_step.t_detector)
        fires = torch.zeros_like(quiet.t, dtype=torch.bool)
        rate = eq.quantum_rate(quiet.lr, group["quantum_decay"] * schedule, w, fires)
        quiet = quiet._replace(quantum_rate=rate)
    strongest = max(_largest(quiet.lr * group[name]) for name in ("weight_decay", "quantum_decay"))
    if strongest >= 0.5:  # too little is left to correct
        return quiet, [True] * n
    if _largest(group["gamma"]) == 0 and group["quantum_decay"] == 0:
        return quiet, [False] * n
    likely = likely_to_fire(group, pre_step.memory, pre_step.t_detector)
    if isinstance(group["gamma"], Tensor) and group["quantum_decay"] == 0:
        likely &= group["gamma"] > 0  # as if the groups of the bucket were apart
    return quiet, likely.tolist()


def _largest(numbers: Scalar) -> float:
    """The largest of the numbers that the tensors have."""
    return float(numbers.max()) if isinstance(numbers, Tensor) else numbers


def finish(work: Work, begun: Speculation, plan: UpdatePlan, found_inf: Tensor | None) -> None:
    """Update the deferred tensors, and cancel in those of the others that fired."""
    (_, quiet, deferred), step = begun, plan.step
    late = [i for i, is_deferred in enumerate(deferred) if is_deferred]
    if late:
        tensors, mean, scale, units = _part(work, plan, late)
        kernels.update_(tensors, step.of(late), mean, scale, units)
    if step.decay is quiet.decay:
        return  # nothing fired
    differs = step.decay != quiet.decay
    if step.quantum_rate is not None:
        differs |= step.quantum_rate != quiet.quantum_rate
    fired = [i for i in differs.nonzero().flatten().tolist() if not deferred[i]]
    if fired:
        lost = (step.decay - quiet.decay) / (1 - quiet.decay)
        tensors, mean, scale, units = _part(work, plan, fired)
        kernels.cancel_(tensors, quiet.of(fired), lost[fired], mean, scale, units)


def _part(work: Work, plan: UpdatePlan, chosen: list[int]) -> tuple[Tensors, Tensor | None, Tensor | None, list[int]]:
    """The chosen tensors, mean and scale of their units, and the number of units of each."""
    units = work.bucket.units
    mean, scale = (units_of(x, units, chosen) for x in (plan.mean, plan.scale))
    return work.tensors.of(chosen), mean, scale, [units[i] for i in chosen]


execution = Execution("native", kernels.supports, begin, finish, early=True, at_once=True)
