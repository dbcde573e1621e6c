"""The cost of one `optimizer.step()`: PsiLogic against torch's AdamW and other optimizers, in one run.

    python benchmarks/step_time.py [--device cpu] [--sets "ViT-Tiny" ...] [--rounds 31] [--csv FILE]

Each contender is measured together with its baseline: in each round both step the same tensors once, with moments at
the same place, in a random order, so that a disturbance of the machine affects both. A ratio is the median over the
rounds of (contender / baseline in that round). A copy of 256 MB in each round measures the memory at that time, in
bytes read and written; not with two tensors, since it would empty the caches, which their training does not. The bytes
are those that the arithmetic needs per element in float32: AdamW reads p, g, m, v and writes p, m, v (28); if they must
be known before the update, sums read g once more (+4), AGC's p too (+4). Tensors that fire after a speculative update
are read and written again (+16). Clipping before the step also reads and writes g (+12 with its norm).

With `--device cuda` a step has three times: on the GPU by its events, call after call without a wait (`milliseconds`);
the same with replays of its CUDA graph (`graph_`); and the host's alone, until an idle GPU has got all launches
(`host_`). Without a graph a step costs the larger of the first and the last.
"""

import random
import statistics
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from clocks import Clock, Run, blocks, captured, device, host, processor, wall
from contenders import CLIPPED, LR, clipping, contenders
from csv_files import csv_parser, write_csv
from tensor_sets import TENSOR_SETS, tensors_with_gradients
from torch.optim import AdamW, Optimizer

WARM_UP = 3  # rounds
COPIED = 1 << 26  # elements copied to measure the bandwidth
CACHED = 1 << 16  # elements of a set that stays in cache


def interleaved(runs: list[Run], clock: Clock, rounds: int) -> list[list[float]]:
    """Seconds of each run in each round, in an order drawn for each."""
    times: list[list[float]] = [[] for _ in runs]
    order = list(range(len(runs)))
    for round_ in range(-WARM_UP, rounds):
        random.Random(round_).shuffle(order)
        for i in order:
            took = clock(runs[i])
            if round_ >= 0:
                times[i].append(took)
    return times


def share_moments(optimizer: Optimizer | None, adamw: AdamW) -> None:
    """Let both keep their moments at the same place: the speed of memory depends on the address, in every run."""
    for p, state in adamw.state.items():
        kept = {} if optimizer is None else optimizer.state[p]
        state.update({name: kept[name] for name in ("exp_avg", "exp_avg_sq") if name in kept})


def summary(mine: list[float], baseline: list[float], prefix: str = "") -> dict[str, Any]:
    """Milliseconds of both, and the ratio round by round, from their seconds in each round."""
    ratio = statistics.median(a / b for a, b in zip(mine, baseline, strict=True))
    return {
        f"{prefix}milliseconds": round(1e3 * statistics.median(mine), 3),
        f"{prefix}baseline_milliseconds": round(1e3 * statistics.median(baseline), 3),
        f"{prefix}ratio": round(ratio, 3),
    }


def in_blocks(mine: Run, baseline: Run, block_seconds: float, rounds: int) -> dict[str, Any]:
    """Microseconds of the processor for a call of each, and the ratio; blocks of calls take turns."""
    count = max(1, round(block_seconds / processor(mine)))
    seconds, baseline_seconds = interleaved([blocks(mine, count), blocks(baseline, count)], processor, rounds)
    ratio = statistics.median(a / b for a, b in zip(seconds, baseline_seconds, strict=True))
    return {
        "microseconds": round(1e6 * statistics.median(seconds) / count, 1),
        "baseline_microseconds": round(1e6 * statistics.median(baseline_seconds) / count, 1),
        "ratio": round(ratio, 3),
    }


def in_a_graph_and_on_the_host(step: Run, baseline: Run, rounds: int) -> dict[str, Any]:
    """The GPU's part of the summary; without graphs if one of the two cannot be captured."""
    replay = captured(step)
    baseline_replay = captured(baseline)
    of_graph = dict.fromkeys(summary([1.0], [1.0], "graph_"), "")
    if replay is not None and baseline_replay is not None:
        mine, theirs = interleaved([replay, baseline_replay], device, rounds)
        of_graph = summary(mine, theirs, "graph_")
    mine, theirs = interleaved([step, baseline], host, rounds)
    return of_graph | summary(mine, theirs, "host_")


def measure(name: str, on: str, rounds: int) -> Iterator[dict[str, Any]]:
    """The table's rows for one set of tensors."""
    params = tensors_with_gradients(name, on)
    numel = sum(p.numel() for p in params)
    source = None
    if numel >= CACHED:
        source = torch.ones(COPIED, device=on)
        target = torch.ones(COPIED, device=on)
    clock = device if on == "cuda" else wall
    for contender in contenders(on, name):
        if contender.dtype != params[0].dtype:
            params = tensors_with_gradients(name, on, contender.dtype)
        step = contender.build(params)
        adamw = AdamW(contender.groups(params), LR, fused=True, capturable=on == "cuda")
        optimizer = getattr(step, "__self__", None)
        step()
        adamw.step()
        share_moments(optimizer, adamw)
        against = adamw.step
        if contender.baseline == CLIPPED:
            against = clipping(params, adamw.step)
        runs = [step, against]
        if source is not None:
            runs.append(partial(target.copy_, source))
        mine, baseline, *copy = interleaved(runs, clock, rounds)
        times = summary(mine, baseline)
        gb_per_s = ""
        if contender.bytes:
            gb_per_s = round(contender.bytes * numel / times["milliseconds"] / 1e6, 1)
        copy_gb_per_s = ""
        if copy:
            copy_gb_per_s = round(2 * source.nbytes / statistics.median(*copy) / 1e9, 1)
        if on == "cuda":
            times |= in_a_graph_and_on_the_host(step, against, rounds)
        target_ratio = contender.targets.get((on, name), contender.targets.get(on, ""))
        yield {
            "device": on,
            "set": name,
            "tensors": len(params),
            "elements": numel,
            "contender": contender.name,
            "executed": "+".join(getattr(optimizer, "executed", ())),
            "baseline": contender.baseline,
            **times,
            "target": target_ratio,
            "bytes_per_element": contender.bytes or "",
            "gb_per_s": gb_per_s,
            "copy_gb_per_s": copy_gb_per_s,
        }


HEAD = f"  {'':40} {'ms':>9} {'baseline':>9} {'ratio':>7} {'target':>7} {'GB/s':>6} {'copy':>6}  executed"


def show(row: dict[str, Any]) -> None:
    """Print one row."""
    mark = ""
    if row["target"]:
        mark = "met" if row["ratio"] <= row["target"] else "missed"
    print(
        f"  {row['contender']:40} {row['milliseconds']:9.3f} {row['baseline_milliseconds']:9.3f} {row['ratio']:7.3f} "
        f"{row['target']:>7} {row['gb_per_s']:>6} {row['copy_gb_per_s']:6}  {row['executed']} {mark}",
        flush=True,
    )
    for prefix, title in (("graph_", "in a graph"), ("host_", "on the host")):
        if row.get(prefix + "ratio"):
            mine = row[f"{prefix}milliseconds"]
            baseline = row[f"{prefix}baseline_milliseconds"]
            ratio = row[f"{prefix}ratio"]
            print(f"    {title:38} {mine:9.3f} {baseline:9.3f} {ratio:7.3f}", flush=True)


def main() -> None:
    """Measure and print."""
    options = csv_parser(__doc__)
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options.add_argument("--sets", nargs="+", choices=TENSOR_SETS, default=list(TENSOR_SETS), metavar="SET")
    options.add_argument("--rounds", type=int, default=31)
    chosen = options.parse_args()
    machine = torch.cuda.get_device_name() if chosen.device == "cuda" else f"{torch.get_num_threads()} threads"
    print(f"torch {torch.__version__}, {machine}, {chosen.rounds} rounds")
    rows: list[dict[str, Any]] = []
    for name in chosen.sets:
        print(f"\n{name}\n{HEAD}")
        for row in measure(name, chosen.device, chosen.rounds):
            show(row)
            rows.append(row)
        if chosen.csv:
            write_csv(rows, chosen.csv)


if __name__ == "__main__":
    sys.exit(main())
