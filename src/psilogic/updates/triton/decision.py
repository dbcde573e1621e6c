"""The decisions of a step by one kernel for each bucket, or two if units are rows: the host reads nothing.

On a GPU the launches of about thirty small operations of `gradients.process` and `decision.equations` would cost more
than the update. A step is three launches for each bucket, one more with global clipping, one more if units are rows.
"""

from typing import Any

import torch
from torch import Tensor

from psilogic.decision import Chaos, Decision, Step, t_warm
from psilogic.gradients import total_squares
from psilogic.tensors.device_tables import host
from psilogic.tensors.state import CLOCKS, memory_names
from psilogic.updates.triton.decision_kernels import FEW, FEW_ROWS, MANY_ROWS, decide_kernel, processing_kernel
from psilogic.updates.triton.update import OPTIONS, UnitSums, unit_lengths
from psilogic.updates.types import Work


def admits(work: Work) -> bool:
    """Whether a kernel can decide for tensors that Triton updates: each decision must depend on one tensor only."""
    bucket, group = work.bucket, work.bucket.group
    if work.owned is not bucket or bucket.ranks is not None or group["chaos_scope"] != "tensor":
        return False
    names = (*CLOCKS, *memory_names(group))
    return bucket.by_unit and all(work.states[0][name].device == bucket.device for name in names)


def decide(
    works: list[Work], max_norm: float | None, grad_scale: Tensor | None, found_inf: Tensor | None, observed: bool
) -> None:
    """Decide for every bucket, and change the states' scalars; arguments as for `psilogic.decision.decide`."""
    total = None if max_norm is None else total_squares(works)
    for work in works:
        work.scalars = work.bucket.cache.scalars.read(work.states, (*CLOCKS, *memory_names(work.bucket.group)))
        numbers = total, grad_scale, found_inf
        decide_bucket(work, *(None if x is None else x.to(work.bucket.device, non_blocking=True) for x in numbers))
        del work.scalars["chaos_start"]


def decide_bucket(work: Work, total: Tensor | None, grad_scale: Tensor | None, found_inf: Tensor | None) -> None:
    """Decide for the tensors of a bucket from the sums over their units, and update their scalars in place.

    `total` is the sum of |g|^2 over all unprocessed gradients, None without clipping; the numbers are on the device.
    """
    group, sums, scalars = work.bucket.group, work.sums, work.scalars
    lr, numbers = work.bucket.hyperparameters(wide=False)["lr"], work.bucket.numbers
    n, relative = len(scalars["step"]), group["chaos_signal"] == "relative"
    out = sums.parts.new_empty(11, n)
    gates = torch.empty(n, dtype=torch.int8, device=out.device)
    work.mean, scale, processed = _process_units(group, sums, total, grad_scale)
    work.scale = scale
    tau = group["tau_scale"] if group["adaptive_tau"] else group["chaos_tau"]
    lr_pointer, number = (lr, 0.0) if isinstance(lr, Tensor) else (None, lr)
    shared = [number, *(group[name] for name in ("weight_decay", "gamma", "p_ext", "max_cancel")), tau]
    shared = shared if numbers is None else [0.0] * len(shared)
    states = [scalars[name] for name in ("step", "chaos_start", "chaos_fast", "chaos_slow")]
    with torch.cuda.device_of(out):
        decide_kernel[(n,)](
            out, gates, scale, sums.parts, sums.records, *processed, total, grad_scale, found_inf,
            *states, scalars["chaos_ref"] if relative else None, lr_pointer, numbers, sums.parts.shape[1],
            sum(sums.units), *shared, group["eps"], t_warm(group), group["gamma_T_max"], group["quantum_decay"],
            group["agc_clip"], group["max_grad_norm"] or 0.0,
            WITH_PARAMS=group["agc_clip"] > 0, ADAPTIVE=group["adaptive_tau"], MAXIMIZE=group["maximize"], **OPTIONS,
        )  # fmt: skip
    torch.autograd.graph.increment_version([x for name, x in scalars.items() if name != "chaos_start"])
    t, decay, quantum_rate, gn, fast, slow, reference, ratio, chaos, warmup, cancellation = out
    memory = Chaos(fast, slow, reference if relative else None)
    rate = quantum_rate if group["quantum_decay"] > 0 else None
    work.decision = Decision(gn, memory, ratio, chaos, gates.view(torch.bool), warmup, cancellation, decay, rate)
    work.step = Step(t, decay, rate, lr, group["weight_decay"], group["eps"], *group["betas"])


def _process_units(
    group: dict[str, Any], sums: UnitSums, total: Tensor | None, grad_scale: Tensor | None
) -> tuple[Tensor | None, Tensor | None, tuple[Tensor | None, Tensor | None]]:
    """Mean and scale of the units, the squares after both by tiles of rows, and the tiles of each tensor.

    If every tensor is a single unit, `decide_kernel` fills the scale, and there are no tiles.
    """
    count, with_params = sum(sums.units), group["agc_clip"] > 0
    scaled = with_params or group["maximize"] or total is not None or grad_scale is not None
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
                squares, mean, scale, sums.parts, sums.records, tiles, tensors, total, grad_scale,
                sums.parts.shape[1], count, group["agc_clip"], group["max_grad_norm"] or 0.0, WITH_PARAMS=with_params,
                MAXIMIZE=group["maximize"], **OPTIONS,
            )  # fmt: skip
    return mean, scale, (squares, tiles)


def _tiles(numels: list[int], units: list[int]) -> list[Tensor]:
    """For each tensor its first tile in `processing_kernel` and the number of its tiles; the tensor of each tile."""
    counts = host(units)
    rows = torch.where(unit_lengths(host(numels), counts)[1] <= FEW.value, MANY_ROWS.value, FEW_ROWS.value)
    tiles = (counts + rows - 1) // rows
    first = tiles.cumsum(0) - tiles
    return [torch.stack([first, tiles], 1).flatten(), host(range(len(units))).repeat_interleave(tiles)]
