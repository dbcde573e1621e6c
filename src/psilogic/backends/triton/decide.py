"""The decisions of a step by one kernel for each bucket, or two if units are rows: the host reads nothing.

On a GPU the launches of about thirty small operations of `gradients.process` and `decision.equations` would cost more
than the update. A step is three launches for each bucket, one more with global clipping, one more if units are rows.
"""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from psilogic.backends.triton.decision_kernels import FEW, FEW_ROWS, MANY_ROWS, decide_kernel, processing_kernel
from psilogic.backends.triton.launch import DTYPES, Variant
from psilogic.backends.triton.sums import UnitSums
from psilogic.backends.triton.tables import unit_lengths
from psilogic.backends.triton.update import pointer_or_number
from psilogic.decision import step_of, t_warm
from psilogic.gradients import total_squares
from psilogic.step import BucketStep, Decision, DetectorState, StepInputs
from psilogic.tensors.buckets import Bucket
from psilogic.tensors.device_tables import host
from psilogic.tensors.memory import Sizes
from psilogic.tensors.scalars import CLOCKS, ScalarKind

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
    return None if number is None else number.to(device, non_blocking=True)


def decide_bucket(work: BucketStep, factors: Factors, found_inf: Tensor | None, observed: bool) -> None:
    """Decide for the tensors of a bucket from the sums over their units, and update their scalars in place."""
    group = work.bucket.group
    sums: UnitSums = work.sums
    count = len(sums.sizes.numels)
    units = _process_units(group, sums, factors)
    work.mean = units.mean
    work.scale = units.scale
    addresses = work.scalar_addresses
    (scalars,) = sums.tables.get("scalars", addresses, sums.parts.device, lambda: [host(addresses)])
    table = work.bucket.numbers
    lr = work.bucket.hyperparameters(wide=False)["lr"]
    lr_pointer, number = pointer_or_number(lr)
    out = sums.parts.new_empty(OUTPUTS, count)
    _decision_of(work.bucket, sums.with_params, work.scalar_kinds).launch(
        (count, 1, 1),
        [
            out,
            units.scale,
            sums.parts,
            sums.records,
            units.squares,
            units.tiles,
            factors.total,
            factors.grad_scale,
            found_inf,
            scalars,
            lr_pointer,
            table,
        ],
        [sums.parts.shape[1], sums.sizes.unit_count, *_numbers(group, number, is_table=table is not None)],
    )
    _set_step(work, out, lr)
    if observed:
        work.decision = _decision(group, out)


def _decision_of(bucket: Bucket, with_params: bool, scalar_kinds: list[ScalarKind | None]) -> Variant:
    """The kernel of a decision with the switches of a bucket, and the dtypes of scalars that `admits` accepts."""
    group = bucket.group
    clock = scalar_kinds[0]
    memory = scalar_kinds[len(CLOCKS)]
    assert clock is not None
    assert memory is not None
    is_relative = group["chaos_signal"] == "relative"
    return _variant(with_params, group["adaptive_tau"], group["maximize"], is_relative, clock.dtype, memory.dtype)


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


def _set_step(work: BucketStep, out: Tensor, lr: Any) -> None:
    """Set the step that follows from the kernel's output."""
    group = work.bucket.group
    quantum_rate = out[2] if group["quantum_decay"] > 0 else None
    work.step = step_of(group, out[0], out[1], quantum_rate)._replace(lr=lr)


def _decision(group: dict[str, Any], out: Tensor) -> Decision:
    """The decision from the kernel's output."""
    _, decay, quantum_rate, gn, fast, slow, reference, ratio, chaos, gate, warmup, cancellation = out
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


def _process_units(group: dict[str, Any], sums: UnitSums, factors: Factors) -> Units:
    """Process the units of a bucket, by a kernel if units are rows or gradients are centralized."""
    sizes = sums.sizes
    has_factor = factors.total is not None or factors.grad_scale is not None
    scale = None
    if sums.with_params or group["maximize"] or has_factor:
        scale = sums.parts.new_empty(sizes.unit_count)
    if not sums.with_sums and not sizes.have_units:
        return Units(mean=None, scale=scale)  # `decide_kernel` fills the scale
    mean = sums.parts.new_empty(sizes.unit_count) if sums.with_sums else None
    tiles, tensor_of_tile = sums.tables.get("tiles", sizes, sums.parts.device, lambda: _tiles(sizes))
    programs = len(tensor_of_tile)
    squares = sums.parts.new_empty(programs)
    _processing_of(sums.with_params, group["maximize"]).launch(
        (programs, 1, 1),
        [
            squares,
            mean,
            scale,
            sums.parts,
            sums.records,
            tiles,
            tensor_of_tile,
            factors.total,
            factors.grad_scale,
        ],
        [sums.parts.shape[1], sizes.unit_count, group["agc_clip"], _max_norm(group)],
    )
    return Units(mean, scale, squares, tiles)


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
