"""The processing of units by one kernel: rows of tensors, or whole ones, are unscaled, clipped and centralized."""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from psilogic.backends.triton.decision_kernels import FEW, FEW_ROWS, MANY_ROWS, processing_kernel
from psilogic.backends.triton.launch import Launch, Variant
from psilogic.backends.triton.sums import UnitSums
from psilogic.backends.triton.tables import unit_lengths
from psilogic.step import BucketStep
from psilogic.tensors.device_tables import host
from psilogic.tensors.memory import Sizes


class Factors(NamedTuple):
    """What the factor of all gradients is made of, on the device of a bucket."""

    total: Tensor | None  # the sum of |g|^2 over all unprocessed gradients; None without clipping
    grad_scale: Tensor | None  # the factor of the loss; None for 1


class Units(NamedTuple):
    """The processing of the units of a bucket.

    A unit is a row or a whole tensor. A tile is a group of units of one tensor that one program of `processing_kernel`
    processes. There are no tiles if every tensor is a single unit and gradients are not centralized: `decide_kernel`
    then processes the units too.
    """

    mean: Tensor | None  # shape (U,); None for 0
    scale: Tensor | None  # shape (U,); None for 1; filled by `decide_kernel` if there are no tiles
    squares: Tensor | None = None  # ||g||^2 of each tile after centralizing and scaling; None without tiles
    tiles: Tensor | None = None  # for each tensor the index of its first tile and its number of tiles


def processing_of_units(work: BucketStep, factors: Factors) -> tuple[Units, Launch | None]:
    """The units of a bucket, and the launch that processes them if units are rows or gradients are centralized."""
    group = work.bucket.group
    sums: UnitSums = work.sums
    sizes = sums.sizes
    is_clipped_by_unit = sums.with_params  # by AGC, which compares with the norms of the parameters
    is_centralized = sums.with_sums
    units_are_rows = sizes.have_units
    has_factor = factors.total is not None or factors.grad_scale is not None
    scale = None
    if is_clipped_by_unit or has_factor or group["maximize"]:
        scale = sums.parts.new_empty(sizes.unit_count)
    if not units_are_rows and not is_centralized:
        return Units(mean=None, scale=scale), None  # `decide_kernel` fills the scale
    mean = sums.parts.new_empty(sizes.unit_count) if is_centralized else None
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
    numbers = [sums.parts.shape[1], sizes.unit_count, group["agc_clip"], max_norm(group)]
    variant = _processing_variant(sums.with_params, group["maximize"])
    return Units(mean, scale, squares, tiles), Launch(variant, (programs, 1, 1), pointers, numbers)


@cache
def _processing_variant(with_params: bool, maximize: bool) -> Variant:
    return Variant(processing_kernel, (with_params, maximize))


def max_norm(group: dict[str, Any]) -> float:
    """The norm to which all gradients together are clipped; 0 without clipping, where the kernels do not use it."""
    largest: float = group["max_grad_norm"] or 0.0
    return largest


def _tiles(sizes: Sizes) -> list[Tensor]:
    """Two tables: the first tile and the number of tiles of each tensor, and the tensor of each tile."""
    counts = host(sizes.units)
    _, segments = unit_lengths(host(sizes.numels), counts)
    rows = torch.where(segments <= FEW.value, MANY_ROWS.value, FEW_ROWS.value)
    tile_counts = (counts + rows - 1) // rows
    first = tile_counts.cumsum(0) - tile_counts
    tensor_of_tile = host(range(len(counts))).repeat_interleave(tile_counts)
    return [torch.stack([first, tile_counts], 1).flatten(), tensor_of_tile]
