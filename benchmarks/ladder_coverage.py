"""How often intervals of a ladder cover, and how often its verdicts are right, in fabricated studies of known laws.

nice .venv/bin/python benchmarks/ladder_coverage.py [--csv docs/results/benchmarks/ladder_coverage.csv]

A study has 4 sizes, 3 horizons, 3 optimizers and 5 seeds. One optimizer has the speed-up and the trend of the row, the
other one the same speed-up and no trend. "detectable" is the trend that `detectable_trend` forecasts by default, which
at least 90% of the studies should find. Seeds are normal, with a standard deviation of 0.02:

* independent: in every cell;
* by cell: half the variance is shared by the optimizers of a size and horizon, which have the same batches;
* by optimizer: half the variance is shared by all cells of an optimizer.

`false_verdict` is the share of studies in which an optimizer without a trend grows or shrinks. The bootstrap over seeds
is exact: all resamples of 5 seeds with their probabilities, and the 95% between their percentiles, in 500 studies.
"""

import math
from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
from csv_files import csv_parser, write_csv
from numpy.typing import NDArray

from fairbench.analysis.statistics.least_squares import Observations
from fairbench.analysis.statistics.scaling_law import Law, SpeedUp
from fairbench.analysis.statistics.significance import TTest
from fairbench.analysis.statistics.trend import detectable_trend, judge_trends

Array = NDArray[np.floating[Any]]
STUDIES = 2000
BOOTSTRAPPED = 500
SEEDS = 5
SPREAD = 0.02
SIZES = (1e6, 2.5e6, 6.3e6, 16e6)
HORIZONS = (0.5, 1.0, 2.0)
OPTIMIZERS = ("reference", "tested", "constant")
SHARED = ("independent", "by cell", "by optimizer")
SPEED_UPS = (1.0, 1.1, 1.4, 2.0)
TRENDS = {"none": 0.0, "detectable": 1.0, "-detectable": -1.0, "half": 0.5}
VERDICTS = ("grows", "shrinks", "holds", "cannot be told")
CENTER = float(np.exp(np.log(SIZES).mean()))
CELLS = []
for size, horizon, optimizer in product(SIZES, HORIZONS, OPTIMIZERS):
    CELLS.append((size, 4000 * horizon * size / SIZES[0], optimizer))
DESIGN = (
    np.array([size for size, _, _ in CELLS]),
    np.array([steps for _, steps, _ in CELLS]),
    [optimizer for _, _, optimizer in CELLS],
)
MULTISETS = list(combinations_with_replacement(range(SEEDS), SEEDS))


def orders(resample: tuple[int, ...]) -> float:
    """The number of orders in which a resample is drawn."""
    same = map(math.factorial, np.bincount(resample))
    return math.factorial(SEEDS) / math.prod(same)


WEIGHTS = np.array([orders(resample) for resample in MULTISETS])


def law_of(speed_up: float, trend: float) -> Law:
    """The true law."""
    log = TTest(math.log(speed_up))
    tested = SpeedUp("tested", log=log, trend=TTest(trend))
    constant = SpeedUp("constant", log=log, trend=TTest(0.0))
    return Law(
        reference="reference",
        E=1.7,
        A=240.0,
        alpha=0.4,
        B=25.0,
        beta=0.35,
        center=CENTER,
        largest=SIZES[-1],
        speed_ups=(tested, constant),
    )


def scatter(shared: str, generator: np.random.Generator) -> Array:
    """What the seeds add to the losses, cells x seeds."""
    shape = (len(SIZES) * len(HORIZONS), len(OPTIMIZERS), SEEDS)
    own = generator.standard_normal(shape)
    if shared != "independent":
        common = (shape[0], 1, SEEDS) if shared == "by cell" else (1, shape[1], SEEDS)
        own = (own + generator.standard_normal(common)) / math.sqrt(2)
    return SPREAD * own.reshape(-1, SEEDS)


def covariance(shared: str) -> Array:
    """The covariance of the cells over the seeds."""
    own = np.eye(len(CELLS))
    if shared == "independent":
        return SPREAD**2 * own
    same = np.zeros_like(own)
    for (i, a), (j, b) in product(enumerate(CELLS), enumerate(CELLS)):
        if shared == "by cell":
            same[i, j] = a[:2] == b[:2]
        else:
            same[i, j] = a[2] == b[2]
    return SPREAD**2 * ((own + same) / 2)


def bootstrap(losses: Array, true: Law) -> list[bool]:
    """Whether the percentiles of the tested optimizer's log speed-up and trend cover the true values."""
    cells = Observations.of(DESIGN[0] / CENTER, DESIGN[1] / 1e4, DESIGN[2], OPTIMIZERS[1:])
    best = cells.best(losses.mean(axis=1))
    fits = []
    for resample in MULTISETS:
        parameters, _ = cells.solve(losses[:, resample].mean(axis=1), best)
        fits.append(parameters[[-4, -2]])
    covers = []
    for values, value in zip(np.transpose(fits), truth(true), strict=True):
        below = WEIGHTS[values < value].sum() / WEIGHTS.sum()
        covers.append(0.025 <= below <= 0.975)
    return covers


def truth(law: Law) -> tuple[float, float]:
    """The tested optimizer's log speed-up and trend."""
    tested = law.speed_ups[0]
    return tested.log.difference, tested.trend.difference


def row(shared: str, speed_up: float, name: str, studies: int) -> dict[str, str | float]:
    """The shares of the studies of a kind."""
    detectable = detectable_trend(*DESIGN, SEEDS, law_of(speed_up, 0.0), covariance(shared))["tested"]
    true = law_of(speed_up, TRENDS[name] * detectable)
    generator = np.random.default_rng(0)
    means = np.array([true.predict(*cell).loss for cell in CELLS])[:, None]
    covered = []
    bootstrapped = []
    verdicts = []
    for study in range(studies):
        losses = means + scatter(shared, generator)
        law, trends = judge_trends(*DESIGN[:2], losses, DESIGN[2], "reference")
        tested = law.speed_ups[0]
        log, exponent = truth(true)
        covers_log = tested.log.ci_low <= log <= tested.log.ci_high
        covers_exponent = tested.trend.ci_low <= exponent <= tested.trend.ci_high
        covered.append([covers_log, covers_exponent])
        verdicts.append([trend.verdict for trend in trends])
        if (speed_up, name) == (1.4, "none") and study < BOOTSTRAPPED:
            bootstrapped.append(bootstrap(losses, true))
    found = {x: [tested for tested, _ in verdicts].count(x) / studies for x in VERDICTS}
    flat = slice(None) if name == "none" else slice(1, None)
    false = [any(x in ("grows", "shrinks") for x in both[flat]) for both in verdicts]
    of_bootstrap = np.mean(bootstrapped, axis=0).tolist() if bootstrapped else ["", ""]
    return {
        "seeds_shared": shared,
        "speed_up": speed_up,
        "trend": name,
        "t": round(truth(true)[1], 5),
        "covers_speed_up": np.mean(covered, axis=0)[0],
        "covers_trend": np.mean(covered, axis=0)[1],
        **{x.replace(" ", "_"): share for x, share in found.items()},
        "false_verdict": np.mean(false),
        "bootstrap_covers_speed_up": of_bootstrap[0],
        "bootstrap_covers_trend": of_bootstrap[1],
        "studies": studies,
    }


def rows(studies: int) -> Iterator[dict[str, str | float]]:
    """Every row of the table."""
    for shared in SHARED:
        for speed_up in SPEED_UPS:
            for name in list(TRENDS)[: None if shared == "independent" else -1]:
                yield row(shared, speed_up, name, studies)


def main() -> None:
    """Print the table, and write it as CSV if requested."""
    parser = csv_parser(__doc__)
    parser.add_argument("--studies", type=int, default=STUDIES)
    options = parser.parse_args()
    table = []
    for one in rows(options.studies):
        table.append({key: round(x, 4) if isinstance(x, float) else x for key, x in one.items()})
        print("  ".join(f"{name} {value}" for name, value in table[-1].items()), flush=True)
    if options.csv:
        write_csv(table, options.csv)


if __name__ == "__main__":
    main()
