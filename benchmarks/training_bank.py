"""A bank of real trainings of AdamW in the arenas of `mini`: rates x seeds x 2 copies with eps equal to six digits.

    python benchmarks/training_bank.py [--arenas vit,gpt] [--seeds 20] [--workers 2] [--csv FILE]

The copies do the same except for rounding, so every significant difference between them is an error of a design.
Studies are drawn from the bank by permuting its seeds. A setting is trained with the steps of a trial of the search,
which has no test value, and with the reported steps; a training that diverged has no values.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from multiprocessing import get_context
from typing import Any

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
EPS = (1e-8, 1.0000003e-8)
"""Of the two copies; they differ in single precision, too."""
STAGES = ("sweep", "final")


def trainings(arenas: list[str], seeds: int) -> Iterator[tuple[int, TrialSpec, str]]:
    """The copy, the trial and the arena's metric of every training."""
    suite = load_suite("mini")
    suite = replace(suite, optimizers={"AdamW": suite.optimizers["AdamW"]}, reference="AdamW")
    preflight = run_preflight(suite, DeviceSlot(), lambda function, *given: function(*given))
    for arena in arenas:
        metric = suite.arenas[arena].metric
        copies = range(len(EPS))
        for seed, lr, copy, stage in product(range(100, 100 + seeds), RATES[arena], copies, STAGES):
            spec = trial_spec(preflight.study, arena, "AdamW", stage, lr, seed)
            options = spec.optimizer.options | {"eps": EPS[copy]}
            optimizer = replace(spec.optimizer, options=options)
            yield copy, replace(spec, optimizer=optimizer), metric


def row(training: tuple[int, TrialSpec, str]) -> dict[str, Any]:
    """Train, and return the line of the table."""
    copy, spec, metric = training
    result = trial(spec).result
    final = {}
    if result and result.final:
        final = result.final
    line = {
        "arena": spec.arena.name,
        "steps": spec.training.steps,
        "copy": copy,
        "lr": spec.lr,
        "seed": spec.seed,
        "val": "",
        "test": "",
    }
    for split in ("val", "test"):
        if split in final:
            line[split] = final[split][metric]
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
