"""The update before the norms are known: what they add to it is small, so that one pass over memory is enough."""

from typing import Any, NamedTuple

from torch import Tensor

from psilogic.decision import likely_to_fire, quiet_quantum_rate
from psilogic.gradients import Processing, decided_by_unit, units_of
from psilogic.tensors.buckets import Bucket
from psilogic.tensors.memory import ordinary, places
from psilogic.tensors.norms import root
from psilogic.updates.native import kernels
from psilogic.updates.work import Before, Execution, Settled, Step, Tensors, Work


class Foresight(NamedTuple):
    """What was done to N tensors before the norms were known.

    Attributes:
        processing: what becomes of the gradients, those of tensors that wait included; mean and scale only where they
            are needed afterwards.
        quiet: what was done to tensors that do not fire.
        waits: of each tensor whether it was left as it is until the norms are known.
    """

    processing: Processing
    quiet: Step
    waits: list[bool]

    def plan(self, bucket: Bucket, factor: Tensor | None) -> Processing:
        """What becomes of the gradients; no factor, since clipping and scaling admit no foresight."""
        return self.processing


def foreseeable(work: Work) -> bool:
    """Whether what is done to the tensors is known before the norms are, but for what the chaos term adds to it."""
    bucket, group = work.bucket, work.bucket.group
    if work.mine is not bucket or bucket.ranks is not None or group["max_grad_norm"] is not None:
        return False
    return decided_by_unit(group) and not group["maximize"]


def independent(early: list[Work], others: list[Work]) -> bool:
    """Whether no parameter that is changed early lies where something does that is changed or read again afterwards.

    That is another parameter, a gradient of those that are changed later, or one that quantum decay reads again.
    """
    params = [place for work in early for place in places(work.tensors.params)]
    again = [g for work in early if work.bucket.group["quantum_decay"] > 0 for g in work.tensors.grads]
    later = [x for work in others for xs in (work.tensors.params, work.tensors.grads) for x in xs]
    elsewhere = places(again + [x for x in later if ordinary([[x]])])  # what is changed early is known to be
    return len(set(params)) == len(params) and set(params).isdisjoint(elsewhere)


def measure(work: Work, before: Before) -> Foresight:
    """Process gradients and change parameters and moments as if nothing fired, and sum, all in the same pass."""
    bucket, group = work.bucket, work.bucket.group
    quiet, waits = _foresee(group, before)
    if bucket.by_rows or group["agc_clip"] > 0:
        how = group["agc_clip"], group["grad_centralize"]
        mean, scale, squares = kernels.process_and_update_(work.tensors, quiet, bucket.units, waits, *how)
    else:
        mean, scale, squares = None, None, kernels.update_(work.tensors, quiet, None, None, bucket.units, waits)
    return Foresight(Processing(mean, scale, root(squares), bucket.numel), quiet, waits)


def _foresee(group: dict[str, Any], before: Before) -> tuple[Step, list[bool]]:
    """What is done to tensors that do not fire, and which ones wait, since they will fire or would keep too little."""
    quiet, n = before.quiet, len(before.quiet.t)
    if group["quantum_decay"] > 0:
        rate = quiet_quantum_rate({**group, "lr": quiet.lr}, quiet.t, before.t_detector)
        quiet = quiet._replace(quantum_rate=rate)
    if quiet.lr * max(group["weight_decay"], group["quantum_decay"]) >= 0.5:  # little is left to cancel of
        return quiet, [True] * n
    if group["gamma"] == 0 and group["quantum_decay"] == 0:
        return quiet, [False] * n
    return quiet, likely_to_fire(group, before.memory, before.t_detector).tolist()


def update_(work: Work, measured: Foresight, settled: Settled, found_inf: Tensor | None) -> None:
    """Change the tensors that have waited, and cancel of those others that fire all the same."""
    (_, quiet, waits), step = measured, settled.step
    waiting = [i for i, waited in enumerate(waits) if waited]
    if waiting:
        tensors, mean, scale, units = _part(work, settled, waiting)
        kernels.update_(tensors, step.of(waiting), mean, scale, units)
    if step.decay is quiet.decay:
        return  # and so was decided what had been foreseen
    differs = step.decay != quiet.decay
    if step.quantum_rate is not None:
        differs |= step.quantum_rate != quiet.quantum_rate
    fired = [i for i in differs.nonzero().flatten().tolist() if not waits[i]]
    if fired:
        lost = (step.decay - quiet.decay) / (1 - quiet.decay)
        tensors, mean, scale, units = _part(work, settled, fired)
        kernels.cancel_(tensors, quiet.of(fired), lost[fired], mean, scale, units)


def _part(work: Work, settled: Settled, chosen: list[int]) -> tuple[Tensors, Tensor | None, Tensor | None, list[int]]:
    """Some of the tensors, mean and scale of their units, and how many these are."""
    units = work.bucket.units
    mean, scale = (units_of(x, units, chosen) for x in (settled.mean, settled.scale))
    return work.tensors.of(chosen), mean, scale, [units[i] for i in chosen]


execution = Execution("native", kernels.supports, measure, update_, early=True, at_once=True)
