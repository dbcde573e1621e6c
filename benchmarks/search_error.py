"""How often a study calls one of two exchangeable optimizers better or worse, and how often it finds a true difference.

.venv/bin/python benchmarks/search_error.py [--studies 4000] [--csv docs/results/benchmarks/search_error.csv]

Every study is planned, selected and judged by the code that plans, selects and judges real ones: the suite `mini` with
other seeds, and margins so small that nothing is equivalent. Only the trainings are replaced by

    value = curvature * (index - optimum)^2 + 0.3 * (sqrt(rho) * seed + sqrt(1 - rho) * own)

index: of the rate on the grid; optimum: uniform, the same for every optimizer of an arena; seed: a normal effect that
all arms and rates share; own: normal noise of each training. Its validation value has further noise of its own, as a
share of 0.3. Where the curvature is 0.05, the optimum of the short trials lies one place too low.
"""

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from csv_files import write_csv

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fairbench"))
from fabricated import history

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.alternatives import DEPENDS
from fairbench.optimizers.spec import ResolvedOptimizer
from fairbench.study.plan import ResolvedArena, ResolvedSuite
from fairbench.study.record import Hashes, Record, Result, Seconds, TrialCost
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.loader import load_suite

NOISE = 0.3
COST = TrialCost(seconds=Seconds(*[0.0] * 7), steps=1, peak_memory_bytes=0, alone=True, data_on="cpu")
LOOKS = {4: [4, 8], 5: [], 8: []}
"""Looks, by the fewest seeds of an arm."""
EFFECT = 2.0
"""The true difference for the power, in standard deviations of a seed."""


@dataclass(frozen=True)
class Cell:
    """What the trainings of a study are like, and the seeds that it has.

    Attributes:
        rho: correlation of two arms over the seeds.
        curvature: of the metric over the rates, per place of the grid squared.
        validation_noise: noise that the test split does not share, as a share of the scatter of a seed.
        noisy: factor of the noise of one baseline.
        seeds: final seeds; with looks, the fewest.
    """

    rho: float
    curvature: float
    validation_noise: float
    noisy: float
    seeds: int


def the_study(seeds: int) -> ResolvedSuite:
    """The suite `mini` with a number of seeds, of which no code is loaded."""
    mini, looks = load_suite("mini"), LOOKS[seeds]
    arenas = {name: replace(plan, margin=1e-9) for name, plan in mini.arenas.items()}
    final = replace(mini.final, seeds=[*range(1, 1 + (looks or [seeds])[-1])], looks=looks)
    resolved = {name: ResolvedOptimizer(name, f"torch.optim:{name}", {}, {}, False, "", {}) for name in mini.optimizers}
    met = {name: ResolvedArena("", {}, {}) for name in arenas}
    return ResolvedSuite(replace(mini, arenas=arenas, final=final), "cpu", met, resolved, {})


class Trainings:
    """The records of a study, drawn when they are asked for."""

    def __init__(self, study: ResolvedSuite, cell: Cell, effect: float, random: np.random.Generator) -> None:
        self._study, self._cell, self._effect, self._random = study, cell, effect, random
        self._optimum = {arena: random.uniform(1, study.suite.sweep.points - 2) for arena in study.suite.arenas}
        self._search = study.search("AdamW")
        self._seeds: dict[tuple[str, int], float] = {}
        self.known: dict[tuple[str, str, str, float, int], Record] = {}

    def __call__(self, spec: TrialSpec) -> Record | None:
        """The record of a trial; None of a timing trial."""
        if spec.stage == "timing":
            return None
        key = (spec.stage, spec.arena.name, spec.optimizer.name, spec.lr, spec.seed)
        if key not in self.known:
            self.known[key] = self._record(spec)
        return self.known[key]

    def _record(self, spec: TrialSpec) -> Record:
        suite, arena, cell, normal = self._study.suite, spec.arena.name, self._cell, self._random.standard_normal
        short = spec.stage == "sweep"
        shift = 1.0 if short and cell.curvature < 0.1 else 0.0
        curve = cell.curvature * (self._search.index(spec.lr) - self._optimum[arena] + shift) ** 2
        if short:
            test = curve + NOISE * normal()
        else:
            seed = self._seeds.setdefault((arena, spec.seed), normal())
            scale = cell.noisy if spec.optimizer.name == "Lion" else 1.0
            effect = self._effect if spec.optimizer.name == "PsiLogic" else 0.0
            own = scale * (sqrt(cell.rho) * seed + sqrt(1 - cell.rho) * normal())
            test = curve + NOISE * (own - effect)
        val = test + cell.validation_noise * NOISE * normal()
        sign, metric = -suite.sign(arena), suite.arenas[arena].metric
        final = {
            split: {**dict.fromkeys(suite.metrics[arena], 0.0), metric: sign * value}
            for split, value in (("val", val), ("test", test))
        }
        hashes = Hashes("", "", "", f"{spec.optimizer.name} {spec.lr}")
        result = Result(spec.training.steps, final, hashes, 1, 0.0, None)
        return Record(id="", stage=spec.stage, status="finished", result=result, cost=COST, environment={})


def studies(cell: Cell, number: int, effect: float) -> Iterator[tuple[Analyses, int]]:
    """Studies that ran, with their numbers of final trainings."""
    study, random = the_study(cell.seeds), np.random.default_rng(1)
    plans = history(study)
    for _ in range(number):
        trainings = Trainings(study, cell, effect, random)
        analyses = Analyses(plans, trainings)
        assert all(c.verdict in ("better", "worse", "inconclusive") for c in analyses.comparisons)
        yield analyses, sum(key[0] == "final" for key in trainings.known)


def row(cell: Cell, number: int) -> dict[str, Any]:
    """The errors, the power and the cost in a cell."""
    errors = withheld = found = compared = trainings = 0
    for analyses, _ in studies(cell, number, 0.0):
        errors += any(c.verdict != "inconclusive" for c in analyses.comparisons)
        withheld += any(DEPENDS in c.note for c in analyses.comparisons)
    for analyses, trained in studies(cell, number // 8, EFFECT):
        found += sum(c.verdict == "better" for c in analyses.comparisons)
        compared, trainings = compared + len(analyses.comparisons), trainings + trained
    shares = {"any_false_verdict": errors / number, "withheld": withheld / number, "power": found / compared}
    arms = number // 8 * len(the_study(cell.seeds).suite.arms)
    looks = " ".join(map(str, LOOKS[cell.seeds]))
    return {**vars(cell), "looks": looks, **shares, "trainings": round(trainings / arms, 1), "studies": number}


def main() -> None:
    """Print the table, and write it as CSV if requested."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=4000)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    cells = [Cell(*x) for x in product((0.0, 0.5, 0.9), (0.05, 0.2, 1.0), (0.1, 0.5), (1.0, 3.0), LOOKS)]
    rows = []
    with ProcessPoolExecutor(2) as pool:
        for found in pool.map(row, cells, [options.studies] * len(cells)):
            rows.append(found)
            print(found, flush=True)
    if options.csv:
        write_csv(rows, options.csv)


if __name__ == "__main__":
    main()
