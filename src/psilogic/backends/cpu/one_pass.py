"""Compiled kernels for a CPU in a single pass, which measures norms and applies the step of tensors that do not fire.

If none fires, the pass is the whole step, and the scalars have their new values. Otherwise torch's operations decide,
and those that fired are corrected afterwards.
"""

from array import array

import torch
from torch import Tensor

from psilogic import decision
from psilogic.backends.cpu import kernels, two_passes
from psilogic.backends.cpu.kernels import Detector, Outcome
from psilogic.gradients import units_of
from psilogic.step import BucketStep, Step
from psilogic.tensors.memory import ordinary, used_addresses
from psilogic.tensors.scalars import CLOCKS, detector_dtype, memory_names


class OnePass(two_passes.TwoPasses):
    """Compiled kernels that update before the decision."""

    speculates = True

    def begin(self, work: BucketStep) -> None:
        """Take the step of tensors that do not fire; those that are likely to fire are only measured."""
        bucket = work.bucket
        work.group = bucket.hyperparameters()
        work.non_firing_step = _non_firing_step(work)
        in_place, detector = _detector(work)
        may_decide = work.decides_itself and in_place
        work.outcomes = array("q", [Outcome.UPDATED if may_decide else Outcome.MAY_FIRE]) * len(work.states)
        norms = kernels.update_(
            work.tensors,
            work.non_firing_step,
            bucket.units,
            mean=work.mean,
            scale=work.scale,
            agc_clip=bucket.group["agc_clip"],
            centralizes=bucket.group["grad_centralize"],
            outcomes=work.outcomes,
            detector=detector,
        )
        work.norms = torch.frombuffer(norms, dtype=torch.float64)
        work.decides_itself = not any(work.outcomes)  # all are UPDATED
        if not work.decides_itself and work.non_firing_step.t is None:
            decision.prepare(work)

    def finish(self, work: BucketStep, found_inf: Tensor | None) -> None:
        """Update the tensors that were deferred, and correct those that fired."""
        if work.decides_itself:
            return
        deferred = [i for i, outcome in enumerate(work.outcomes) if outcome == Outcome.DEFERRED]
        if deferred:
            _update_deferred(work, deferred)
        if work.step.decay is not work.non_firing_step.decay:
            fired = [i for i in _positions_that_differ(work) if work.outcomes[i] != Outcome.DEFERRED]
            if fired:
                _correct_fired(work, fired)


def speculate(works: list[BucketStep], observed: bool) -> None:
    """Let tensors be updated in one pass, where their step is known before their norms are, but for the chaos term.

    Not if a parameter that is changed early shares memory with a tensor that is changed or read afterwards: with other
    parameters, gradients of buckets that are updated later, and gradients that quantum decay reads again.
    """
    admitted = []
    for work in works:
        if _is_known_before_norms(work):
            admitted.append(work)
    if not admitted or not _apart(works, admitted):
        return
    for work in admitted:
        work.backend = backend
        work.decides_itself = not observed and work.bucket.group["chaos_scope"] == "tensor"


def _is_known_before_norms(work: BucketStep) -> bool:
    """Whether the step of tensors that do not fire is known before the norms of all tensors."""
    bucket = work.bucket
    if work.backend is not two_passes.backend or work.owned is not bucket or bucket.ranks is not None:
        return False
    return bucket.by_unit and bucket.group["max_grad_norm"] is None and not bucket.group["maximize"]


def _apart(works: list[BucketStep], admitted: list[BucketStep]) -> bool:
    """Whether the parameters that are changed early share memory with none that are changed or read afterwards."""
    early: list[int] = []
    later: list[int] = []
    for work in works:
        params = work.tensors.params
        grads = work.tensors.grads
        if work in admitted:
            early += used_addresses(params)
            if work.bucket.group["quantum_decay"] > 0:
                later += used_addresses(grads)
        else:  # tensors that are changed early are ordinary
            later += used_addresses([x for x in (*params, *grads) if ordinary([[x]])])
    return len(set(early)) == len(early) and set(early).isdisjoint(later)


def _non_firing_step(work: BucketStep) -> Step:
    """The step of tensors that do not fire. The kernel counts, but with quantum decay, which depends on the count."""
    group = work.group
    if group["quantum_decay"] == 0:
        return decision.step_of(group, t=None, decay=group["lr"] * group["weight_decay"])
    decision.prepare(work)
    if group["agc_clip"] > 0 or group["grad_centralize"]:  # the gradients are processed again
        work.mean, work.scale = _unit_vectors(work)
    step = work.non_firing_step
    w, schedule = decision.by_clocks(group, step.t, work.t_detector)
    return step._replace(quantum_rate=step.lr * (group["quantum_decay"] * schedule) * w)


def _unit_vectors(work: BucketStep) -> Tensor:
    """Memory for the mean and the scale of each unit, shape (2, U)."""
    cache = work.bucket.cache
    count = sum(work.bucket.units)
    if count not in cache.unit_vectors:
        cache.unit_vectors = {count: torch.empty(2, count, dtype=torch.float64, device="cpu")}
    return cache.unit_vectors[count]


def _detector(work: BucketStep) -> tuple[bool, Detector]:
    """What the kernel reads of the detector, and whether it can change the scalars in place."""
    bucket = work.bucket
    group = work.group
    memory = memory_names(group)
    dtypes = [torch.float32] * len(CLOCKS) + [detector_dtype(bucket.params[0])] * len(memory)
    in_place, scalars = bucket.cache.scalars.addresses_of(work.states, (*CLOCKS, *memory), dtypes)
    detector = Detector(
        scalars=scalars,
        relative=group["chaos_signal"] == "relative",
        gamma=group["gamma"],
        t_warm=decision.t_warm(group),
        tau=group["tau_scale"] if group["adaptive_tau"] else group["chaos_tau"],
        adaptive=group["adaptive_tau"],
    )
    return in_place, detector


def _update_deferred(work: BucketStep, deferred: list[int]) -> None:
    """Take the whole step of tensors that were only measured."""
    group = work.bucket.group
    kernels.update_(
        work.tensors.take(deferred),
        work.step.take(deferred),
        [work.bucket.units[i] for i in deferred],
        agc_clip=group["agc_clip"],
        centralizes=group["grad_centralize"],
    )


def _positions_that_differ(work: BucketStep) -> list[int]:
    """The tensors whose decay or quantum decay is another than where nothing fires."""
    differs = work.step.decay != work.non_firing_step.decay
    if work.step.quantum_rate is not None:
        differs |= work.step.quantum_rate != work.non_firing_step.quantum_rate
    positions: list[int] = differs.nonzero().flatten().tolist()
    return positions


def _correct_fired(work: BucketStep, fired: list[int]) -> None:
    """Remove what the decay of tensors that fired should have taken in addition."""
    decay = work.non_firing_step.decay
    lost = (work.step.decay - decay) / (1 - decay)
    units = work.bucket.units
    kernels.cancel_(
        work.tensors.take(fired),
        work.non_firing_step.take(fired),
        lost[fired],
        units_of(work.mean, units, fired),
        units_of(work.scale, units, fired),
        [units[i] for i in fired],
    )


backend = OnePass()
