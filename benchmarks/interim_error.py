"""How often verdicts are false or missed with interim analyses, and with a fixed number of seeds.

nice .venv/bin/python benchmarks/interim_error.py [--csv docs/results/benchmarks/interim_error.csv]

A study of 4 arenas and 3 baselines, judged by the paired test; the difference of a pair has a standard deviation of 1.
Skewed scores are exponential, heavy-tailed ones have Student's t distribution with 3 degrees of freedom. In each row
10,000 studies, the same ones for every design. "Any stopping" counts a study if any interim analysis, with
all seeds up to it, would give the false verdict. A single error is one of a comparison alone, without Holm's
correction.
"""

from collections.abc import Iterator

import numpy as np
from csv_files import print_table
from scipy import special

from fairbench.analysis.statistics.sequential import Design
from fairbench.suites.stages import SPENDING

STUDIES = 10_000
ARENAS = 4
BASELINES = 3
COMPARED = ARENAS * BASELINES
ALPHA = 0.05
SEEDS = 20
FIXED = ((SEEDS,), "")
UNDECLARED = ((5, 10, SEEDS), "")
DESIGNS = [FIXED]
FEW = []
"""Interim analyses with few seeds, as small suites have them."""
for name in SPENDING:
    DESIGNS.append(((5, 10, SEEDS), name))
    FEW.append(((4, 8), name))
SCORES = ("normal", "skewed", "heavy-tailed")
AT_THE_MARGIN = [("all", 1.0, 1.0), ("all", 2.0, 2.0)]
CASES = [("none", 0.0, 0.1), *AT_THE_MARGIN]
for which in ("one", "all"):
    for difference in (0.9, 1.2, 1.5, 2.0):
        CASES.append((which, difference, 0.1))
"""How many comparisons have a true difference, its size, and the margin, in those standard deviations."""


def scores(kind: str, generator: np.random.Generator, *shape: int) -> np.ndarray:
    """Scores with mean 0, without what the seeds share, so that two arms differ with a standard deviation of 1."""
    if kind == "skewed":
        drawn = generator.standard_exponential(shape) - 1
    elif kind == "heavy-tailed":
        drawn = generator.standard_t(3, shape) / np.sqrt(3)
    else:
        drawn = generator.standard_normal(shape)
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


def study(
    kind: str, case: tuple[str, float, float], interim_analyses: tuple[int, ...], spending: str
) -> dict[str, str | float]:
    """The row of the studies of a kind with a design.

    Without a spending function each interim analysis has the whole level.
    """
    which, difference, margin = case
    count = {"none": 0, "one": 1, "all": COMPARED}[which]
    true = np.zeros(COMPARED)
    true[:count] = difference
    generator = np.random.default_rng(0)
    reference = scores(kind, generator, STUDIES, ARENAS, 1, SEEDS)
    baselines = scores(kind, generator, STUDIES, ARENAS, BASELINES, SEEDS)
    baselines = baselines - true.reshape(ARENAS, BASELINES, 1)

    design = "undeclared interim analyses"
    shares = [1.0] * len(interim_analyses)
    if len(interim_analyses) == 1:
        design = "fixed"
    if spending:
        design = "interim_analyses"
        shares = Design(interim_analyses, spending, ALPHA).shares
    shape = (STUDIES, COMPARED)
    undecided = np.ones(shape, bool)
    sign = np.zeros(shape)
    seeds = np.zeros(shape, int)
    last = np.ones(shape)
    last_within = np.ones(shape)
    lowest = np.ones(shape)
    lowest_within = np.ones(shape)
    for n, share in zip(interim_analyses, shares, strict=True):
        gap, error = paired(reference[..., :n], baselines[..., :n])
        p = 2 * special.stdtr(n - 1, -abs(gap) / error) / share
        p_within = special.stdtr(n - 1, -(margin - abs(gap)) / error) / share
        lowest = np.minimum(lowest, p)
        lowest_within = np.minimum(lowest_within, p_within)
        last = np.where(undecided, p, last)
        last_within = np.where(undecided, p_within, last_within)
        sign = np.where(undecided, np.sign(gap), sign)
        seeds = np.where(undecided, n, seeds)
        undecided = undecided & ~rejected(last) & (last_within > ALPHA)

    equal = true == 0
    within = last_within <= ALPHA
    verdict = rejected(last) & ~within
    false = (verdict & equal).any(-1)
    false_at_any_look = (rejected(lowest) & equal).any(-1)
    differing = slice(1) if which == "one" else slice(None)
    won = (verdict & (sign > 0))[:, differing]
    of_reference = seeds.reshape(STUDIES, ARENAS, BASELINES).max(-1)
    trials = seeds.sum(-1) + of_reference.sum(-1)
    single_error = ""
    power = ""
    if difference:
        power = share_of(won)
    else:
        single_error = share_of(lowest <= ALPHA)
    false_equivalence = ""
    false_equivalence_at_any_look = ""
    if margin == difference:
        false_equivalence = share_of(within)
        false_equivalence_at_any_look = share_of(lowest_within <= ALPHA)
    return {
        "scores": kind,
        "design": design,
        "interim_analyses": " ".join(map(str, interim_analyses)),
        "spending": spending,
        "differing": which,
        "difference": difference,
        "margin": margin,
        "false_verdict": share_of(false),
        "false_verdict_any_stopping": share_of(false_at_any_look),
        "single_error_any_stopping": single_error,
        "false_equivalence": false_equivalence,
        "false_equivalence_any_stopping": false_equivalence_at_any_look,
        "power": power,
        "median_seeds": float(np.median(seeds[:, differing])),
        "mean_seeds": round(float(seeds[:, differing].mean()), 2),
        "trials": round(float(trials.mean()), 1),
    }


def share_of(cases: np.ndarray) -> float:
    """The share of true cases."""
    return round(float(cases.mean()), 4)


def rows() -> Iterator[dict[str, str | float]]:
    """Every row of the table."""
    for kind in SCORES:
        yield study(kind, CASES[0], *UNDECLARED)
        for case in CASES:
            designs = [*DESIGNS]
            if case in CASES[:2]:
                designs += FEW
            for interim_analyses, spending in designs:
                yield study(kind, case, interim_analyses, spending)


if __name__ == "__main__":
    print_table(__doc__, rows())
