"""The decision for all tensors of a bucket in one launch, or two if units are rows.

On a GPU the launches of about thirty small operations of `to_processing` and `decide` would cost more than the update.
Needs the package triton (see `psilogic.updates.triton`).
"""

from typing import Any

import torch
from torch import Tensor

from psilogic import equations as eq
from psilogic.decision import Chaos, Decision
from psilogic.equations import Scalar
from psilogic.gradients import Rescaling
from psilogic.tensors.device_tables import host
from psilogic.updates.triton.decision_kernels import FEW, FEW_ROWS, MANY_ROWS, decide_kernel, processing_kernel
from psilogic.updates.triton.update import OPTIONS, UnitSums, part_counts


def decide(
    group: dict[str, Any],
    lr: Scalar,
    numbers: Tensor | None,
    sums: UnitSums,
    scalars: dict[str, Tensor],
    rescaling: Rescaling,
    found_inf: Tensor | None,
) -> tuple[Tensor, Tensor | None, Tensor | None, Decision]:
    """Decide for N tensors from the sums over their units, and update their steps and detectors' memory.

    Args:
        group: the hyperparameters; the scope of the detector is the tensor, and AGC treats units.
        lr: the learning rate, a number or a tensor on the device; ignored with `numbers`.
        numbers: `psilogic.tensors.buckets.NUMBERS` of each tensor, on the device; None if all are the group's.
        sums: the sums over the units of the unprocessed gradients.
        scalars: the states' scalars, on the device, each of shape (N,); changed in place.
        rescaling: the common factor of all gradients, on the device.
        found_inf: above 0 after an overflow, and the scalars then stay; one element on the device, or None.

    Returns:
        The tensors' steps, from 1, shape (N,); the mean and the scale of each unit, None for 0 and 1; the decision.
    """
    n, relative = len(scalars["step"]), group["chaos_signal"] == "relative"
    out = sums.parts.new_empty(11, n)
    gates = torch.empty(n, dtype=torch.int8, device=out.device)
    mean, scale, processed = _process_units(group, sums, rescaling)
    t_warm = eq.warmup_horizon(group["chaos_warmup"], group["total_steps"], group["gamma_T_max"])
    tau = group["tau_scale"] if group["adaptive_tau"] else group["chaos_tau"]
    lr_pointer, number = (lr, 0.0) if isinstance(lr, Tensor) else (None, lr)
    shared = [number, *(group[name] for name in ("weight_decay", "gamma", "p_ext", "max_cancel")), tau]
    shared = shared if numbers is None else [0.0] * len(shared)
    states = [scalars[name] for name in ("step", "chaos_start", "chaos_fast", "chaos_slow")]
    with torch.cuda.device_of(out):
        decide_kernel[(n,)](
            out, gates, scale, sums.parts, sums.records, *processed, rescaling.total, rescaling.grad_scale, found_inf,
            *states, scalars["chaos_ref"] if relative else None, lr_pointer, numbers, sums.parts.shape[1],
            sum(sums.units), *shared, group["eps"], t_warm, group["gamma_T_max"], group["quantum_decay"],
            group["agc_clip"], rescaling.max_norm or 0.0,
            WITH_PARAMS=group["agc_clip"] > 0, ADAPTIVE=group["adaptive_tau"], MAXIMIZE=group["maximize"], **OPTIONS,
        )  # fmt: skip
    torch.autograd.graph.increment_version([x for name, x in scalars.items() if name != "chaos_start"])
    t, decay, quantum_rate, gn, fast, slow, reference, ratio, chaos, warmup, cancellation = out
    memory = Chaos(fast, slow, reference if relative else None)
    rate = quantum_rate if group["quantum_decay"] > 0 else None
    decision = Decision(gn, memory, ratio, chaos, gates.view(torch.bool), warmup, cancellation, decay, rate)
    return t, mean, scale, decision


def _process_units(
    group: dict[str, Any], sums: UnitSums, rescaling: Rescaling
) -> tuple[Tensor | None, Tensor | None, tuple[Tensor | None, Tensor | None]]:
    """Mean and scale of the units, the squares after both by tiles of rows, and the tiles of each tensor.

    If every tensor is a single unit, `decide_kernel` fills the scale, and there are no tiles.
    """
    count, with_params = sum(sums.units), group["agc_clip"] > 0
    scaled = with_params or group["maximize"] or rescaling.total is not None or rescaling.grad_scale is not None
    scale = sums.parts.new_empty(count) if scaled else None
    if not group["grad_centralize"] and all(n == 1 for n in sums.units):
        return None, scale, (None, None)
    mean = sums.parts.new_empty(count) if group["grad_centralize"] else None
    numels, units = sums.numels, sums.units
    tiles, tensors = sums.tables.get("tiles", [*numels, *units], sums.parts.device, lambda: _tiles(numels, units))
    squares = sums.parts.new_empty(len(tensors))
    if len(tensors):
        with torch.cuda.device_of(squares):
            processing_kernel[(len(tensors),)](
                squares, mean, scale, sums.parts, sums.records, tiles, tensors, rescaling.total, rescaling.grad_scale,
                sums.parts.shape[1], count, group["agc_clip"], rescaling.max_norm or 0.0, WITH_PARAMS=with_params,
                MAXIMIZE=group["maximize"], **OPTIONS,
            )  # fmt: skip
    return mean, scale, (squares, tiles)


def _tiles(numels: list[int], units: list[int]) -> list[Tensor]:
    """For each tensor its first tile in `processing_kernel` and the number of its tiles; the tensor of each tile."""
    counts = host(units)
    rows = torch.where(part_counts(host(numels), counts) <= FEW.value, MANY_ROWS.value, FEW_ROWS.value)
    tiles = (counts + rows - 1) // rows
    first = tiles.cumsum(0) - tiles
    return [torch.stack([first, tiles], 1).flatten(), host(range(len(units))).repeat_interleave(tiles)]
