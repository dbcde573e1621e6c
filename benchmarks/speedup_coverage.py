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

STUDIES, SEEDS, RESAMPLES = 2000, 5, 999
HORIZONS = ((0.5, 0.71, 1.0, 1.41, 2.0), (0.5, 0.71, 1.0, 1.41, 2.0, 2.83))
SPEEDUPS, NOISES, SHARED = (1.0, 1.1, 1.4, 2.0), (0.003, 0.01, 0.03), (0.0, 0.8)


def studies(horizons: tuple[float, ...], noise: float, shared: float, speedup: float) -> dict[str, str | int | float]:
    """The shares of studies whose interval covers the speed-up, and that claim one."""
    generator = np.random.default_rng(0)
    means = 2.0 + np.array([*horizons, speedup]) ** -0.4
    covered, claimed, resampled = [], [], []
    for _ in range(STUDIES):
        common, own = generator.normal(size=SEEDS), generator.normal(size=(len(means), SEEDS))
        *curve, values = means[:, None] + noise * (np.sqrt(shared) * common + np.sqrt(1 - shared) * own)
        found = reach(np.array(horizons), np.array(curve), values)
        covered.append((found.ci_low or 0.0) <= speedup <= (found.ci_high or np.inf))
        test = welch(summarize([*curve[horizons.index(1.0)]]), summarize([*values]))
        better = test.p is not None and test.p < 0.05 and test.difference > 0
        claimed.append(better and found.ci_low is not None and found.ci_low > 1)
        low, high = bootstrap(generator, np.array(horizons), np.array(curve), values)
        resampled.append(low <= speedup <= high)
    shares = {"coverage": covered, "claimed": claimed, "coverage_of_bootstrap": resampled}
    kind = {"longest": horizons[-1], "noise": noise, "shared": shared, "speedup": speedup, "seeds": SEEDS}
    return {**kind, **{name: round(float(np.mean(of)), 4) for name, of in shares.items()}}


def bootstrap(
    generator: np.random.Generator, horizons: np.ndarray, curve: np.ndarray, values: np.ndarray
) -> tuple[float, float]:
    """The interval over resampled seeds; an end at that of the curve is open."""
    drawn = generator.integers(0, SEEDS, (RESAMPLES, SEEDS))
    falling = np.minimum.accumulate(curve[:, drawn].mean(axis=2), axis=0).T
    wanted = values[drawn].mean(axis=1)
    reached = [np.interp(-x, -y, np.log(horizons)) for x, y in zip(wanted, falling, strict=True)]
    low, high = np.exp(np.percentile(reached, [2.5, 97.5]))
    return (0.0 if low <= horizons[0] else low), (np.inf if high >= horizons[-1] else high)


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
