"""The decisions of a step by one kernel for each bucket, or two if units are rows: the host reads nothing.

On a GPU the launches of about thirty small operations of `gradients.process` and `decision.equations` would cost more
than the update. A step is three launches for each bucket, one more with global clipping, one more if units are rows.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from psilogic.backends.triton.decision_kernels import FEW, FEW_ROWS, MANY_ROWS, decide_kernel, processing_kernel
from psilogic.backends.triton.launch import OPTIONS
from psilogic.backends.triton.sums import UnitSums
from psilogic.backends.triton.tables import unit_lengths
from psilogic.backends.triton.update import DTYPES, pointer_or_number
from psilogic.decision import step_of, t_warm
from psilogic.gradients import total_squares
from psilogic.options import NUMBERS
from psilogic.step import BucketStep, Decision, DetectorState, StepInputs
from psilogic.tensors.device_tables import host
from psilogic.tensors.scalars import CLOCKS, ScalarKind

OUTPUTS = 11
"""Rows that the kernel writes, one for each name that `_set_decision` unpacks."""


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
        decide_bucket(work, factors, _on_device(inputs.found_inf, device))


def _on_device(number: Tensor | None, device: torch.device) -> Tensor | None:
    return None if number is None else number.to(device, non_blocking=True)


def decide_bucket(work: BucketStep, factors: Factors, found_inf: Tensor | None) -> None:
    """Decide for the tensors of a bucket from the sums over their units, and update their scalars in place."""
    group = work.bucket.group
    sums: UnitSums = work.sums
    count = len(work.owned.params)
    units = _process_units(group, sums, factors)
    work.mean = units.mean
    work.scale = units.scale
    lr = work.bucket.hyperparameters(wide=False)["lr"]
    pointers = work.scalar_addresses
    (scalars,) = sums.tables.get("scalars", pointers, sums.parts.device, lambda: [host(pointers)])
    numbers_of_each = _numbers(work, lr)
    shared_numbers = _shared_numbers(group)
    out = sums.parts.new_empty(OUTPUTS, count)
    gates = torch.empty(count, dtype=torch.int8, device=out.device)
    with torch.cuda.device_of(out):
        decide_kernel[(count,)](
            out,
            gates,
            units.scale,
            sums.parts,
            sums.records,
            units.squares,
            units.tiles,
            factors.total,
            factors.grad_scale,
            found_inf,
            scalars,
            width=sums.parts.shape[1],
            count=sum(sums.units),
            **numbers_of_each,
            **shared_numbers,
            WITH_PARAMS=sums.with_params,
            CLOCK=_triton_dtype(work.scalar_kinds[0]),
            MEMORY=_triton_dtype(work.scalar_kinds[len(CLOCKS)]),
            **OPTIONS,
        )
    _set_decision(work, out, gates, lr)


def _triton_dtype(kind: ScalarKind | None) -> Any:
    """The kernel's dtype of scalars that `admits` accepts."""
    assert kind is not None
    return DTYPES[kind.dtype]


def _shared_numbers(group: dict[str, Any]) -> dict[str, Any]:
    """The numbers and switches of the kernel that are the same for all tensors of a bucket."""
    return {
        "eps": group["eps"],
        "t_warm": t_warm(group),
        "T_max": group["gamma_T_max"],
        "quantum_decay": group["quantum_decay"],
        "agc_clip": group["agc_clip"],
        "max_norm": _max_norm(group),
        "ADAPTIVE": group["adaptive_tau"],
        "MAXIMIZE": group["maximize"],
        "RELATIVE": group["chaos_signal"] == "relative",
    }


def _max_norm(group: dict[str, Any]) -> float:
    """The largest norm of all gradients; 0 without clipping, and for a norm of 0."""
    max_norm: float = group["max_grad_norm"] or 0.0
    return max_norm


def _numbers(work: BucketStep, lr: Any) -> dict[str, Any]:
    """The kernel's hyperparameters that may differ: one number for all tensors, or a table with those of each."""
    group = work.bucket.group
    table = work.bucket.numbers
    lr_pointer, number = pointer_or_number(lr)
    numbers = {name: group[name] for name in NUMBERS if name not in ("tau_scale", "chaos_tau")}
    numbers["lr"] = number
    if group["adaptive_tau"]:
        numbers["tau"] = group["tau_scale"]
    else:
        numbers["tau"] = group["chaos_tau"]
    if table is not None:  # the kernel reads the table instead
        numbers = dict.fromkeys(numbers, 0.0)
    return {"lr_pointer": lr_pointer, "numbers": table, **numbers}


def _set_decision(work: BucketStep, out: Tensor, gates: Tensor, lr: Any) -> None:
    """Set the decision from the kernel's output, and the step that follows from it."""
    group = work.bucket.group
    t, decay, quantum_rate, gn, fast, slow, reference, ratio, chaos, warmup, cancellation = out
    if group["quantum_decay"] == 0:
        quantum_rate = None
    if group["chaos_signal"] != "relative":
        reference = None
    work.decision = Decision(
        gn=gn,
        memory=DetectorState(fast, slow, reference),
        ratio=ratio,
        chaos=chaos,
        gate=gates.view(torch.bool),
        warmup=warmup,
        cancellation=cancellation,
        decay=decay,
        quantum_rate=quantum_rate,
    )
    work.step = step_of(group, t, decay, quantum_rate)._replace(lr=lr)


def _process_units(group: dict[str, Any], sums: UnitSums, factors: Factors) -> Units:
    """Process the units of a bucket, by a kernel if units are rows or gradients are centralized."""
    count = sum(sums.units)
    has_factor = factors.total is not None or factors.grad_scale is not None
    scale = None
    if sums.with_params or group["maximize"] or has_factor:
        scale = sums.parts.new_empty(count)
    if not sums.with_sums and all(n == 1 for n in sums.units):
        return Units(mean=None, scale=scale)  # `decide_kernel` fills the scale
    mean = sums.parts.new_empty(count) if sums.with_sums else None
    key = [*sums.numels, *sums.units]

    def build() -> list[Tensor]:
        return _tiles(sums.numels, sums.units)

    tiles, tensor_of_tile = sums.tables.get("tiles", key, sums.parts.device, build)
    programs = len(tensor_of_tile)
    squares = sums.parts.new_empty(programs)
    if programs:
        with torch.cuda.device_of(squares):
            processing_kernel[(programs,)](
                squares,
                mean,
                scale,
                sums.parts,
                sums.records,
                tiles,
                tensor_of_tile,
                factors.total,
                factors.grad_scale,
                width=sums.parts.shape[1],
                count=count,
                agc_clip=group["agc_clip"],
                max_norm=_max_norm(group),
                WITH_PARAMS=sums.with_params,
                MAXIMIZE=group["maximize"],
                **OPTIONS,
            )
    return Units(mean, scale, squares, tiles)


def _tiles(numels: list[int], units: list[int]) -> list[Tensor]:
    """Two tables: the first tile and the number of tiles of each tensor, and the tensor of each tile."""
    counts = host(units)
    _, segments = unit_lengths(host(numels), counts)
    rows = torch.where(segments <= FEW.value, MANY_ROWS.value, FEW_ROWS.value)
    tile_counts = (counts + rows - 1) // rows
    first = tile_counts.cumsum(0) - tile_counts
    tensor_of_tile = host(range(len(units))).repeat_interleave(tile_counts)
    return [torch.stack([first, tile_counts], 1).flatten(), tensor_of_tile]
