"""Draw the results of `step_time.py` and `step_memory.py`.

    python benchmarks/charts.py [--results docs/results/benchmarks]

Reads step_time.csv and step_memory.csv of that folder, writes figures/step.png and figures/step.svg.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

from csv_files import csv_parser, read_csv
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fairbench.report.figures.colors import LIGHT
from fairbench.report.figures.drawing import figure_options

FUSED = "AdamW(fused=True)"


@dataclass(frozen=True)
class Kind:
    """A contender of the figure: its name in the tables, its label and its color."""

    contender: str
    label: str
    color: str


ADAMW = Kind("AdamW(foreach=True)", "AdamW(foreach=True)", LIGHT["arm-blue"])
LION = Kind("pytorch_optimizer.Lion", "Lion (pytorch-optimizer)", LIGHT["arm-plum"])
PSILOGIC = Kind("PsiLogic", "PsiLogic", LIGHT["arm-orange"])
VIT = Kind("PsiLogicViT (GC + AGC)", "PsiLogicViT: + GC + AGC", LIGHT["phase-step"])
NORMS = Kind("(norms, then torch's fused kernel)", "norms, then torch's kernel", LIGHT["phase-data"])
TIMES = (ADAMW, LION, PSILOGIC, VIT, NORMS)
MEMORY = (ADAMW, PSILOGIC, VIT)


def bars(axes: Axes, sets: list[str], values: dict[tuple[str, str], float], kinds: Sequence[Kind]) -> None:
    """Horizontal bars, one group for each set of tensors, each with its number."""
    height = 0.8 / len(kinds)
    for position, kind in enumerate(kinds):
        for row, name in enumerate(sets):
            y = row + position * height
            value = values[name, kind.contender]
            bar = axes.barh(y, value, height * 0.9, color=kind.color)
            if row == 0:
                bar.set_label(kind.label)
            _write_number(axes, value, y)
    ticks = [row + 0.4 - height / 2 for row in range(len(sets))]
    axes.set_yticks(ticks, sets)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)


def _write_number(axes: Axes, value: float, y: float) -> None:
    """The number of a bar, to the right of its end."""
    shown = Decimal(str(value)).quantize(Decimal("0.01"), ROUND_HALF_UP)  # as SQL rounds the numbers of the page
    over_lines = {"facecolor": LIGHT["paper"], "edgecolor": "none", "pad": 0.3}
    axes.annotate(
        str(shown),
        (value, y),
        xytext=(3, 0),
        textcoords="offset points",
        va="center",
        fontsize=7,
        bbox=over_lines,
    )


def draw(folder: Path) -> Figure:
    """Both tables, side by side."""
    times = read_csv(folder / "step_time.csv")
    memory = read_csv(folder / "step_memory.csv")
    sets = list(dict.fromkeys(row["set"] for row in memory))
    figure = Figure(figsize=(11.2, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    ratios = {(row["set"], row["contender"]): float(row["ratio"]) for row in times}
    bars(left, sets, ratios, TIMES)
    left.axvline(1.0, color="#444444", linewidth=1)
    left.set_title("time of one step()")
    left.set_xlabel(f"multiple of {FUSED}, torch's fastest")
    peaks = {(row["set"], row["optimizer"]): float(row["peak_per_parameter_byte"]) for row in memory}
    bars(right, sets, peaks, MEMORY)
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=len(TIMES), fontsize=8)
    right.set_title("additional memory of one step()")
    right.set_xlabel("multiple of the parameters' bytes")
    return figure


def main() -> None:
    """Read, draw, write."""
    options = csv_parser(__doc__)
    options.add_argument("--results", type=Path, default=Path("docs/results/benchmarks"))
    folder = options.parse_args().results
    with figure_options():
        figure = draw(folder)
        (folder / "figures").mkdir(exist_ok=True)
        figure.savefig(folder / "figures" / "step.png")
        figure.savefig(folder / "figures" / "step.svg", metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main())
