"""How often verdicts are false or missed with looks, and with a fixed number of seeds.

nice .venv/bin/python benchmarks/look_error.py [--csv docs/results/benchmarks/look_error.csv]

A study of 4 arenas and 3 baselines, judged by the paired test; the difference of a pair has a standard deviation of 1.
Skewed scores are exponential, heavy-tailed ones have Student's t distribution with 3 degrees of freedom. In each row
10,000 studies, the same ones for every design. "Any stopping" counts a study if any look, with all seeds up to it,
would give the false verdict. A single error is one of a comparison alone, without Holm's correction.
"""

from collections.abc import Iterator

import numpy as np
from csv_files import csv_parser, write_csv
from scipy import special

from fairbench.analysis.statistics.sequential import Design
from fairbench.suites.stages import SPENDING

STUDIES, ARENAS, BASELINES, ALPHA = 10_000, 4, 3, 0.05
COMPARED, SEEDS = ARENAS * BASELINES, 20
FIXED, UNDECLARED = ((SEEDS,), ""), ((5, 10, 20), "")
DESIGNS = [FIXED, *(((5, 10, 20), spending) for spending in SPENDING)]
FEW = [((4, 8), spending) for spending in SPENDING]
"""Looks with few seeds, as small suites have them."""
SCORES = ("normal", "skewed", "heavy-tailed")
CASES = [("none", 0.0, 0.1), ("all", 1.0, 1.0), ("all", 2.0, 2.0)]
CASES += [(which, difference, 0.1) for which in ("one", "all") for difference in (0.9, 1.2, 1.5, 2.0)]
"""How many comparisons have a true difference, its size, and the margin, in those standard deviations."""


def scores(kind: str, generator: np.random.Generator, *shape: int) -> np.ndarray:
    """Scores with mean 0, without what the seeds share, so that two arms differ with a standard deviation of 1."""
    if kind == "skewed":
        return (generator.standard_exponential(shape) - 1) / np.sqrt(2)
    drawn = generator.standard_t(3, shape) / np.sqrt(3) if kind == "heavy-tailed" else generator.standard_normal(shape)
    return drawn / np.sqrt(2)


def paired(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean difference and standard error of the paired test."""
    differences = a - b
    error = differences.std(-1, ddof=1) / np.sqrt(differences.shape[-1])
    return differences.mean(-1).reshape(-1, COMPARED), error.reshape(-1, COMPARED)


def rejected(p: np.ndarray) -> np.ndarray:
    """The comparisons that Holm's correction rejects."""
    order = np.argsort(p, axis=-1, kind="stable")
    steps = ALPHA / (COMPARED - np.arange(COMPARED))
    passed = np.logical_and.accumulate(np.take_along_axis(p, order, -1) <= steps, axis=-1)
    back = np.empty_like(passed)
    np.put_along_axis(back, order, passed, -1)
    return back


def study(kind: str, case: tuple[str, float, float], looks: tuple[int, ...], spending: str) -> dict[str, str | float]:
    """The row of the studies of a kind with a design; without a spending function each look has the whole level."""
    which, difference, margin = case
    true = np.zeros(COMPARED)
    true[: {"none": 0, "one": 1, "all": COMPARED}[which]] = difference
    generator = np.random.default_rng(0)
    reference = scores(kind, generator, STUDIES, ARENAS, 1, SEEDS)
    baselines = scores(kind, generator, STUDIES, ARENAS, BASELINES, SEEDS) - true.reshape(ARENAS, BASELINES, 1)

    shares = Design(looks, spending, ALPHA).shares if spending else [1.0] * len(looks)
    open_ = np.ones((STUDIES, COMPARED), bool)
    sign, seeds = np.zeros((STUDIES, COMPARED)), np.zeros((STUDIES, COMPARED), int)
    last, lowest, last_within, lowest_within = (np.ones((STUDIES, COMPARED)) for _ in range(4))
    for n, share in zip(looks, shares, strict=True):
        gap, error = paired(reference[..., :n], baselines[..., :n])
        p = 2 * special.stdtr(n - 1, -abs(gap) / error) / share
        p_within = special.stdtr(n - 1, -(margin - abs(gap)) / error) / share
        lowest, lowest_within = np.minimum(lowest, p), np.minimum(lowest_within, p_within)
        last, last_within = np.where(open_, p, last), np.where(open_, p_within, last_within)
        sign, seeds = np.where(open_, np.sign(gap), sign), np.where(open_, n, seeds)
        open_ = open_ & ~rejected(last) & (last_within > ALPHA)
    within = last_within <= ALPHA
    verdict = rejected(last) & ~within
    of_reference = seeds.reshape(STUDIES, ARENAS, BASELINES).max(-1)
    differing = slice(None) if which != "one" else slice(1)
    return {
        "scores": kind,
        "design": "fixed" if len(looks) == 1 else "looks" if spending else "undeclared looks",
        "looks": " ".join(map(str, looks)),
        "spending": spending,
        "differing": which,
        "difference": difference,
        "margin": margin,
        "false_verdict": share_of((verdict & (true == 0)).any(-1)),
        "false_verdict_any_stopping": share_of((rejected(lowest) & (true == 0)).any(-1)),
        "single_error_any_stopping": "" if difference else share_of(lowest <= ALPHA),
        "false_equivalence": share_of(within) if margin == difference else "",
        "false_equivalence_any_stopping": share_of(lowest_within <= ALPHA) if margin == difference else "",
        "power": share_of((verdict & (sign > 0))[:, differing]) if difference else "",
        "median_seeds": float(np.median(seeds[:, differing])),
        "mean_seeds": round(float(seeds[:, differing].mean()), 2),
        "trials": round(float((seeds.sum(-1) + of_reference.sum(-1)).mean()), 1),
    }


def share_of(cases: np.ndarray) -> float:
    """The share of true cases."""
    return round(float(cases.mean()), 4)


def rows() -> Iterator[dict[str, str | float]]:
    """Every row of the table."""
    for kind in SCORES:
        yield study(kind, CASES[0], *UNDECLARED)
        for case in CASES:
            for design in DESIGNS + FEW * (case in CASES[:2]):
                yield study(kind, case, *design)


def main() -> None:
    """Print the table, and write it as CSV if requested."""
    parser = csv_parser(__doc__)
    options = parser.parse_args()
    table = []
    for row in rows():
        table.append(row)
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    if options.csv:
        write_csv(table, options.csv)


if __name__ == "__main__":
    main()
