"""A bank of real trainings of AdamW in the arenas of `mini`: rates x seeds x 3 copies.

    python benchmarks/training_bank.py [--arenas vit,gpt] [--seeds 20] [--workers 2] [--csv FILE]

The first two copies do the same except for rounding: their eps are equal to six digits. The third one multiplies each
rate of the grid by 1.78, so that its best rate lies half a step of the grid elsewhere. Each reaches the same at its
best rate, so every significant difference between two of them is an error of a design. Studies are drawn from the bank
by permuting its seeds. A setting is trained with the steps of a trial of the search, which has no test value, and with
the reported steps; a training that diverged has no values.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from multiprocessing import get_context
from typing import Any, NamedTuple

from csv_files import csv_parser, write_csv

from fairbench.runner.preflight import run_preflight
from fairbench.study.planned_trial import trial_spec
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.loader import load_suite
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.trial import trial

RATES = {
    "gpt": (1e-3, 3.16e-3, 1e-2, 3.16e-2),
    "vit": (3.16e-4, 1e-3, 3.16e-3, 1e-2),
    "resnet": (1e-3, 3.16e-3, 1e-2, 3.16e-2),
    "ddpm": (3.16e-3, 1e-2, 3.16e-2, 1e-1),
}
"""Neighbors on the grid of `mini`, with the best rate of each arena among the inner ones."""


class Copy(NamedTuple):
    """How a copy of AdamW differs: its eps, and the factor of its learning rates."""

    eps: float
    factor: float


COPIES = (Copy(1e-8, 1.0), Copy(1.0000003e-8, 1.0), Copy(1e-8, 1.78))
"""The values of eps differ in single precision, too."""
STAGES = ("sweep", "final")


class Training(NamedTuple):
    """A training of a copy, at a rate of the grid.

    Attributes:
        copy: the number of the copy.
        lr: the rate of the grid.
        spec: the trial, with the rate at which it trains.
        metric: the primary metric of its arena.
    """

    copy: int
    lr: float
    spec: TrialSpec
    metric: str


def trainings(arenas: list[str], seeds: int) -> Iterator[Training]:
    """Every training of the bank."""
    suite = load_suite("mini")
    suite = replace(suite, optimizers={"AdamW": suite.optimizers["AdamW"]}, reference="AdamW")
    preflight = run_preflight(suite, DeviceSlot(), lambda function, *given: function(*given))
    for arena in arenas:
        metric = suite.arenas[arena].metric
        copies = range(len(COPIES))
        for seed, lr, copy, stage in product(range(100, 100 + seeds), RATES[arena], copies, STAGES):
            spec = trial_spec(preflight.study, arena, "AdamW", stage, lr * COPIES[copy].factor, seed)
            options = spec.optimizer.options | {"eps": COPIES[copy].eps}
            optimizer = replace(spec.optimizer, options=options)
            yield Training(copy, lr, replace(spec, optimizer=optimizer), metric)


def row(training: Training) -> dict[str, Any]:
    """Train, and return the line of the table."""
    spec = training.spec
    result = trial(spec).result
    final = {}
    if result and result.final:
        final = result.final
    line = {
        "arena": spec.arena.name,
        "steps": spec.training.steps,
        "copy": training.copy,
        "lr": training.lr,
        "seed": spec.seed,
        "val": "",
        "test": "",
    }
    for split in ("val", "test"):
        if split in final:
            line[split] = final[split][training.metric]
    return line


def main() -> None:
    """Train and print."""
    options = csv_parser(__doc__)
    options.add_argument("--arenas", default=",".join(RATES), help="names, separated by commas")
    options.add_argument("--seeds", type=int, default=20)
    options.add_argument("--workers", type=int, default=2)
    chosen = options.parse_args()
    planned = list(trainings(chosen.arenas.split(","), chosen.seeds))
    rows = []
    with ProcessPoolExecutor(chosen.workers, get_context("spawn")) as processes:
        for trained in processes.map(row, planned):
            rows.append(trained)
            print(*trained.values(), sep="\t", flush=True)
    if chosen.csv:
        write_csv(rows, chosen.csv)


if __name__ == "__main__":
    sys.exit(main())
