"""Whether a coordinate search of 18 trials finds what an exhaustive grid of 45 finds, in 16 arms.

.venv/bin/fairbench run benchmarks/coordinate_grid.toml --output-dir STUDY
.venv/bin/python benchmarks/coordinate_search.py [STUDY]

With a study it writes coordinate_grid.csv, the scores of all its trials; then coordinate_search.csv, which follows from
these. A search is replayed on the scores of the grid. It ends where it asks for a rate that the grid does not have,
which a coordinate search does after its rounds: its remaining trials could only improve it. "Within" means that the
best setting is worse than the best of the grid by at most the standard deviation between the final seeds of the latter.
The points of a Sobol sequence are moved to the nearest rate of the grid; each share is that of 100 sequences.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import stdev
from typing import Any

from csv_files import read_csv, write_csv

from fairbench.analysis.results import collect
from fairbench.optimizers.registry import OPTIMIZERS
from fairbench.study.snapshot import open_study
from fairbench.suites.loader import load_suite
from fairbench.suites.search import Coordinate, Score, Search, Setting, Sobol, best_of

SWEEP = load_suite(str(Path(__file__).with_name("coordinate_grid.toml"))).sweep
RESULTS = Path(__file__).parents[1] / "docs" / "results" / "benchmarks"
GRID, SEARCH = RESULTS / "coordinate_grid.csv", RESULTS / "coordinate_search.csv"
BUDGET, SEQUENCES = 18, 100  # 40% of the grid's 45 settings
Row = Mapping[str, str]


def measured(folder: Path) -> list[dict[str, Any]]:
    """The validation metrics of all trials of a study; without them if a trial diverged."""
    plans, lookup = open_study(folder)
    return [
        {
            "arena": arm.arena,
            "optimizer": arm.optimizer,
            "lr": run.lr,
            "weight_decay": run.weight_decay,
            "betas": " ".join(map(str, run.options["betas"])),
            "seed": run.seed,
            "accuracy": run.metric("val", "accuracy"),
            "loss": run.metric("val", "loss"),
        }
        for arm in collect(plans.study, lookup).arms
        for run in (*arm.sweep, *arm.final)
    ]


def setting(row: Row) -> Setting:
    """The setting of a trial."""
    betas = tuple(map(float, row["betas"].split()))
    return Setting(float(row["lr"]), (("weight_decay", float(row["weight_decay"])), ("betas", betas)))


def score(row: Row) -> Score:
    """The metrics of a trial as fairbench compares them, lower is better."""
    if not row["loss"]:
        return (float("inf"),)
    return (-float(row["accuracy"]), float(row["loss"])) if row["accuracy"] else (float(row["loss"]),)


def replay(search: Search, scores: Mapping[Setting, Score]) -> dict[Setting, Score]:
    """What a search tries before it asks for a setting that has no score."""
    tried: dict[Setting, Score] = {}
    while (new := search.next(tried)) and scores.keys() >= set(new):
        tried = dict(sorted({**tried, **{x: scores[x] for x in new}}.items(), key=lambda item: item[0].lr))
    return tried


@cache
def sequences(scale: float) -> list[set[Setting]]:
    """The settings of each Sobol sequence, at the nearest rates of the grid."""
    sobol = replace(SWEEP, search="sobol", points=0, budget=BUDGET)
    points = [Sobol(replace(sobol, search_seed=seed), scale).first() for seed in range(SEQUENCES)]
    grid = Coordinate(SWEEP, scale)
    return [{Setting(grid.rate(round(grid.index(x.lr))), x.extra) for x in each} for each in points]


def compared(arena: str, optimizer: str, rows: Sequence[Row]) -> dict[str, Any]:
    """The searches of one arm."""
    scale = OPTIMIZERS[optimizer].lr_scale
    scores = {setting(x): score(x) for x in rows if int(x["seed"]) in SWEEP.seeds}
    best = best_of(scores)
    std = stdev(score(x)[0] for x in rows if int(x["seed"]) not in SWEEP.seeds)
    searched = {
        name: replay(Coordinate(replace(SWEEP, search="coordinate", budget=budget), scale), scores)
        for name, budget in (("coordinate", BUDGET), ("rate", SWEEP.points))
    }
    reached = {name: scores[best_of(tried)][0] for name, tried in searched.items()}
    close = {x for x, (first, *_) in scores.items() if first - scores[best][0] <= std}
    return {
        "arena": arena,
        "optimizer": optimizer,
        "grid_trials": len(scores),
        "grid_best": abs(scores[best][0]),
        "seed_std": std,
        "settings_within": len(close),
        "coordinate_trials": len(searched["coordinate"]),
        "coordinate_best": abs(reached["coordinate"]),
        "difference_in_std": (reached["coordinate"] - scores[best][0]) / std,
        "coordinate_within": best_of(searched["coordinate"]) in close,
        "rate_alone_best": abs(reached["rate"]),
        "rate_alone_within": best_of(searched["rate"]) in close,
        "sobol_within": sum(bool(x & close) for x in sequences(scale)) / SEQUENCES,
    }


def table(grid: Sequence[Row]) -> list[dict[str, str]]:
    """A row for each arm, in the order of the grid."""
    arms = dict.fromkeys((x["arena"], x["optimizer"]) for x in grid)
    rows = [compared(*arm, [x for x in grid if (x["arena"], x["optimizer"]) == arm]) for arm in arms]
    return [{key: _cell(x) for key, x in row.items()} for row in rows]


def _cell(x: Any) -> str:
    return f"{x:.6g}" if type(x) is float else str(x).upper() if type(x) is bool else str(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("study", nargs="?", type=Path, help="the folder of the exhaustive grid")
    study = parser.parse_args().study
    if study:
        write_csv(measured(study), GRID)
    rows = table(read_csv(GRID))
    write_csv(rows, SEARCH)
    for name in ("coordinate_within", "rate_alone_within"):
        print(f"{name}: {[row[name] for row in rows].count('True')} of {len(rows)} arms")
    print(f"sobol_within: {sum(float(row['sobol_within']) for row in rows) / len(rows):.2f} of the arms")


if __name__ == "__main__":
    main()
