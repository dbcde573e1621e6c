"""How often the verdicts of exchangeable optimizers are better or worse where the assumptions of their test fail.

.venv/bin/python benchmarks/limits_of_tests.py [--csv docs/results/benchmarks/limits_of_tests.csv]

A study of 4 arenas and 3 baselines, all with the same mean; p below 0.05 / 12 in any comparison is a false verdict.
"""

from itertools import product
from math import log, sqrt

import numpy as np
from csv_files import csv_parser, write_csv
from scipy import stats

from fairbench.analysis.audit.assumptions import correlation_limit, spread_limit
from fairbench.suites.stages import TESTS

STUDIES = 50_000
ARENAS = 4
BASELINES = 3
SKEWED = "skewed"
NORMAL = "normal"
CASES = [
    (NORMAL, 1.0, 0.0),
    (NORMAL, 4.0, 0.0),
    (NORMAL, 0.25, 0.0),
    (SKEWED, 1.0, 0.0),
    (SKEWED, 4.0, 0.0),
    (SKEWED, 0.25, 0.0),
    (NORMAL, 1.0, -0.5),
    (NORMAL, 1.0, -0.9),
]
"""Kinds of scores, ratios of the spreads, and correlations over the seeds."""


def scores(kind: str, generator: np.random.Generator, *shape: int) -> np.ndarray:
    """Scores with mean 0 and standard deviation 1; skewed ones are exponential."""
    if kind == SKEWED:
        return generator.standard_exponential(shape) - 1
    return generator.standard_normal(shape)


def correlations(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Pearson's correlation of two arms over the seeds, the last axis."""
    a = a - a.mean(-1, keepdims=True)
    b = b - b.mean(-1, keepdims=True)
    products = (a * b).sum(-1)
    squares = (a**2).sum(-1) * (b**2).sum(-1)
    return products / np.sqrt(squares)


def share_of_studies(comparisons: np.ndarray) -> float:
    """The share of studies in which a statement is true of any comparison."""
    return round(float(comparisons.any((1, 2)).mean()), 4)


def studies(test: str, kind: str, ratio: float, correlation: float, seeds: int) -> dict[str, str | int | float]:
    """The shares of studies with a false verdict, and with one that the audit does not flag."""
    generator = np.random.default_rng(0)
    reference = scores(kind, generator, STUDIES, ARENAS, 1, seeds)
    own = scores(kind, generator, STUDIES, ARENAS, BASELINES, seeds)
    baselines = ratio * (correlation * reference + sqrt(1 - correlation**2) * own)
    if test == "paired":
        p = stats.ttest_1samp(baselines - reference, 0, axis=-1).pvalue
    else:
        p = stats.ttest_ind(reference, baselines, axis=-1, equal_var=False).pvalue
    false = p < 0.05 / (ARENAS * BASELINES)

    logs = np.log(baselines.std(-1, ddof=1) / reference.std(-1, ddof=1))
    flagged = np.abs(logs.mean(1, keepdims=True)) >= log(spread_limit(seeds, ARENAS))
    if test == "welch":
        found = correlations(reference, baselines).mean(1, keepdims=True)
        flagged |= found <= correlation_limit(seeds, ARENAS)
    alone = np.abs(logs) >= log(4)
    return {
        "test": test,
        "seeds": seeds,
        "scores": kind,
        "spread_of_baselines": ratio,
        "correlation": correlation,
        "false_verdict": share_of_studies(false),
        "not_flagged": share_of_studies(false & ~flagged),
        "flagged_pairs": round(float(flagged.mean()), 4),
        "own_ratio_4": share_of_studies(false & alone),
    }


def main() -> None:
    """Print the table, and write it as CSV if requested."""
    parser = csv_parser(__doc__)
    options = parser.parse_args()
    rows = []
    for (kind, ratio, correlation), test, seeds in product(CASES, TESTS, (3, 5, 10)):
        rows.append(studies(test, kind, ratio, correlation, seeds))
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    if options.csv:
        write_csv(rows, options.csv)


if __name__ == "__main__":
    main()
