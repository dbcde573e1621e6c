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
    planned = arms(
        run_preflight(suite, DeviceSlot(), lambda function, *given: function(*given)).study, lambda spec: None
    )
    return [replace(arm.sweep[2], training=replace(arm.sweep[2].training, steps=STEPS)) for arm in planned]


def harness_seconds(spec: TrialSpec) -> float:
    """Seconds of the trial's training loop, by its record."""
    cost = trial(spec).cost
    assert cost
    return sum(getattr(cost.seconds, phase) for phase in ("data", "forward", "backward", "step"))


def bare_seconds(spec: TrialSpec) -> float:
    """Seconds of the loop that one would write by hand: no hashes, no stopwatch, no records."""
    arena, training = load_arena(spec.arena.task), spec.training
    data = load_source(spec.arena.data, Path("data"))
    torch.manual_seed(spec.seed)
    model = arena.build_model(data, **spec.arena.model).train()
    params = list(model.parameters())
    optimizer = build_optimizer(spec.optimizer, model)
    schedule = LambdaLR(optimizer, lambda step: lr_factor(step, training))
    noise, order = (torch.Generator().manual_seed(spec.seed) for _ in range(2))
    epoch: list[torch.Tensor] = []
    began = time.perf_counter()
    for _ in range(training.steps):
        if not epoch:
            epoch = list(torch.randperm(len(data.train), generator=order).split(spec.arena.batch_size))[:-1]
        loss = arena.loss(model, *arena.examples(data.read(data.train[epoch.pop(0)], None), noise))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, training.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        loss.item()
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    options = csv_parser(__doc__)
    options.add_argument("--rounds", type=int, default=7)
    chosen = options.parse_args()
    torch.set_num_threads(1)
    rows = []
    for spec in specs():
        harness_seconds(spec), bare_seconds(spec)  # warm up
        pairs = [(harness_seconds(spec), bare_seconds(spec)) for _ in range(chosen.rounds)]
        harness, bare = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(mine / theirs for mine, theirs in pairs)
        rows.append({"arena": spec.arena.name, "steps": STEPS, "harness_s": harness, "bare_s": bare, "ratio": ratio})
        print(f"{spec.arena.name:8} harness {harness:.3f} s   bare {bare:.3f} s   ratio {ratio:.3f}", flush=True)
    if chosen.csv:
        write_csv(rows, chosen.csv)


if __name__ == "__main__":
    sys.exit(main())
