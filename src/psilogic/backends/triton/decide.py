"""The decisions of a step by one kernel for each bucket, or two if units are rows: the host reads nothing.

On a GPU the launches of about thirty small operations of `gradients.process` and `decision.equations` would cost more
than the update. A step is three launches for each bucket, one more with global clipping, one more if units are rows.
"""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from psilogic.backends.triton.decision_kernels import FEW, FEW_ROWS, MANY_ROWS, decide_kernel, processing_kernel
from psilogic.backends.triton.launch import DTYPES, Launch, Variant
from psilogic.backends.triton.sums import UnitSums
from psilogic.backends.triton.tables import unit_lengths
from psilogic.backends.triton.update import pointer_or_number
from psilogic.decision import step_of, t_warm
from psilogic.gradients import total_squares
from psilogic.step import BucketStep, Decision, DetectorState, StepInputs
from psilogic.tensors.device_tables import host
from psilogic.tensors.memory import Sizes
from psilogic.tensors.scalars import CLOCKS

OUTPUTS = 12
"""Rows that the kernel writes, one for each name that `_decision` unpacks."""


class Factors(NamedTuple):
    """What the factor of all gradients is made of, on the device of a bucket."""

    total: Tensor | None  # the sum of |g|^2 over all unprocessed gradients; None without clipping
    grad_scale: Tensor | None  # the factor of the loss; None for 1


class Units(NamedTuple):
    """The processing of the units of a bucket.

    A unit is a row or a whole tensor. A tile is a group of rows that one program processes. There are no tiles if every
    tensor is a single unit.
    """

    mean: Tensor | None  # shape (U,); None for 0
    scale: Tensor | None  # shape (U,); None for 1; filled by `decide_kernel` if every tensor is a single unit
    squares: Tensor | None = None  # ||g||^2 of each tile after centralizing and scaling; None without tiles
    tiles: Tensor | None = None  # for each tensor the index of its first tile and its number of tiles


def admits(work: BucketStep) -> bool:
    """Whether the kernel can decide for a bucket that Triton updates.

    It can if all tensors of the bucket are updated here, and each decision needs only its own tensor.
    """
    bucket = work.bucket
    is_split = work.owned is not bucket or bucket.ranks is not None
    if is_split or bucket.group["chaos_scope"] != "tensor":
        return False
    if not bucket.by_unit:  # AGC of whole tensors after centralization needs the centralized elements
        return False
    kinds = set(work.scalar_kinds[: len(CLOCKS)]), set(work.scalar_kinds[len(CLOCKS) :])
    for kinds_of_some in kinds:  # the kernel takes one dtype of clocks, and one of the memory
        if len(kinds_of_some) != 1:
            return False
        kind = kinds_of_some.pop()
        if kind is None or kind.device != bucket.device:
            return False
    return True


def decide(works: list[BucketStep], inputs: StepInputs) -> None:
    """Decide for every bucket, and change the states' scalars."""
    total = None if inputs.max_grad_norm is None else total_squares(works)
    for work in works:
        device = work.bucket.device
        factors = Factors(_on_device(total, device), _on_device(inputs.grad_scale, device))
        decide_bucket(work, factors, _on_device(inputs.found_inf, device), inputs.observed)


def _on_device(number: Tensor | None, device: torch.device) -> Tensor | None:
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
        self.units, self._processing = _processing_of_units(work, factors)
        self._out = sums.parts.new_empty(OUTPUTS, len(sums.sizes.numels))
        self._launch = _decision_launch(work, self.units, self._out)
        self.read_numbers(work)

    def read_numbers(self, work: BucketStep) -> None:
        """Take the numbers of the groups, which differ from those before."""
        sums: UnitSums = work.sums
        group = work.bucket.group
        self.reading = work.bucket.reading
        table = work.bucket.numbers
        lr = work.bucket.hyperparameters(wide=False)["lr"]
        lr_pointer, number = pointer_or_number(lr)
        numbers = _numbers(group, number, is_table=table is not None)
        self._launch.take([sums.parts.shape[1], sums.sizes.unit_count, *numbers])
        self._launch.point(lr_pointer=lr_pointer, table=table)
        quantum_rate = self._out[2] if group["quantum_decay"] > 0 else None
        self.step = step_of({**group, "lr": lr}, self._out[0], self._out[1], quantum_rate)

    def launch(self, factors: Factors, found_inf: Tensor | None) -> None:
        """Decide."""
        if self._processing is not None:
            self._processing.point(total=factors.total, grad_scale=factors.grad_scale)
            self._processing()
        self._launch.point(total=factors.total, grad_scale=factors.grad_scale, found_inf=found_inf)
        self._launch()

    def decision(self, group: dict[str, Any]) -> Decision:
        """What was decided."""
        _, decay, quantum_rate, gn, fast, slow, reference, ratio, chaos, gate, warmup, cancellation = self._out
        return Decision(
            gn=gn,
            memory=DetectorState(fast, slow, reference if group["chaos_signal"] == "relative" else None),
            ratio=ratio,
            chaos=chaos,
            gate=gate > 0,
            warmup=warmup,
            cancellation=cancellation,
            decay=decay,
            quantum_rate=quantum_rate if group["quantum_decay"] > 0 else None,
        )


def decide_bucket(work: BucketStep, factors: Factors, found_inf: Tensor | None, observed: bool) -> None:
    """Decide for the tensors of a bucket from the sums over their units, and update their scalars in place."""
    if observed:  # who observes may keep the results, which are not overwritten then
        work.kept.pop("decision", None)
    deciding = work.once("decision", lambda: Deciding(work, factors))
    if deciding.reading != work.bucket.reading:
        deciding.read_numbers(work)
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
    is_relative = group["chaos_signal"] == "relative"
    switches = (sums.with_params, group["adaptive_tau"], group["maximize"], is_relative)
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
    return Launch(_variant(*switches, clock.dtype, memory.dtype), grid, pointers, [])


@cache
def _variant(
    with_params: bool, adaptive: bool, maximize: bool, relative: bool, clock: torch.dtype, memory: torch.dtype
) -> Variant:
    return Variant(decide_kernel, (with_params, adaptive, maximize, relative, DTYPES[clock], DTYPES[memory]))


def _numbers(group: dict[str, Any], lr: Any, is_table: bool) -> list[Any]:
    """The numbers of the kernel in its order; 0 for those that it reads from a table with those of each tensor."""
    if is_table:
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
        _max_norm(group),
    ]
    return differing + shared


def _max_norm(group: dict[str, Any]) -> float:
    """The largest norm of all gradients; 0 without clipping, and for a norm of 0."""
    max_norm: float = group["max_grad_norm"] or 0.0
    return max_norm


def _processing_of_units(work: BucketStep, factors: Factors) -> tuple[Units, Launch | None]:
    """The units of a bucket, and the launch that processes them if units are rows or gradients are centralized."""
    group = work.bucket.group
    sums: UnitSums = work.sums
    sizes = sums.sizes
    has_factor = factors.total is not None or factors.grad_scale is not None
    scale = None
    if sums.with_params or group["maximize"] or has_factor:
        scale = sums.parts.new_empty(sizes.unit_count)
    if not sums.with_sums and not sizes.have_units:
        return Units(mean=None, scale=scale), None  # `decide_kernel` fills the scale
    mean = sums.parts.new_empty(sizes.unit_count) if sums.with_sums else None
    tiles, tensor_of_tile = sums.tables.get("tiles", sizes, sums.parts.device, lambda: _tiles(sizes))
    programs = len(tensor_of_tile)
    squares = sums.parts.new_empty(programs)
    pointers = {
        "squares": squares,
        "mean": mean,
        "scale": scale,
        "parts": sums.parts,
        "records": sums.records,
        "tiles": tiles,
        "tensor_of_tile": tensor_of_tile,
        "total": None,
        "grad_scale": None,
    }
    numbers = [sums.parts.shape[1], sizes.unit_count, group["agc_clip"], _max_norm(group)]
    variant = _processing_of(sums.with_params, group["maximize"])
    return Units(mean, scale, squares, tiles), Launch(variant, (programs, 1, 1), pointers, numbers)


@cache
def _processing_of(with_params: bool, maximize: bool) -> Variant:
    return Variant(processing_kernel, (with_params, maximize))


def _tiles(sizes: Sizes) -> list[Tensor]:
    """Two tables: the first tile and the number of tiles of each tensor, and the tensor of each tile."""
    counts = host(sizes.units)
    _, segments = unit_lengths(host(sizes.numels), counts)
    rows = torch.where(segments <= FEW.value, MANY_ROWS.value, FEW_ROWS.value)
    tile_counts = (counts + rows - 1) // rows
    first = tile_counts.cumsum(0) - tile_counts
    tensor_of_tile = host(range(len(counts))).repeat_interleave(tile_counts)
    return [torch.stack([first, tile_counts], 1).flatten(), tensor_of_tile]
