"""How often verdicts are false or missed with looks, and with a fixed number of seeds.

nice .venv/bin/python benchmarks/look_error.py [--csv docs/results/benchmarks/look_error.csv]

A study of 4 arenas and 3 baselines, judged by the paired test; the difference of a pair has a standard deviation of 1.
Skewed scores are exponential, heavy-tailed ones have Student's t distribution with 3 degrees of freedom. In each row
10,000 studies, the same ones for every design. "Any stopping" counts a study if any look, with all seeds up to it,
would give the false verdict.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from csv_files import write_csv
from scipy import special

from fairbench.analysis.statistics.sequential import Design

STUDIES, ARENAS, BASELINES, ALPHA = 10_000, 4, 3, 0.05
COMPARED, SEEDS = ARENAS * BASELINES, 20
LOOKS = {"looks": (5, 10, 20), "fixed": (20,), "undeclared looks": (5, 10, 20)}
DESIGNS = [("fixed", "obrien-fleming"), ("looks", "obrien-fleming"), ("looks", "pocock")]
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


def levels(design: str, spending: str) -> tuple[np.ndarray, list[float]]:
    """Of each step of Holm's correction and each look the level of p; of each look that of the equivalence test."""
    looks = LOOKS[design]
    steps = [ALPHA / (COMPARED - step) for step in range(COMPARED)]
    if design != "looks":
        return np.array([[step] * len(looks) for step in steps]), [ALPHA] * len(looks)
    plan, numbers = Design(looks, spending, ALPHA), range(len(looks))
    nominal = [[plan.nominal_level(k, step) for k in numbers] for step in steps]
    return np.array(nominal), [plan.nominal_level(k, ALPHA, 1) for k in numbers]


def rejected(failed: np.ndarray) -> np.ndarray:
    """The comparisons that Holm's correction rejects, from the number of steps whose levels each one exceeds."""
    order = np.argsort(failed, axis=-1, kind="stable")
    passed = np.logical_and.accumulate(np.take_along_axis(failed, order, -1) <= np.arange(COMPARED), axis=-1)
    back = np.empty_like(passed)
    np.put_along_axis(back, order, passed, -1)
    return back


def study(kind: str, case: tuple[str, float, float], design: str, spending: str) -> dict[str, str | int | float]:
    """The row of the studies of a kind with a design."""
    which, difference, margin = case
    true = np.zeros(COMPARED)
    true[: {"none": 0, "one": 1, "all": COMPARED}[which]] = difference
    generator = np.random.default_rng(0)
    reference = scores(kind, generator, STUDIES, ARENAS, 1, SEEDS)
    baselines = scores(kind, generator, STUDIES, ARENAS, BASELINES, SEEDS) - true.reshape(ARENAS, BASELINES, 1)

    steps, equivalence = levels(design, spending)
    open_ = np.ones((STUDIES, COMPARED), bool)
    failed, lowest = (np.full((STUDIES, COMPARED), COMPARED) for _ in range(2))
    sign, seeds = np.zeros((STUDIES, COMPARED)), np.zeros((STUDIES, COMPARED), int)
    within, ever_within, ever_false = np.zeros_like(open_), np.zeros_like(open_), np.zeros(STUDIES, bool)
    for k, n in enumerate(LOOKS[design]):
        gap, error = paired(reference[..., :n], baselines[..., :n])
        p, p_within = 2 * special.stdtr(n - 1, -abs(gap) / error), special.stdtr(n - 1, -(margin - abs(gap)) / error)
        failing, equivalent = (p[..., None] > steps[:, k]).sum(-1), p_within <= equivalence[k]
        lowest, ever_within = np.minimum(lowest, failing), ever_within | equivalent
        ever_false |= (rejected(lowest) & (true == 0)).any(-1)
        failed, within = np.where(open_, failing, failed), np.where(open_, equivalent, within)
        sign, seeds = np.where(open_, np.sign(gap), sign), np.where(open_, n, seeds)
        open_ = open_ & ~rejected(failed) & ~within
    verdict = rejected(failed) & ~within
    of_reference = seeds.reshape(STUDIES, ARENAS, BASELINES).max(-1)
    differing = slice(None) if which != "one" else slice(1)
    return {
        "scores": kind,
        "design": design,
        "spending": spending if design == "looks" else "",
        "differing": which,
        "difference": difference,
        "margin": margin,
        "false_verdict": round(float((verdict & (true == 0)).any(-1).mean()), 4),
        "false_verdict_any_stopping": round(float(ever_false.mean()), 4),
        "false_equivalence": round(float(within.mean(0).max()), 4) if margin == difference else "",
        "false_equivalence_any_stopping": round(float(ever_within.mean(0).max()), 4) if margin == difference else "",
        "power": round(float((verdict & (sign > 0))[:, differing].mean()), 4) if difference else "",
        "median_seeds": float(np.median(seeds[:, differing])),
        "mean_seeds": round(float(seeds[:, differing].mean()), 2),
        "trials": round(float((seeds.sum(-1) + of_reference.sum(-1)).mean()), 1),
    }


def rows() -> Iterator[dict[str, str | int | float]]:
    """Every row of the table."""
    for kind in SCORES:
        yield study(kind, CASES[0], "undeclared looks", "")
        for case in CASES:
            for design in DESIGNS:
                yield study(kind, case, *design)


def main() -> None:
    """Print the table, and write it as CSV if requested."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    table = []
    for row in rows():
        table.append(row)
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    if options.csv:
        write_csv(table, options.csv)


if __name__ == "__main__":
    main()
