"""The cost of one `optimizer.step()` as a multiple of its cost in another checkout, in one run.

    python benchmarks/before_after.py OTHER/src [--sets "ViT-Tiny" ...] [--rounds 31] [--csv FILE]

Both versions of psilogic are imported side by side, the other one with the kernels that were built in its checkout.
They step the same tensors in turns, with moments at the same place, in an order drawn in each round; a ratio is
the median over the rounds of (now / before in that round).
"""

import importlib
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from clocks import wall
from contenders import LR
from csv_files import csv_parser, write_csv
from step_time import WARM_UP, interleaved
from tensor_sets import TENSOR_SETS, tensors_with_gradients
from torch import Tensor

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "PsiLogic": ("PsiLogic", {}),
    "PsiLogicViT (GC + AGC)": ("PsiLogicViT", {}),
    "PsiLogicNLP (GC + AGC + quantum decay)": ("PsiLogicNLP", {}),
    "PsiLogic(max_grad_norm), clips": ("PsiLogic", {"max_grad_norm": 1.0}),
    "PsiLogic(max_grad_norm), clips nothing": ("PsiLogic", {"max_grad_norm": 1e30}),
    "PsiLogic(fused=False)": ("PsiLogic", {"fused": False}),
}


def load(source: Path) -> Any:
    """The psilogic of a source tree; other imports of that name stay unchanged."""
    others = _take_out()
    sys.path.insert(0, str(source))
    try:
        importlib.invalidate_caches()
        return importlib.import_module("psilogic")
    finally:
        sys.path.remove(str(source))
        _take_out()
        sys.modules.update(others)


def _take_out() -> dict[str, ModuleType]:
    """Remove the modules of psilogic from those that are loaded; returns them."""
    names = [name for name in sys.modules if name.partition(".")[0] == "psilogic"]
    return {name: sys.modules.pop(name) for name in names}


def step_of(package: Any, kind: str, options: dict[str, Any], params: list[Tensor]) -> Callable[[], Any]:
    """A step of a version's optimizer, once taken."""
    optimizer = getattr(package, kind)(params, LR, **options)
    optimizer.step()
    return optimizer.step


def measure(name: str, before: Any, now: Any, rounds: int) -> list[dict[str, Any]]:
    """The table's rows for one set of tensors."""
    params = tensors_with_gradients(name, "cpu")
    rows = []
    for contender, (kind, options) in KINDS.items():
        new = step_of(now, kind, options, params)
        old = step_of(before, kind, options, params)
        for param in params:
            state = new.__self__.state[param]
            old_state = old.__self__.state[param]
            old_state["exp_avg"] = state["exp_avg"]
            old_state["exp_avg_sq"] = state["exp_avg_sq"]
        after, earlier = interleaved([new, old], wall, rounds)
        ratios = [a / b for a, b in zip(after, earlier, strict=True)]
        row = {
            "set": name,
            "contender": contender,
            "milliseconds": round(1e3 * statistics.median(after), 3),
            "milliseconds_before": round(1e3 * statistics.median(earlier), 3),
            "ratio": round(statistics.median(ratios), 3),
        }
        rows.append(row)
        print("  {set:12} {contender:40} {milliseconds:9.3f} {milliseconds_before:9.3f} {ratio:7.3f}".format(**row))
    return rows


def main() -> None:
    """Measure and print."""
    options = csv_parser(__doc__)
    options.add_argument("source", type=Path, help="the folder of the other checkout that holds psilogic")
    options.add_argument("--sets", nargs="+", choices=TENSOR_SETS, default=list(TENSOR_SETS), metavar="SET")
    options.add_argument("--rounds", type=int, default=31)
    chosen = options.parse_args()
    now = importlib.import_module("psilogic")
    before = load(chosen.source.resolve())
    print(f"now {now.__file__}\nbefore {before.__file__}\n{chosen.rounds} rounds after {WARM_UP} to warm up")
    rows = []
    for name in chosen.sets:
        rows += measure(name, before, now, chosen.rounds)
    if chosen.csv:
        write_csv(rows, chosen.csv)


if __name__ == "__main__":
    sys.exit(main())
