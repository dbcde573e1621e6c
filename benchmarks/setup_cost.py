"""What it costs to construct an optimizer and to load its state, as a multiple of AdamW's time.

    python benchmarks/setup_cost.py [--tensors 1 4 150] [--rounds 31] [--csv FILE]

The tensors have 64 elements and their gradients. The state that is loaded is that after two steps. In each round both
optimizers take a block of calls, in a random order. Times are those of the processor; a ratio is the median over the
rounds of (PsiLogic / AdamW in that round).
"""

import copy
import gc
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from clocks import Run
from csv_files import csv_parser, write_csv
from step_time import in_blocks
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from psilogic import PsiLogic

NUMBERS = (1, 4, 150)
"""Numbers of tensors."""
BLOCK_SECONDS = 0.01
TARGETS = {"constructor": 3.0, "load_state_dict": 2.0}
"""The ratios that are aimed at."""


def tensors_with_gradients(number: int) -> list[Tensor]:
    """Tensors of 64 elements."""
    params: list[Tensor] = []
    for _ in range(number):
        p = nn.Parameter(torch.ones(8, 8))
        p.grad = torch.ones(8, 8)
        params.append(p)
    return params


def after_two_steps(optimizer: Optimizer) -> Optimizer:
    """The optimizer after two steps."""
    for _ in range(2):
        optimizer.step()
    return optimizer


def loading(optimizer: Optimizer) -> Run:
    """The loading of an optimizer's own state."""
    saved = copy.deepcopy(optimizer.state_dict())
    return partial(optimizer.load_state_dict, saved)


def measure(number: int, rounds: int) -> Iterator[dict[str, Any]]:
    """The table's rows for a number of tensors."""
    params = tensors_with_gradients(number)
    pairs = {
        "constructor": (partial(PsiLogic, params), partial(AdamW, params)),
        "load_state_dict": (loading(after_two_steps(PsiLogic(params))), loading(after_two_steps(AdamW(params)))),
    }
    for call, (mine, theirs) in pairs.items():
        for _ in range(20):
            mine()
            theirs()
        yield {
            "tensors": number,
            "call": call,
            **in_blocks(mine, theirs, BLOCK_SECONDS, rounds),
            "target": TARGETS[call],
        }


LINE = "  {tensors:5} {call:16} {microseconds:9} {baseline_microseconds:9} {ratio:7}"


def main() -> None:
    """Measure and print."""
    options = csv_parser(__doc__)
    options.add_argument("--tensors", nargs="+", type=int, default=list(NUMBERS), metavar="NUMBER")
    options.add_argument("--rounds", type=int, default=31)
    chosen = options.parse_args()
    torch.set_num_threads(1)
    gc.disable()  # the collector's time would fall on either
    rows: list[dict[str, Any]] = []
    for number in chosen.tensors:
        for row in measure(number, chosen.rounds):
            print(LINE.format(**row), flush=True)
            rows.append(row)
    if chosen.csv:
        write_csv(rows, chosen.csv)


if __name__ == "__main__":
    sys.exit(main())
