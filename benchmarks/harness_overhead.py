"""The bench's overhead in a training: `fairbench.training.trial` against a bare loop of the same training, in one run.

    python benchmarks/harness_overhead.py [--rounds 7] [--csv FILE]

Both train the same models on the same batches with AdamW, clipping and the cosine schedule, in alternation; the
table shows the median seconds of the training loop alone (no model building, no evaluation) and their ratio.
"""

import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from csv_files import csv_parser, write_csv
from torch.optim.lr_scheduler import LambdaLR

from fairbench.arenas.registry import load_arena
from fairbench.data.loading import load_source
from fairbench.optimizers.building import build_optimizer
from fairbench.runner.preflight import run_preflight
from fairbench.study.plan import arms
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import Overrides
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.trainer import lr_factor
from fairbench.training.trial import trial

STEPS = 120


def specs() -> list[TrialSpec]:
    """One trial of AdamW for each arena of `mini`."""
    suite = load_suite("mini", Overrides(optimizers=["AdamW"]))
    preflight = run_preflight(suite, DeviceSlot(), lambda function, *given: function(*given))
    found = []
    for arm in arms(preflight.study, lambda spec: None):
        spec = arm.sweep[2]
        found.append(replace(spec, training=replace(spec.training, steps=STEPS)))
    return found


def harness_seconds(spec: TrialSpec) -> float:
    """Seconds of the trial's training loop, by its record."""
    cost = trial(spec).cost
    assert cost
    seconds = cost.seconds
    return seconds.data + seconds.forward + seconds.backward + seconds.step


def bare_seconds(spec: TrialSpec) -> float:
    """Seconds of the loop that one would write by hand: no hashes, no stopwatch, no records."""
    arena = load_arena(spec.arena.task)
    training = spec.training
    data = load_source(spec.arena.data, Path("data"))
    torch.manual_seed(spec.seed)
    model = arena.build_model(data, **spec.arena.model).train()
    params = list(model.parameters())
    optimizer = build_optimizer(spec.optimizer, model)
    schedule = LambdaLR(optimizer, lambda step: lr_factor(step, training))
    noise = torch.Generator().manual_seed(spec.seed)
    order = torch.Generator().manual_seed(spec.seed)
    epoch: list[torch.Tensor] = []
    began = time.perf_counter()
    for _ in range(training.steps):
        if not epoch:
            shuffled = torch.randperm(len(data.train), generator=order)
            epoch = list(shuffled.split(spec.arena.batch_size))[:-1]
        batch = data.read(data.train[epoch.pop(0)], None)
        loss = arena.loss(model, *arena.examples(batch, noise))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, training.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        loss.item()
    return time.perf_counter() - began


def measure(spec: TrialSpec, rounds: int) -> dict[str, Any]:
    """The table's row for one arena: the medians of both loops, and of their ratio in the same round."""
    harness = []
    bare = []
    ratios = []
    harness_seconds(spec)  # warm up
    bare_seconds(spec)
    for _ in range(rounds):
        harness.append(harness_seconds(spec))
        bare.append(bare_seconds(spec))
        ratios.append(harness[-1] / bare[-1])
    return {
        "arena": spec.arena.name,
        "steps": STEPS,
        "harness_s": statistics.median(harness),
        "bare_s": statistics.median(bare),
        "ratio": statistics.median(ratios),
    }


def main() -> None:
    """Measure and print."""
    options = csv_parser(__doc__)
    options.add_argument("--rounds", type=int, default=7)
    chosen = options.parse_args()
    torch.set_num_threads(1)
    rows = []
    for spec in specs():
        row = measure(spec, chosen.rounds)
        rows.append(row)
        harness = row["harness_s"]
        bare = row["bare_s"]
        ratio = row["ratio"]
        print(f"{spec.arena.name:8} harness {harness:.3f} s   bare {bare:.3f} s   ratio {ratio:.3f}", flush=True)
    if chosen.csv:
        write_csv(rows, chosen.csv)


if __name__ == "__main__":
    sys.exit(main())
