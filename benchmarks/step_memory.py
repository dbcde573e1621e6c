"""An optimizer's state, and the additional memory of one `optimizer.step()`, in multiples of the parameters' bytes.

    python benchmarks/step_memory.py [--device cpu] [--sets "ViT-Tiny" ...] [--csv FILE]

The state is `optimizer.state` after two steps, and its part beyond AdamW's, in bytes per tensor. The peak is the most
that the third step has allocated at one time, by torch's profiler on a CPU and by the allocator on CUDA.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from csv_files import csv_parser, write_csv
from tensor_sets import TENSOR_SETS, tensors_with_gradients
from torch.optim import AdamW, Optimizer
from torch.profiler import ProfilerActivity, profile

from psilogic import PsiLogic, PsiLogicNLP, PsiLogicViT

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "AdamW(fused=True)": partial(AdamW, fused=True),
    "AdamW(foreach=True)": partial(AdamW, foreach=True),
    "PsiLogic": partial(PsiLogic, fused=True),
    "PsiLogic(max_grad_norm=1)": partial(PsiLogic, fused=True, max_grad_norm=1.0),
    "PsiLogicViT (GC + AGC)": partial(PsiLogicViT, fused=True),
    "PsiLogicNLP (GC + AGC + quantum decay)": partial(PsiLogicNLP, fused=True),
    "PsiLogic(fused=False)": partial(PsiLogic, fused=False),
    "PsiLogic(foreach=False, fused=False)": partial(PsiLogic, foreach=False, fused=False),
}


def kept(optimizer: Optimizer) -> tuple[int, int]:
    """Bytes of the whole state, and of the part that AdamW has not: views count with their elements."""
    whole = 0
    beyond = 0
    for state in optimizer.state.values():
        for name, tensor in state.items():
            whole += tensor.nbytes
            if name not in ("step", "exp_avg", "exp_avg_sq"):
                beyond += tensor.nbytes
    return whole, beyond


def peak(step: Callable[[], Any], device: str) -> int:
    """The most bytes that a step has allocated at one time."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = 0
    most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


def measure(name: str, device: str) -> list[dict[str, Any]]:
    """The table's rows for one set of tensors."""
    params = tensors_with_gradients(name, device)
    size = sum(p.nbytes for p in params)
    rows = []
    for title, build in OPTIMIZERS.items():
        optimizer = build(params, lr=1e-7)
        optimizer.step()
        optimizer.step()
        state, beyond = kept(optimizer)
        most = peak(optimizer.step, device)
        row = {
            "device": device,
            "set": name,
            "tensors": len(params),
            "parameter_bytes": size,
            "optimizer": title,
            "state_per_parameter_byte": round(state / size, 4),
            "state_beyond_adamw_per_tensor": beyond / len(params),
            "peak_bytes": most,
            "peak_per_parameter_byte": round(most / size, 4),
        }
        rows.append(row)
    return rows


def main() -> None:
    """Measure and print."""
    options = csv_parser(__doc__)
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options.add_argument("--sets", nargs="+", choices=TENSOR_SETS, default=list(TENSOR_SETS), metavar="SET")
    chosen = options.parse_args()
    rows: list[dict[str, Any]] = []
    for name in chosen.sets:
        print(f"\n{name}\n  {'':40} {'state':>8} {'beyond AdamW':>14} {'peak':>10} {'share':>8}")
        for row in measure(name, chosen.device):
            rows.append(row)
            print(
                f"  {row['optimizer']:40} {row['state_per_parameter_byte']:7.3f}x "
                f"{row['state_beyond_adamw_per_tensor']:4.0f} B/tensor {row['peak_bytes'] / 1e6:7.2f} MB "
                f"{row['peak_per_parameter_byte']:8.2%}",
                flush=True,
            )
    if chosen.csv:
        write_csv(rows, chosen.csv)


if __name__ == "__main__":
    sys.exit(main())
