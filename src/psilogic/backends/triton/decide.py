"""The decisions of a step by one kernel for each bucket, or two kernels: the host reads nothing.

On a GPU the launches of about thirty small operations of `gradients.process` and `decision.equations` would cost more
than the update. A step is three launches for each bucket: sums, decision and update. Global clipping takes one more.
The processing of units takes one more if units are rows or gradients are centralized.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from psilogic.backends.triton.decision_kernels import decide_kernel
from psilogic.backends.triton.launch import DTYPES, Launch, Variant
from psilogic.backends.triton.sums import UnitSums
from psilogic.backends.triton.units import Factors, Units, max_norm, processing_of_units
from psilogic.backends.triton.update import pointer_or_number
from psilogic.decision import step_of
from psilogic.gradients import total_squares
from psilogic.step import BucketStep, Decision, DetectorState, StepInputs
from psilogic.tensors.buckets import Bucket
from psilogic.tensors.device_tables import host
from psilogic.tensors.scalars import CLOCKS, ScalarKind
from psilogic.warmup import t_warm


class Outputs(NamedTuple):
    """The rows that `decide_kernel` writes, in its order, each of shape (N,). `Step` and `Decision` explain them."""

    t: Tensor
    decay: Tensor
    quantum_rate: Tensor
    gn: Tensor
    fast: Tensor
    slow: Tensor
    reference: Tensor
    ratio: Tensor
    chaos: Tensor
    gate: Tensor  # 1 where the tensor spikes, otherwise 0
    warmup: Tensor
    cancellation: Tensor


def admits(work: BucketStep) -> bool:
    """Whether the kernel can decide for a bucket that Triton updates. It can if:

    * this process updates all tensors of the bucket, and no other process holds a piece of them;
    * the decision about a tensor needs only this tensor, and the processing of a unit only the sums over this unit;
    * all clocks have one dtype, all of the detector's memory has one dtype, and both are on the bucket's device.
    """
    bucket = work.bucket
    is_split = work.owned is not bucket or bucket.ranks is not None
    if is_split or bucket.group["chaos_scope"] != "tensor":
        return False
    # With centralization units are rows, and AGC (adaptive gradient clipping) by tensors needs the sums over all rows.
    if not bucket.by_unit:
        return False
    clocks = work.scalar_kinds[: len(CLOCKS)]
    memory = work.scalar_kinds[len(CLOCKS) :]
    return _are_of_one_kind(clocks, bucket.device) and _are_of_one_kind(memory, bucket.device)


def _are_of_one_kind(kinds: Sequence[ScalarKind | None], device: torch.device) -> bool:
    """Whether scalars of these kinds all have one dtype and are on the device; a kind is None where states differ."""
    if len(set(kinds)) != 1:
        return False
    kind = kinds[0]
    return kind is not None and kind.device == device


def decide(works: list[BucketStep], inputs: StepInputs) -> None:
    """Decide for every bucket, and change the states' scalars."""
    total = None
    if inputs.max_grad_norm is not None:
        total = total_squares([work.sums for work in works])
    for work in works:
        device = work.bucket.device
        factors = Factors(on_device(total, device), on_device(inputs.grad_scale, device))
        decide_bucket(work, factors, on_device(inputs.found_inf, device), inputs.observed)


def on_device(number: Tensor | None, device: torch.device) -> Tensor | None:
    """A number on a device, without waiting for it."""
    if number is None or number.device == device:
        return number
    return number.to(device, non_blocking=True)


class Deciding:
    """The launches that decide for the tensors of a bucket, which are repeated in each step of a plan.

    Args:
        work: has the sums over the units of the tensors.
        factors: which of them are None does not change in a plan.
    """

    def __init__(self, work: BucketStep, factors: Factors) -> None:
        sums: UnitSums = work.sums
        self.units, self._processing = processing_of_units(work, factors)
        self._shape = [sums.parts.shape[1], sums.sizes.unit_count]
        out = sums.parts.new_empty(len(Outputs._fields), len(sums.sizes.numels))
        self._outputs = Outputs(*out)
        self._launch = _decision_launch(work, self.units, out)
        self.take_hyperparameters(work.bucket)

    def take_hyperparameters(self, bucket: Bucket) -> None:
        """Take the hyperparameters of the bucket, which have changed, and make the step from them."""
        self.reading = bucket.reading  # which reading of the hyperparameters was taken
        group = bucket.group
        table = bucket.numbers
        lr = bucket.hyperparameters(wide=False)["lr"]
        lr_pointer, lr_number = pointer_or_number(lr)
        self._launch.take([*self._shape, *_numbers(group, lr_number, from_table=table is not None)])
        self._launch.point(lr_pointer=lr_pointer, table=table)
        quantum_rate = self._outputs.quantum_rate if group["quantum_decay"] > 0 else None
        self.step = step_of(group, self._outputs.t, self._outputs.decay, quantum_rate, lr)

    def launch(self, factors: Factors, found_inf: Tensor | None) -> None:
        """Decide."""
        if self._processing is not None:
            self._processing.point(total=factors.total, grad_scale=factors.grad_scale)
            self._processing()
        self._launch.point(total=factors.total, grad_scale=factors.grad_scale, found_inf=found_inf)
        self._launch()

    def again(self, stream: int | None, total: Tensor | None) -> None:
        """Decide again as `launch` did, with a sum over all gradients in other memory perhaps."""
        if self._processing is not None:
            if total is not None:
                self._processing.point(total=total)
            self._processing.again(stream)
        if total is not None:
            self._launch.point(total=total)
        self._launch.again(stream)

    def decision(self, group: dict[str, Any]) -> Decision:
        """What was decided."""
        outputs = self._outputs
        reference = outputs.reference if group["chaos_signal"] == "relative" else None
        return Decision(
            gn=outputs.gn,
            memory=DetectorState(outputs.fast, outputs.slow, reference),
            ratio=outputs.ratio,
            chaos=outputs.chaos,
            gate=outputs.gate > 0,
            warmup=outputs.warmup,
            cancellation=outputs.cancellation,
            decay=outputs.decay,
            quantum_rate=outputs.quantum_rate if group["quantum_decay"] > 0 else None,
        )


def decide_bucket(work: BucketStep, factors: Factors, found_inf: Tensor | None, observed: bool) -> None:
    """Decide for the tensors of a bucket from the sums over their units, and update their scalars in place."""
    if observed:  # who observes may keep the results: they get memory of their own
        work.kept.pop("decision", None)
    deciding = work.once("decision", lambda: Deciding(work, factors))
    if deciding.reading != work.bucket.reading:
        deciding.take_hyperparameters(work.bucket)
    deciding.launch(factors, found_inf)
    work.mean = deciding.units.mean
    work.scale = deciding.units.scale
    work.step = deciding.step
    if observed:
        work.decision = deciding.decision(work.bucket.group)


def _decision_launch(work: BucketStep, units: Units, out: Tensor) -> Launch:
    """The launch of a decision with the switches of a bucket."""
    group = work.bucket.group
    sums: UnitSums = work.sums
    clock = work.scalar_kinds[0]  # `admits` accepts one dtype of clocks, and one of the memory
    memory = work.scalar_kinds[len(CLOCKS)]
    assert clock is not None
    assert memory is not None
    variant = _decision_variant(
        with_params=sums.with_params,
        adaptive=group["adaptive_tau"],
        maximize=group["maximize"],
        relative=group["chaos_signal"] == "relative",
        clock=clock.dtype,
        memory=memory.dtype,
    )
    addresses = work.scalar_addresses
    (scalars,) = sums.tables.get("scalars", addresses, out.device, lambda: [host(addresses)])
    pointers = {
        "out": out,
        "scale": units.scale,
        "parts": sums.parts,
        "records": sums.records,
        "squares": units.squares,
        "tiles": units.tiles,
        "total": None,
        "grad_scale": None,
        "found_inf": None,
        "scalars": scalars,
        "lr_pointer": None,
        "table": None,
    }
    grid = (len(sums.sizes.numels), 1, 1)
    return Launch(variant, grid, pointers, [])


@cache
def _decision_variant(
    with_params: bool, adaptive: bool, maximize: bool, relative: bool, clock: torch.dtype, memory: torch.dtype
) -> Variant:
    return Variant(decide_kernel, (with_params, adaptive, maximize, relative, DTYPES[clock], DTYPES[memory]))


def _numbers(group: dict[str, Any], lr: Any, from_table: bool) -> list[Any]:
    """The numbers that `decide_kernel` takes, in its order.

    With `from_table` it reads the ones in which tensors may differ from its table, and each of them is 0 here.
    """
    if from_table:
        differing = [0.0] * 6
    else:
        tau = group["tau_scale"] if group["adaptive_tau"] else group["chaos_tau"]
        differing = [lr, group["weight_decay"], group["gamma"], group["p_ext"], group["max_cancel"], tau]
    shared = [
        group["eps"],
        t_warm(group),
        group["gamma_T_max"],
        group["quantum_decay"],
        group["agc_clip"],
        max_norm(group),
    ]
    return differing + shared
