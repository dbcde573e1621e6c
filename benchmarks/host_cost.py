"""What a step costs the host where Triton's kernels do the work; the launches do nothing, and no GPU is needed.

    python benchmarks/host_cost.py [--tensors 1 2 16 62 200 1000] [--rounds 31] [--csv FILE]

Tensors of one element in host memory stand for those of a GPU. The kernels are compiled for a GPU, and a launcher that
returns at once takes the place of its driver. The baseline is `AdamW(fused=True)` on as many tensors of one element,
for which torch's kernel has nearly nothing to do either. In each round both take a block of steps, in a random order.
Times are those of the processor; a ratio is the median over the rounds of (PsiLogic / baseline in that round).
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from clocks import Run
from contenders import LR
from csv_files import csv_parser, write_csv
from step_time import in_blocks
from torch import Tensor, nn
from torch.optim import AdamW
from triton.runtime import driver

from psilogic import PsiLogic, PsiLogicViT
from psilogic.backends.triton import update as updates
from psilogic.tensors import device_tables

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "psilogic" / "backends"))
from triton_driver import Driver

NUMBERS = (1, 2, 16, 62, 200, 1000)
"""Numbers of tensors: 62 as in ResNet-18, 200 as in ViT-Tiny."""
BLOCK_SECONDS = 0.02
TARGET = 1.3
KINDS: dict[str, Callable[[list[Tensor]], Any]] = {
    "PsiLogic": lambda params: PsiLogic(params, LR, fused=True),
    "PsiLogic(max_grad_norm)": lambda params: PsiLogic(params, LR, fused=True, max_grad_norm=1.0),
    "PsiLogicViT (GC + AGC)": lambda params: PsiLogicViT(params, LR, fused=True),
}
ELSEWHERE = "PsiLogic, gradients elsewhere in each step"


class Idle(Driver):
    """The driver of a GPU that loads kernels, and ignores their launches."""

    def launcher_cls(self, source: Any, metadata: Any) -> Run:
        """The launch of a kernel."""
        return _ignore

    def load_binary(self, name: str, kernel: Any, shared: int, device: int) -> tuple[str, int, int, int, int]:
        """The kernel as if it were loaded, with numbers that pass Triton's checks."""
        return name, 1, 32, 0, 1024

    def unload_module(self, module: Any) -> None:
        """Nothing was loaded."""


@contextmanager
def simulated_gpu() -> Iterator[None]:
    """Host memory is treated as that of a GPU, whose driver ignores every launch."""
    driver._active = Idle(90)  # to the end of the process, when Triton unloads the kernels
    with ExitStack() as stack:
        for target, name, value in (
            (updates, "INTERPRETED", True),
            (device_tables, "GPU", "cpu"),
            (device_tables, "pinned_memory", lambda size, dtype: torch.empty(size, dtype=dtype)),
            (torch.cuda, "is_initialized", lambda: True),
            (device_tables, "stream_of", lambda device: 0),
            (torch.cuda, "is_current_stream_capturing", lambda: False),
        ):
            stack.enter_context(patch.object(target, name, value))
        stack.enter_context(patch.dict(os.environ, TRITON_INTERPRET="1"))  # kernels may run on host memory
        yield


def _ignore(*arguments: Any) -> None:
    """The launch of a kernel."""


def tensors_with_gradients(number: int) -> list[Tensor]:
    """Tensors of one element."""
    params: list[Tensor] = []
    for _ in range(number):
        p = nn.Parameter(torch.ones(1))
        p.grad = torch.ones(1)
        params.append(p)
    return params


def with_gradients_elsewhere(params: list[Tensor], step: Run) -> Run:
    """The step with gradients that have another address than before."""
    present = [torch.ones(1) for _ in params]
    others = [torch.ones(1) for _ in params]

    def swap_and_step() -> None:
        nonlocal present, others
        for p, grad in zip(params, others, strict=True):
            p.grad = grad
        step()
        swapped = present
        present = others
        others = swapped

    return swap_and_step


def measure(number: int, rounds: int) -> Iterator[dict[str, Any]]:
    """The table's rows for a number of tensors."""
    params = tensors_with_gradients(number)
    adamw = AdamW(params, LR, fused=True).step
    pairs = {name: (make(params).step, adamw) for name, make in KINDS.items()}
    plain = pairs["PsiLogic"][0]
    pairs[ELSEWHERE] = (with_gradients_elsewhere(params, plain), with_gradients_elsewhere(params, adamw))
    for name, (step, baseline) in pairs.items():
        for _ in range(3):
            step()
            baseline()
        yield {
            "tensors": number,
            "contender": name,
            "executed": "+".join(step.__self__.executed) if hasattr(step, "__self__") else "",
            **in_blocks(step, baseline, BLOCK_SECONDS, rounds),
            "target": TARGET,
        }


LINE = "  {tensors:5} {contender:45} {microseconds:9} {baseline_microseconds:9} {ratio:7} {executed}"


def main() -> None:
    """Measure and print."""
    options = csv_parser(__doc__)
    options.add_argument("--tensors", nargs="+", type=int, default=list(NUMBERS), metavar="NUMBER")
    options.add_argument("--rounds", type=int, default=31)
    chosen = options.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    with simulated_gpu():
        for number in chosen.tensors:
            for row in measure(number, chosen.rounds):
                print(LINE.format(**row), flush=True)
                rows.append(row)
    if chosen.csv:
        write_csv(rows, chosen.csv)


if __name__ == "__main__":
    sys.exit(main())
