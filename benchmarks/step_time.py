"""What one `optimizer.step()` costs: PsiLogic against torch's AdamW and others, in one run.

    python benchmarks/step_time.py [--device cpu] [--sets "ViT-Tiny" ...] [--rounds 31] [--csv FILE]

In each round every contender steps the same tensors once, in an order drawn anew, so that a disturbance of the machine
meets all of them. A ratio is the median over the rounds of (contender / its baseline in that round). The bytes are
those that the arithmetic needs per element in float32: AdamW reads p, g, m, v and writes p, m, v (28); a norm reads g
once more (+4), clipping before the step reads and writes it (+12 with its norm), AGC reads p once more (+4).
"""

import argparse
import csv
import importlib
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from tensor_sets import TENSOR_SETS, tensors_with_gradients
from torch import Tensor
from torch.optim import AdamW

from psilogic import PsiLogic, host_norms
from psilogic.presets import PsiLogicNLP, PsiLogicViT

LR = 1e-7  # small: parameters stay what they are, however many rounds there are
WARM_UP = 3  # rounds
COPIED = 1 << 26  # elements copied to measure the bandwidth
FUSED, CLIPPED, COPY = "AdamW(fused=True)", "clip_grad_norm_ + AdamW(fused=True)", "copy"
PEERS = {"pytorch_optimizer": ("Lion", "AdaBelief", "StableAdamW"), "lion_pytorch": ("Lion",)}


@dataclass
class Contender:
    """One thing that is timed.

    Attributes:
        name: as the table shows it.
        run: takes one step.
        bytes: per element, 0 where nobody counted.
        baseline: the contender that it is compared with; "" for none.
        target: the ratio that it should not exceed; None for none.
        optimizer: whose `executed` is shown; None for anything else.
    """

    name: str
    run: Callable[[], Any]
    bytes: int
    baseline: str = FUSED
    target: float | None = None
    optimizer: PsiLogic | None = None

    @property
    def executed(self) -> str:
        return "+".join(sorted(self.optimizer.executed)) if self.optimizer else ""


def contenders(params: list[Tensor]) -> list[Contender]:
    """Everything that steps these tensors; each optimizer has its own state."""
    fused, foreach = AdamW(params, LR, fused=True), AdamW(params, LR, foreach=True)
    # A factor of 1 costs as much as any other, and leaves the gradients as they are.
    clip = partial(torch.nn.utils.clip_grad_norm_, params, 1e30)
    return [
        Contender(FUSED, fused.step, 28, baseline=""),
        Contender("AdamW(foreach=True)", foreach.step, 28),
        Contender(CLIPPED, lambda: (clip(), fused.step()), 40),
        _psilogic("PsiLogic", PsiLogic(params, LR), 32, {"cpu": 1.15, "cuda": 1.15}),
        _psilogic("PsiLogic, 5% of the tensors fire", _spiking(params), 32, {"cpu": 1.25, "cuda": 1.25}),
        _psilogic("PsiLogicViT (GC + AGC)", PsiLogicViT(params, LR), 36, {"cpu": 2.0, "cuda": 1.35}),
        _psilogic("PsiLogicNLP (GC + AGC + quantum decay)", PsiLogicNLP(params, LR), 36, {"cpu": 2.0, "cuda": 1.35}),
        _psilogic(
            "PsiLogic(max_grad_norm=1)",
            PsiLogic(params, LR, max_grad_norm=1.0),
            32,
            {"cpu": 0.80, "cuda": 0.85},
            baseline=CLIPPED,
        ),
        *_parts(params),
        *_peers(params),
    ]


def _psilogic(
    name: str, optimizer: PsiLogic, bytes_: int, targets: dict[str, float], baseline: str = FUSED
) -> Contender:
    target = targets[optimizer.param_groups[0]["params"][0].device.type]
    return Contender(name, optimizer.step, bytes_, baseline, target, optimizer)


def _spiking(params: list[Tensor]) -> PsiLogic:
    """A PsiLogic in which every 20th tensor fires in every step, from the second on."""
    optimizer = PsiLogic(params, LR, adaptive_tau=False, chaos_tau=1e3, chaos_warmup=0)
    optimizer.step()
    for p in params[::20]:
        optimizer.state[p]["chaos_slow"].fill_(1e9)
    return optimizer


def _parts(params: list[Tensor]) -> list[Contender]:
    """What a step on a CPU cannot do without: torch's kernel alone, and a pass for the norms before it."""
    if params[0].device.type != "cpu":
        return []
    grads = [p.grad for p in params]
    moments = [[torch.zeros_like(p) for p in params] for _ in range(2)]
    steps = [torch.tensor(9.0)] * len(params)

    @torch.no_grad()
    def kernel() -> None:
        torch._fused_adamw_(
            params, grads, *moments, [], steps, lr=LR, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8,
            amsgrad=False, maximize=False,
        )  # fmt: skip

    def norms_and_kernel() -> None:
        host_norms.squares(grads)
        kernel()

    return [
        Contender("(torch's fused kernel alone)", kernel, 28),
        Contender("(norms, then torch's fused kernel)", norms_and_kernel, 32),
    ]


def _peers(params: list[Tensor]) -> list[Contender]:
    """Other optimizers, where they are installed; nobody counted their bytes."""
    found = []
    for module, names in PEERS.items():
        if find_spec(module):
            classes = [getattr(importlib.import_module(module), name) for name in names]
            found += [Contender(f"{module}.{cls.__name__}", cls(params, lr=LR).step, 0) for cls in classes]
    return found


def synchronize(device: str) -> None:
    """Wait until the device has done what it was told."""
    if device == "cuda":
        torch.cuda.synchronize()


def seconds(run: Callable[[], Any], device: str) -> float:
    """How long a call takes."""
    synchronize(device)
    began = time.perf_counter()
    run()
    synchronize(device)
    return time.perf_counter() - began


def measure(name: str, device: str, rounds: int) -> list[dict[str, Any]]:
    """The table's rows for one set of tensors."""
    params = tensors_with_gradients(name, device)
    numel = sum(p.numel() for p in params)
    source, target = (torch.ones(COPIED, device=device) for _ in range(2))
    runs = contenders(params)
    timed: dict[str, Callable[[], Any]] = {c.name: c.run for c in runs} | {COPY: lambda: target.copy_(source)}
    times: dict[str, list[float]] = {key: [] for key in timed}
    order = list(timed)
    for round_ in range(WARM_UP + rounds):
        random.Random(round_).shuffle(order)
        for key in order:
            took = seconds(timed[key], device)
            if round_ >= WARM_UP:
                times[key].append(took)
    bandwidth = 2 * source.nbytes / statistics.median(times[COPY])
    rows = []
    for c in runs:
        median = statistics.median(times[c.name])
        ratios = [t / b for t, b in zip(times[c.name], times[c.baseline or c.name], strict=True)]
        rate = c.bytes * numel / median
        rows.append(
            {
                "device": device,
                "set": name,
                "tensors": len(params),
                "elements": numel,
                "contender": c.name,
                "executed": c.executed,
                "milliseconds": round(1e3 * median, 3),
                "baseline": c.baseline,
                "ratio": round(statistics.median(ratios), 3),
                "target": c.target or "",
                "bytes_per_element": c.bytes or "",
                "gb_per_s": round(rate / 1e9, 1) if c.bytes else "",
                "copy_gb_per_s": round(bandwidth / 1e9, 1),
            }
        )
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """Print the rows of one set."""
    first = rows[0]
    print(f"\n{first['set']}: {first['tensors']} tensors, {first['elements'] / 1e6:.1f}M elements; a copy moves "
          f"{first['copy_gb_per_s']} GB/s")  # fmt: skip
    print(f"  {'':40} {'ms':>9} {'ratio':>7} {'target':>7} {'GB/s':>7}  executed")
    for row in rows:
        mark = "" if not row["target"] else "met" if row["ratio"] <= row["target"] else "missed"
        print(f"  {row['contender']:40} {row['milliseconds']:9.3f} {row['ratio']:7.3f} {row['target']:>7} "
              f"{row['gb_per_s']:>7}  {row['executed']} {mark}", flush=True)  # fmt: skip


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options.add_argument("--sets", nargs="+", choices=TENSOR_SETS, default=list(TENSOR_SETS), metavar="SET")
    options.add_argument("--rounds", type=int, default=31)
    options.add_argument("--csv", type=Path)
    chosen = options.parse_args()
    device = torch.cuda.get_device_name() if chosen.device == "cuda" else f"{torch.get_num_threads()} threads"
    print(f"torch {torch.__version__}, {device}, {chosen.rounds} rounds")
    rows = []
    for name in chosen.sets:
        found = measure(name, chosen.device, chosen.rounds)
        show(found)
        rows += found
    if chosen.csv:
        with chosen.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
