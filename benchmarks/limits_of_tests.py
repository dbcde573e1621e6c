"""How often the verdicts of exchangeable optimizers are better or worse where the assumptions of their test fail.

.venv/bin/python benchmarks/limits_of_tests.py [--csv docs/results/benchmarks/limits_of_tests.csv]

A study of 4 arenas and 3 baselines, all with the same mean; p below 0.05 / 12 in any comparison is a false verdict.
"""

from math import log, sqrt

import numpy as np
from csv_files import csv_parser, write_csv
from scipy import stats

from fairbench.analysis.audit.assumptions import correlation_limit, spread_limit
from fairbench.suites.stages import TESTS

STUDIES, ARENAS, BASELINES = 50_000, 4, 3
SKEWED, NORMAL = "skewed", "normal"
CASES = [(kind, ratio, 0.0) for kind in (NORMAL, SKEWED) for ratio in (1.0, 4.0, 0.25)]
CASES += [(NORMAL, 1.0, -0.5), (NORMAL, 1.0, -0.9)]


def scores(kind: str, generator: np.random.Generator, *shape: int) -> np.ndarray:
    """Scores with mean 0 and standard deviation 1; skewed ones are exponential."""
    return generator.standard_exponential(shape) - 1 if kind == SKEWED else generator.standard_normal(shape)


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
        both = [x - x.mean(-1, keepdims=True) for x in (reference, baselines)]
        products = (both[0] * both[1]).sum(-1) / np.sqrt((both[0] ** 2).sum(-1) * (both[1] ** 2).sum(-1))
        flagged |= products.mean(1, keepdims=True) <= correlation_limit(seeds, ARENAS)
    alone = np.abs(logs) >= log(4)
    return {
        "test": test,
        "seeds": seeds,
        "scores": kind,
        "spread_of_baselines": ratio,
        "correlation": correlation,
        "false_verdict": round(float(false.any((1, 2)).mean()), 4),
        "not_flagged": round(float((false & ~flagged).any((1, 2)).mean()), 4),
        "flagged_pairs": round(float(flagged.mean()), 4),
        "own_ratio_4": round(float((false & alone).any((1, 2)).mean()), 4),
    }


def main() -> None:
    """Print the table, and write it as CSV if requested."""
    parser = csv_parser(__doc__)
    options = parser.parse_args()
    rows = [studies(test, *case, seeds) for case in CASES for test in TESTS for seeds in (3, 5, 10)]
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    if options.csv:
        write_csv(rows, options.csv)


if __name__ == "__main__":
    main()
