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

import importlib
import random
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from clocks import Clock, Run, captured, device, host, wall
from csv_files import csv_parser, write_csv
from tensor_sets import TENSOR_SETS, tensors_with_gradients
from torch import Tensor
from torch.optim import AdamW, Optimizer

from psilogic import PsiLogic, PsiLogicNLP, PsiLogicViT
from psilogic.tensors import host_norms
from psilogic.tensors.norms import tensor_squares

LR = 1e-7  # small: parameters hardly change, regardless of the number of rounds
WARM_UP = 3  # rounds
COPIED = 1 << 26  # elements copied to measure the bandwidth
CACHED = 1 << 16  # elements of a set that stays in cache
FUSED, CLIPPED = "AdamW(fused=True)", "clip_grad_norm_ + AdamW(fused=True)"
GROUPED = "AdamW(fused=True), a group for each tensor"
PEERS = {"pytorch_optimizer": ("Lion", "AdaBelief", "StableAdamW"), "lion_pytorch": ("Lion",)}


@dataclass
class Contender:
    """One thing that is timed.

    Attributes:
        name: as the table shows it.
        build: makes the step of the given tensors.
        bytes: per element, 0 where nobody counted.
        baseline: the name of what it is compared with.
        groups: the parameter groups of that.
        targets: the ratio that it should not exceed, by kind of device, or by that and the set.
    """

    name: str
    build: Callable[[list[Tensor]], Callable[[], Any]]
    bytes: int = 0
    baseline: str = FUSED
    groups: Callable[[list[Tensor]], Any] = list
    targets: dict[str | tuple[str, str], float] = field(default_factory=dict)


def contenders(on: str, name: str) -> list[Contender]:
    """Everything that is timed with a set on a kind of device; peers where they are installed."""
    ahead, by_rows = (28, 28) if on == "cpu" else (32, 36)  # on a CPU the sums come with the update
    if name == "150 groups":
        return [_contender_of_groups(kind, ahead) for kind in ("lr", "tensor lr", "betas", "eps", "chaos_scope")]
    plain, spikes, presets, clipped = (
        {"cpu": cpu, "cuda": cuda} for cpu, cuda in ((1.05, 1.15), (1.25, 1.25), (1.5, 1.35), (0.75, 0.85))
    )
    plain["cpu", "ViT-Tiny"] = 1.10
    peers = [(module, name) for module, names in PEERS.items() if find_spec(module) for name in names]
    return [
        Contender("AdamW", lambda params: AdamW(params, LR).step, 28),
        Contender("AdamW(foreach=True)", lambda params: AdamW(params, LR, foreach=True).step, 28),
        Contender("PsiLogic", _psilogic, ahead, targets=plain),
        _contender_of_groups("lr", ahead),
        *([Contender("PsiLogic(foreach=True)", _foreach)] if on == "cuda" else []),
        Contender("PsiLogic, 5% of the tensors fire", _spiking, ahead, targets=spikes),
        Contender("PsiLogicViT (GC + AGC)", partial(_psilogic, kind=PsiLogicViT), by_rows, targets=presets),
        Contender(
            "PsiLogicNLP (GC + AGC + quantum decay)", partial(_psilogic, kind=PsiLogicNLP), by_rows, targets=presets
        ),
        Contender(
            "PsiLogic(max_grad_norm), clips", partial(_psilogic, max_grad_norm=1.0), 32, CLIPPED, targets=clipped
        ),
        Contender(
            "PsiLogic(max_grad_norm), clips nothing",
            partial(_psilogic, max_grad_norm=1e30),
            32,
            CLIPPED,
            targets=clipped,
        ),
        Contender("(torch's fused kernel alone)", _kernel, 28),
        Contender("(norms, then torch's fused kernel)", partial(_kernel, with_norms=True), 32),
        *(Contender(f"{module}.{name}", partial(_peer, module=module, name=name)) for module, name in peers),
    ]


def _clipping(params: list[Tensor], step: Callable[[], Any]) -> Callable[[], Any]:
    """A factor of 1 costs as much as any other, and leaves the gradients as they are."""
    return lambda: (torch.nn.utils.clip_grad_norm_(params, 1e30), step())


def _groups(params: list[Tensor], kind: str) -> list[dict[str, Any]]:
    """A group for each tensor, as layer-wise learning rates make, weight decay of every other one, and differences."""
    groups = [{"params": [p], "lr": LR * 0.99**i, "weight_decay": 1e-2 * (i % 2)} for i, p in enumerate(params)]
    for i, group in enumerate(groups):
        more = {"tensor lr": {"lr": torch.tensor(group["lr"])}, "betas": {"betas": (0.9, 1 - 0.1 * 0.98**i)}}
        group |= (more | {"eps": {"eps": 1e-8 * (i + 1)}}).get(kind, {})
    return groups


def _contender_of_groups(kind: str, bytes_: int) -> Contender:
    options = {"chaos_scope": "group"} if kind == "chaos_scope" else {}
    name = "PsiLogic, a group for each tensor" + ("" if kind == "lr" else f": {kind}")

    def build(params: list[Tensor]) -> Callable[[], Any]:
        return PsiLogic(_groups(params, kind), fused=True, **options).step

    return Contender(name, build, bytes_, GROUPED, partial(_groups, kind=kind), {"cpu": 1.5})


def _psilogic(params: list[Tensor], kind: type[PsiLogic] = PsiLogic, **options: Any) -> Callable[[], Any]:
    return kind(params, LR, fused=True, **options).step


def _foreach(params: list[Tensor]) -> Callable[[], Any]:
    """The execution of a GPU without Triton."""
    return PsiLogic(params, LR, foreach=True).step


def _spiking(params: list[Tensor]) -> Callable[[], Any]:
    """A PsiLogic in which every 20th tensor fires in every step from the second on: so high does its fast EMA start."""
    optimizer = PsiLogic(params, LR, fused=True, chaos_warmup=0)
    optimizer.step()
    for i, p in enumerate(params):
        optimizer.state[p]["chaos_slow"].fill_(1.0)
        optimizer.state[p]["chaos_fast"].fill_(1.0 if i % 20 else 1e9)
    return optimizer.step


def _kernel(params: list[Tensor], with_norms: bool = False) -> Callable[[], Any]:
    """The least work of a step on a CPU: torch's kernel, after a pass for the norms."""
    grads = [p.grad for p in params]
    moments = [[torch.zeros_like(p) for p in params] for _ in range(2)]
    steps = [torch.tensor(9.0, device=params[0].device)] * len(params)

    @torch.no_grad()
    def run() -> None:
        if with_norms:
            _norms(grads)
        torch._fused_adamw_(
            params, grads, *moments, [], steps, lr=LR, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8,
            amsgrad=False, maximize=False,
        )  # fmt: skip

    return run


def _norms(grads: list[Tensor]) -> Tensor:
    return host_norms.squares(grads) if grads[0].device.type == "cpu" else tensor_squares(grads, torch.float64)


def _peer(params: list[Tensor], module: str, name: str) -> Callable[[], Any]:
    """Another optimizer; nobody counted its bytes."""
    return getattr(importlib.import_module(module), name)(params, lr=LR).step


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


def in_a_graph_and_on_the_host(step: Run, baseline: Run, rounds: int) -> dict[str, Any]:
    """The GPU's part of the summary; without graphs if one of the two cannot be captured."""
    replays = captured(step), captured(baseline)
    of_graph = dict.fromkeys(summary([1.0], [1.0], "graph_"), "")
    if replays[0] is not None and replays[1] is not None:
        of_graph = summary(*interleaved([replays[0], replays[1]], device, rounds), "graph_")
    return of_graph | summary(*interleaved([step, baseline], host, rounds), "host_")


def measure(name: str, on: str, rounds: int) -> Iterator[dict[str, Any]]:
    """The table's rows for one set of tensors."""
    params = tensors_with_gradients(name, on)
    numel = sum(p.numel() for p in params)
    source, target = (torch.ones(COPIED, device=on) if numel >= CACHED else None for _ in range(2))
    clock = device if on == "cuda" else wall
    for contender in contenders(on, name):
        step = contender.build(params)
        adamw = AdamW(contender.groups(params), LR, fused=True, capturable=on == "cuda")
        optimizer = getattr(step, "__self__", None)
        step(), adamw.step()
        share_moments(optimizer, adamw)
        against = _clipping(params, adamw.step) if contender.baseline == CLIPPED else adamw.step
        copying = [] if source is None else [partial(target.copy_, source)]
        mine, baseline, *copy = interleaved([step, against, *copying], clock, rounds)
        executed, times = "+".join(getattr(optimizer, "executed", ())), summary(mine, baseline)
        if on == "cuda":
            times |= in_a_graph_and_on_the_host(step, against, rounds)
        yield {
            "device": on,
            "set": name,
            "tensors": len(params),
            "elements": numel,
            "contender": contender.name,
            "executed": executed,
            "baseline": contender.baseline,
            **times,
            "target": contender.targets.get((on, name), contender.targets.get(on, "")),
            "bytes_per_element": contender.bytes or "",
            "gb_per_s": round(contender.bytes * numel / times["milliseconds"] / 1e6, 1) if contender.bytes else "",
            "copy_gb_per_s": round(2 * source.nbytes / statistics.median(*copy) / 1e9, 1) if copy else "",
        }


HEAD = f"  {'':40} {'ms':>9} {'baseline':>9} {'ratio':>7} {'target':>7} {'GB/s':>6} {'copy':>6}  executed"


def show(row: dict[str, Any]) -> None:
    """Print one row."""
    mark = "" if not row["target"] else "met" if row["ratio"] <= row["target"] else "missed"
    print(
        f"  {row['contender']:40} {row['milliseconds']:9.3f} {row['baseline_milliseconds']:9.3f} {row['ratio']:7.3f} "
        f"{row['target']:>7} {row['gb_per_s']:>6} {row['copy_gb_per_s']:6}  {row['executed']} {mark}",
        flush=True,
    )
    for prefix, title in (("graph_", "in a graph"), ("host_", "on the host")):
        if row.get(prefix + "ratio"):
            numbers = [row[prefix + name] for name in ("milliseconds", "baseline_milliseconds", "ratio")]
            print(f"    {title:38} {numbers[0]:9.3f} {numbers[1]:9.3f} {numbers[2]:7.3f}", flush=True)


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
