"""How often a study finds a difference between exchangeable optimizers, with one search and with repeated searches.

.venv/bin/python benchmarks/search_error.py [--studies 20000] [--csv docs/results/benchmarks/search_error.csv]

All optimizers of an arena have the same true curve over the settings; the scatter of a seed is added to every trial.
With one search, all final seeds have the setting of its best trial; with `sweep.repeated`, each has that of its own
search. Any difference is an error: Welch's tests of all comparisons, corrected by Holm, at 0.05.

The rows "quadratic" have 5 rates, 4 arenas and 3 baselines. Their curve is 0.2 times the squared distance from the best
rate in steps of the grid, which is uniform between the second and the fourth; seeds scatter by 0.3. The other rows have
the measured curves of the trials that select in a study in docs/results, in units of the scatter of its final seeds: in
each arena that of one of its optimizers, drawn at random for every 200 studies.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from csv_files import read_csv, write_csv
from numpy.typing import NDArray
from scipy import stats

RESULTS = Path(__file__).parents[1] / "docs" / "results"
ALPHA, SEEDS, BATCH = 0.05, (3, 5, 10), 200
OURS = {"mini": 3, "zoo": 26, "shock": 7}
"""Studies with sweeps, and the baselines that one optimizer has in them."""
Curve = NDArray[np.floating[Any]]
"""The metric of each setting, lower is better, in units of the scatter between seeds."""


def quadratic(random: np.random.Generator) -> list[Curve]:
    """The curves of four arenas."""
    return [0.2 * (np.arange(5) - random.uniform(1, 3)) ** 2 / 0.3 for _ in range(4)]


def selecting(study: str) -> list[dict[str, str]]:
    """The rows of the trials that select: those that confirm the selection of the sweep."""
    return [row for row in read_csv(RESULTS / study / "lr_sweep.csv") if row["stage"] == "confirm"]


def measured(study: str) -> list[list[Curve]]:
    """The curves of each arena of a study of ours, one for each optimizer that has at least two complete settings."""
    comparisons = {row["arena"]: row for row in read_csv(RESULTS / study / "significance.csv")}
    trials, curves = selecting(study), dict[str, list[Curve]]()
    for row in read_csv(RESULTS / study / "aggregate.csv"):
        primary = comparisons.get(row["arena"], {"metric": "", "direction": ""})
        about = [row[key] for key in ("arena", "optimizer", "metric")]
        if row["metric"] == primary["metric"] and row["std"] and float(row["std"]) > 0:
            own = [x for x in trials if [x[key] for key in ("arena", "optimizer", "metric")] == about and x["value"]]
            values = np.array([float(x["value"]) for x in own]) / float(row["std"])
            if len(values) > 1:
                curves.setdefault(row["arena"], []).append(values if primary["direction"] == "min" else -values)
    return list(curves.values())


def narrow_leads(study: str) -> str:
    """How many arms of a study of ours that are better or worse were selected by less than the scatter of a seed."""
    comparisons = read_csv(RESULTS / study / "significance.csv")
    primary = {row["arena"]: (row["metric"], 1 if row["direction"] == "min" else -1) for row in comparisons}
    sweeps: dict[tuple[str, str], list[float]] = {}
    for row in selecting(study):  # one seed for each setting
        metric, sign = primary[row["arena"]]
        if row["metric"] == metric and row["value"]:
            sweeps.setdefault((row["arena"], row["optimizer"]), []).append(sign * float(row["value"]))
    finals: dict[tuple[str, str], list[float]] = {}
    for row in read_csv(RESULTS / study / "summary.csv"):
        if row["metric"] == primary[row["arena"]][0] and row["val"]:
            finals.setdefault((row["arena"], row["optimizer"]), []).append(float(row["val"]))
    won = [row for row in comparisons if row["verdict"] in ("better", "worse")]
    decided = {(row["arena"], row[side]) for row in won for side in ("optimizer", "baseline")} & sweeps.keys()
    narrow = [arm for arm in decided if np.diff(sorted(sweeps[arm])[:2])[0] < np.std(finals[arm], ddof=1)]
    return f"{study}: {len(narrow)} of {len(decided)} arms that are better or worse: {', '.join(map(' '.join, narrow))}"


def drawn(arenas: list[list[Curve]], random: np.random.Generator) -> list[Curve]:
    """One of the curves of each arena."""
    return [curves[random.integers(len(curves))] for curves in arenas]


def error_rate(
    curves: Callable[[np.random.Generator], list[Curve]], baselines: int, seeds: int, repeated: bool, studies: int
) -> float:
    """The share of studies with a significant difference."""
    random, errors = np.random.default_rng(0), 0
    for _ in range(studies // BATCH):
        smallest, arenas = np.ones(BATCH), 0
        for curve in curves(random):
            trials = curve + random.standard_normal((BATCH, baselines + 1, seeds if repeated else 1, len(curve)))
            chosen = curve[np.argmin(trials, axis=-1)]
            final = chosen + random.standard_normal((BATCH, baselines + 1, seeds))
            p = stats.ttest_ind(final[:, :1], final[:, 1:], axis=-1, equal_var=False).pvalue
            smallest, arenas = np.minimum(smallest, p.min(axis=1)), arenas + 1
        errors += int((smallest * arenas * baselines < ALPHA).sum())
    return errors / (studies // BATCH * BATCH)


def main() -> None:
    """Print the rates, and write them as CSV if requested."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=20_000)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    cases = {"quadratic": (quadratic, 3)}
    cases |= {study: (partial(drawn, measured(study)), baselines) for study, baselines in OURS.items()}
    rows: list[dict[str, Any]] = []
    for case, (curves, baselines) in cases.items():
        for seeds in SEEDS:
            rates = [error_rate(curves, baselines, seeds, repeated, options.studies) for repeated in (False, True)]
            rows.append({"curves": case, "seeds": seeds, "one_search": rates[0], "repeated": rates[1]})
            print(f"{case:10} {seeds:3} seeds: one search {rates[0]:.4f}, repeated {rates[1]:.4f}", flush=True)
    print("selected by a lead within the scatter of a seed", narrow_leads("zoo"), sep="\n")
    if options.csv:
        write_csv([{**row, "studies": options.studies} for row in rows], options.csv)


if __name__ == "__main__":
    main()
