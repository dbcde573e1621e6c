"""The update before the norms are known: what they add to it is small, so that one pass over memory is enough."""

from typing import NamedTuple

from torch import Tensor

from psilogic.decision import likely_to_fire, quiet_quantum_rate
from psilogic.gradients import Processing, decided_by_unit, units_of
from psilogic.norms import root
from psilogic.state import Before
from psilogic.updates import Work, native
from psilogic.updates.operands import Step, Tensors


class Foresight(NamedTuple):
    """What is done to N tensors before the norms are known.

    Attributes:
        quiet: what is done to tensors that do not fire.
        waits: of each tensor whether it is left as it is until they are known.
    """

    quiet: Step
    waits: list[bool]


def foreseeable(work: Work) -> bool:
    """Whether what is done to the tensors is known before the norms are, but for what the chaos term adds to it."""
    bucket, group = work.bucket, work.bucket.group
    if work.execution != "native" or bucket.ranks is not None or group["max_grad_norm"] is not None:
        return False
    return decided_by_unit(group) and not group["maximize"]


def independent(works: list[Work]) -> bool:
    """Whether no parameter lies where another one does, nor where a gradient does that is read again afterwards."""
    params = [place for work in works for place in native.places(work.tensors.params)]
    again = [work.tensors.grads for work in works if work.bucket.group["quantum_decay"] > 0]
    return len(set(params)) == len(params) and all(set(params).isdisjoint(native.places(grads)) for grads in again)


def foresee(work: Work, before: Before) -> Foresight:
    """What is done to tensors that do not fire, and which ones wait, since they will fire or would keep too little."""
    group, quiet = work.bucket.group, before.quiet
    if group["quantum_decay"] > 0:
        rate = quiet_quantum_rate({**group, "lr": quiet.lr}, quiet.t, before.t_detector)
        quiet = quiet._replace(quantum_rate=rate)
    if quiet.lr * max(group["weight_decay"], group["quantum_decay"]) >= 0.5:  # little is left to cancel of
        return Foresight(quiet, [True] * len(work.states))
    if group["gamma"] == 0 and group["quantum_decay"] == 0:
        return Foresight(quiet, [False] * len(work.states))
    return Foresight(quiet, likely_to_fire(group, before.memory, before.t_detector).tolist())


def update_ahead_(work: Work, foresight: Foresight) -> Processing:
    """Process gradients and change parameters and moments as if nothing fired, and sum, all in the same pass.

    Args:
        work: what to change, `foreseeable`.
        foresight: what to do.

    Returns:
        What becomes of the gradients, those of tensors that wait included; mean and scale only where they are needed
        afterwards.
    """
    (quiet, waits), bucket, group = foresight, work.bucket, work.bucket.group
    if not (bucket.by_rows or group["agc_clip"] > 0):
        return Processing(None, None, root(native.update_(work.tensors, quiet, None, None, bucket.units, waits)))
    how = group["agc_clip"], group["grad_centralize"]
    mean, scale, squares = native.process_and_update_(work.tensors, quiet, bucket.units, waits, *how)
    return Processing(mean, scale, root(squares))


def complete_(work: Work, processing: Processing, foresight: Foresight, step: Step) -> None:
    """Change the tensors that have waited, and cancel of those others that fire all the same.

    Args:
        work: what to change.
        processing: what became of the gradients.
        foresight: what was done.
        step: what should be done; without quantum decay where that was not foreseen.
    """
    quiet, waits = foresight
    waiting = [i for i, waited in enumerate(waits) if waited]
    if waiting:
        tensors, mean, scale, units = _part(work, processing, waiting)
        native.update_(tensors, step.of(waiting), mean, scale, units)
    differs = step.decay != quiet.decay
    if step.quantum_rate is not None:
        differs |= step.quantum_rate != quiet.quantum_rate
    fired = [i for i in differs.nonzero().flatten().tolist() if not waits[i]]
    if fired:
        lost = (step.decay - quiet.decay) / (1 - quiet.decay)
        tensors, mean, scale, units = _part(work, processing, fired)
        native.cancel_(tensors, quiet.of(fired), lost[fired], mean, scale, units)


def _part(
    work: Work, processing: Processing, chosen: list[int]
) -> tuple[Tensors, Tensor | None, Tensor | None, list[int]]:
    """Some of the tensors, mean and scale of their units, and how many these are."""
    tensors, units = Tensors(*([xs[i] for i in chosen] for xs in work.tensors)), work.bucket.units
    mean, scale = (units_of(x, units, chosen) for x in processing[:2])
    return tensors, mean, scale, [units[i] for i in chosen]
