"""How often the interval of a speed-up covers the truth, and how often one is claimed, in fabricated studies.

.venv/bin/python benchmarks/speedup_coverage.py [--csv docs/results/benchmarks/speedup_coverage.csv]

The reference follows loss = 2 + horizon^-0.4, an arm reaches the loss of `speedup` times its steps. Final values have
normal noise, of which a share is common to a seed in all trainings. For comparison: a percentile bootstrap over seeds.
"""

from itertools import product

import numpy as np
from csv_files import csv_parser, write_csv

from fairbench.analysis.statistics.significance import summarize, welch
from fairbench.analysis.statistics.speedup import reach

STUDIES = 2000
SEEDS = 5
RESAMPLES = 999
HORIZONS = ((0.5, 0.71, 1.0, 1.41, 2.0), (0.5, 0.71, 1.0, 1.41, 2.0, 2.83))
SPEEDUPS = (1.0, 1.1, 1.4, 2.0)
NOISES = (0.003, 0.01, 0.03)
SHARED = (0.0, 0.8)


def studies(horizons: tuple[float, ...], noise: float, shared: float, speedup: float) -> dict[str, str | int | float]:
    """The shares of studies whose interval covers the speed-up, and that claim one."""
    generator = np.random.default_rng(0)
    means = 2.0 + np.array([*horizons, speedup]) ** -0.4
    same_horizon = horizons.index(1.0)
    covered = []
    claimed = []
    resampled = []
    for _ in range(STUDIES):
        common = generator.normal(size=SEEDS)
        own = generator.normal(size=(len(means), SEEDS))
        scatter = np.sqrt(shared) * common + np.sqrt(1 - shared) * own
        *curve, values = means[:, None] + noise * scatter
        found = reach(np.array(horizons), np.array(curve), values)
        low = found.ci_low or 0.0
        high = found.ci_high or np.inf
        covered.append(low <= speedup <= high)
        test = welch(summarize([*curve[same_horizon]]), summarize([*values]))
        better = test.p is not None and test.p < 0.05 and test.difference > 0
        claimed.append(better and low > 1)
        low, high = bootstrap(generator, np.array(horizons), np.array(curve), values)
        resampled.append(low <= speedup <= high)
    return {
        "longest": horizons[-1],
        "noise": noise,
        "shared": shared,
        "speedup": speedup,
        "seeds": SEEDS,
        "coverage": share_of(covered),
        "claimed": share_of(claimed),
        "coverage_of_bootstrap": share_of(resampled),
    }


def share_of(cases: list[bool]) -> float:
    """The share of true cases."""
    return round(float(np.mean(cases)), 4)


def bootstrap(
    generator: np.random.Generator, horizons: np.ndarray, curve: np.ndarray, values: np.ndarray
) -> tuple[float, float]:
    """The interval over resampled seeds; an end at that of the curve is open."""
    drawn = generator.integers(0, SEEDS, (RESAMPLES, SEEDS))
    falling = np.minimum.accumulate(curve[:, drawn].mean(axis=2), axis=0).T
    wanted = values[drawn].mean(axis=1)
    reached = [np.interp(-x, -y, np.log(horizons)) for x, y in zip(wanted, falling, strict=True)]
    low, high = np.exp(np.percentile(reached, [2.5, 97.5]))
    if low <= horizons[0]:
        low = 0.0
    if high >= horizons[-1]:
        high = np.inf
    return low, high


def main() -> None:
    """Print the table, and write it as CSV if requested."""
    parser = csv_parser(__doc__)
    options = parser.parse_args()
    rows = []
    for case in product(HORIZONS, NOISES, SHARED, SPEEDUPS):
        rows.append(studies(*case))
        print("  ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    if options.csv:
        write_csv(rows, options.csv)


if __name__ == "__main__":
    main()
