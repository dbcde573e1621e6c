"""The cost of PsiLogic in a training: whole training steps in the arenas of `mini`, against AdamW, in one run.

    python benchmarks/in_loop.py [--rounds 9] [--csv FILE]

The same loop trains the same model on the same batches with each optimizer, in an order drawn for each round; the
table shows the median milliseconds of one training step (data, forward, backward, clipping, step) and the median of the
ratios to AdamW, torch's default and torch's fused one, in the same round.
"""

import random
import statistics
import sys
from dataclasses import replace
from typing import Any

import torch
from csv_files import csv_parser, write_csv
from harness_overhead import STEPS, bare_seconds, specs

from fairbench.study.trial_spec import TrialSpec

DEFAULT = "AdamW"
FUSED = "AdamW(fused=True)"
PSILOGIC = "PsiLogic"


def variants(spec: TrialSpec) -> dict[str, TrialSpec]:
    """The trial with each optimizer, at the same learning rate and weight decay."""
    options = spec.optimizer.options
    fused = replace(spec.optimizer, options=options | {"fused": True})
    adamw = replace(spec.optimizer, options=options | {"fused": None})
    shared = {name: options[name] for name in ("lr", "betas", "eps", "weight_decay")}
    psilogic = replace(adamw, name=PSILOGIC, factory="psilogic:PsiLogic", options=shared)
    return {
        DEFAULT: replace(spec, optimizer=adamw),
        FUSED: replace(spec, optimizer=fused),
        PSILOGIC: replace(spec, optimizer=psilogic),
    }


def measure(spec: TrialSpec, rounds: int) -> dict[str, Any]:
    """The table's row for one arena."""
    trials = variants(spec)
    seconds: dict[str, list[float]] = {name: [] for name in trials}
    order = list(trials)
    for round_ in range(-1, rounds):
        generator = random.Random(round_)
        generator.shuffle(order)
        for name in order:
            took = bare_seconds(trials[name])
            if round_ >= 0:  # the round before warms up
                seconds[name].append(took)

    row: dict[str, Any] = {"arena": spec.arena.name, "threads": torch.get_num_threads()}
    for name, times in seconds.items():
        milliseconds = 1e3 * statistics.median(times) / STEPS
        row[f"{name} ms"] = round(milliseconds, 3)
    for baseline in (DEFAULT, FUSED):
        ratios = [ours / theirs for ours, theirs in zip(seconds[PSILOGIC], seconds[baseline], strict=True)]
        row[f"ratio to {baseline}"] = round(statistics.median(ratios), 3)
    return row


def main() -> None:
    """Measure and print."""
    options = csv_parser(__doc__)
    options.add_argument("--rounds", type=int, default=9)
    chosen = options.parse_args()
    torch.set_num_threads(1)  # as the trials of a study, of which as many run as there are cores
    rows = []
    for spec in specs():
        row = measure(spec, chosen.rounds)
        rows.append(row)
        words = [f"{name} {value}" for name, value in row.items()]
        print("   ".join(words), flush=True)
    if chosen.csv:
        write_csv(rows, chosen.csv)


if __name__ == "__main__":
    sys.exit(main())
