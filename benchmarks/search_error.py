"""How often a study of equally good optimizers has a false verdict, and how often it finds a true difference.

.venv/bin/python benchmarks/search_error.py [--studies 1000] [--csv docs/results/benchmarks/search_error.csv]

Every study is planned, selected and judged by the code that plans, selects and judges real ones: the suite `mini` with
other seeds. Only the trainings are replaced by

    value = curvature * (index - optimum)^2 + 0.3 * (sqrt(rho) * seed + sqrt(1 - rho) * own) + split

index: of the rate on the grid; optimum: uniform, the same for every optimizer of an arena or one for each; seed: a
normal effect that all arms and rates share; own: normal noise of each training; split: what the choice of validation or
test examples adds to a setting in every seed. The validation value has further noise of its own. Noise and split are
shares of 0.3. Where the curvature is 0.05, the optimum of the short trials lies one place too low.

Three kinds of studies are counted: without any difference, for "better" and "worse"; with a true difference of two
standard deviations of a seed, for the power; and with a true difference of exactly the margin, for "equivalent".
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from csv_files import csv_parser, write_csv

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fairbench"))
from fabricated import history, resolved_optimizer

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.alternatives import DEPENDS
from fairbench.analysis.comparison.judge import FINER
from fairbench.study.record import Hashes, Record, Result, Seconds, TrialCost
from fairbench.study.resolved_suite import ResolvedArena, ResolvedSuite
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.loader import load_suite

NOISE = 0.3
NO_SECONDS = Seconds(data=0.0, forward=0.0, backward=0.0, step=0.0, eval=0.0, log=0.0, total=0.0)
COST = TrialCost(seconds=NO_SECONDS, steps=1, peak_memory_bytes=0, alone=True, data_on="cpu")
INTERIM_ANALYSES = {4: [4, 8], 5: [], 8: []}
"""Interim analyses, by the fewest seeds of an arm."""
RHOS = (0.0, 0.5, 0.9)
CURVATURES = (0.05, 0.2, 1.0)
VALIDATION_NOISES = (0.1, 0.5)
NOISY = 3.0
SPLITS = (0.25, 0.5, 1.0)
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
        seeds: final seeds; with interim analyses, the fewest.
        optimum: "shared" by the optimizers of an arena, or "own" for each.
        split: the effect of a split on a setting, as a share of the scatter of a seed.
    """

    rho: float
    curvature: float
    validation_noise: float
    noisy: float
    seeds: int
    optimum: str = "shared"
    split: float = 0.0


def cells() -> list[Cell]:
    """The cells of the table."""
    found = []
    for rho, curvature, noise in product(RHOS, CURVATURES, VALIDATION_NOISES):
        found.append(Cell(rho, curvature, noise, 1.0, 8))
    for rho, noise in product(RHOS, VALIDATION_NOISES):
        found.append(Cell(rho, 0.2, noise, 1.0, 4))
        found.append(Cell(rho, 0.2, noise, NOISY, 8))
    for rho, curvature in product(RHOS, CURVATURES):
        found.append(Cell(rho, curvature, 0.1, 1.0, 8, optimum="own"))
    for rho, split in product(RHOS, SPLITS):
        found.append(Cell(rho, 0.2, 0.1, 1.0, 8, split=split))
    return found


def the_study(seeds: int, margin: float = 1e-9) -> ResolvedSuite:
    """The suite `mini` with a number of seeds and a margin, of which no code is loaded."""
    mini = load_suite("mini")
    interim_analyses = INTERIM_ANALYSES[seeds]
    most = interim_analyses[-1] if interim_analyses else seeds
    final = replace(mini.final, seeds=[*range(1, 1 + most)], interim_analyses=interim_analyses)
    arenas = {name: replace(plan, margin=margin) for name, plan in mini.arenas.items()}
    return ResolvedSuite(
        suite=replace(mini, arenas=arenas, final=final),
        device="cpu",
        arenas={name: ResolvedArena(fingerprint="", code={}, starts={}) for name in arenas},
        optimizers={name: resolved_optimizer(name) for name in mini.optimizers},
        environment={},
    )


class Trainings:
    """The records of a study, drawn when they are asked for."""

    def __init__(self, study: ResolvedSuite, cell: Cell, effect: float, random: np.random.Generator) -> None:
        self._study = study
        self._cell = cell
        self._effect = effect
        self._random = random
        self._optima = {arm: random.uniform(1, study.suite.sweep.points - 2) for arm in study.suite.arms}
        self._split_effects: dict[tuple[str, str, str, float], float] = {}
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
        value = self._curve(spec)
        if spec.stage == "sweep":
            value += NOISE * self._random.standard_normal()
        else:
            value += NOISE * self._scatter(spec)
        test = value + self._split_effect(spec, "test")
        val = value + self._split_effect(spec, "val")
        val += self._cell.validation_noise * NOISE * self._random.standard_normal()
        suite = self._study.suite
        arena = spec.arena.name
        sign = -suite.sign(arena)
        others = dict.fromkeys(suite.metrics[arena], 0.0)
        metric = suite.arenas[arena].metric
        final = {"val": {**others, metric: sign * val}, "test": {**others, metric: sign * test}}
        return record_of(spec, "finished", final)

    def _curve(self, spec: TrialSpec) -> float:
        """What the learning rate of a trial costs."""
        cell = self._cell
        optimizer = spec.optimizer.name if cell.optimum == "own" else "AdamW"
        distance = self._search.index(spec.lr) - self._optima[spec.arena.name, optimizer]
        if spec.stage == "sweep" and cell.curvature < 0.1:
            distance += 1.0
        return cell.curvature * distance**2

    def _split_effect(self, spec: TrialSpec, split: str) -> float:
        """What the choice of the examples of a split adds to a setting, in every seed."""
        if not self._cell.split:
            return 0.0
        key = (split, spec.arena.name, spec.optimizer.name, spec.lr)
        if key not in self._split_effects:
            self._split_effects[key] = self._cell.split * NOISE * self._random.standard_normal()
        return self._split_effects[key]

    def _scatter(self, spec: TrialSpec) -> float:
        """What the seed of a final trial adds, less the true difference, in standard deviations of a seed."""
        cell = self._cell
        normal = self._random.standard_normal
        seed = self._seeds.setdefault((spec.arena.name, spec.seed), normal())
        scatter = sqrt(cell.rho) * seed + sqrt(1 - cell.rho) * normal()
        if spec.optimizer.name == "Lion":
            scatter *= cell.noisy
        if spec.optimizer.name == "PsiLogic":
            scatter -= self._effect
        return scatter


def record_of(spec: TrialSpec, status: str, final: dict[str, dict[str, float]] | None) -> Record:
    """The record of a trial with these final metrics."""
    hashes = Hashes(
        initial_weights="",
        batches="",
        noise="",
        final_weights=f"{spec.optimizer.name} {spec.lr}",
    )
    result = Result(
        steps=spec.training.steps,
        final=final,
        hashes=hashes,
        parameters=1,
        clip_rate=0.0,
        path_length=None,
    )
    return Record(id="", stage=spec.stage, status=status, result=result, cost=COST, environment={})


def studies(cell: Cell, number: int, effect: float, margin: float = 1e-9) -> Iterator[tuple[Analyses, int]]:
    """Studies that ran, with their numbers of final trainings."""
    study = the_study(cell.seeds, margin)
    random = np.random.default_rng(1)
    plans = history(study)
    for _ in range(number):
        trainings = Trainings(study, cell, effect, random)
        analyses = Analyses(plans, trainings)
        assert analyses.comparisons  # which asks for all trainings
        yield analyses, sum(key[0] == "final" for key in trainings.known)


def row(cell: Cell, number: int) -> dict[str, Any]:
    """The errors, the power and the cost in a cell."""
    errors = 0
    depends = 0
    finer = 0
    for analyses, _ in studies(cell, number, 0.0):
        errors += any(c.verdict in ("better", "worse") for c in analyses.comparisons)
        depends += any(DEPENDS in c.note for c in analyses.comparisons)
        finer += any(FINER in c.note for c in analyses.comparisons)
    equivalent = 0
    for analyses, _ in studies(cell, number // 2, EFFECT, margin=EFFECT * NOISE):
        equivalent += any(c.verdict == "equivalent" for c in analyses.comparisons)
    found = 0
    compared = 0
    trainings = 0
    for analyses, trained in studies(cell, number // 8, EFFECT):
        found += sum(c.verdict == "better" for c in analyses.comparisons)
        compared += len(analyses.comparisons)
        trainings += trained
    arms = number // 8 * len(the_study(cell.seeds).suite.arms)
    return {
        **vars(cell),
        "interim_analyses": " ".join(map(str, INTERIM_ANALYSES[cell.seeds])),
        "any_false_verdict": errors / number,
        "any_false_equivalent": equivalent / (number // 2),
        "depends_on_the_setting": depends / number,
        "finer_search": finer / number,
        "power": found / compared,
        "trainings": round(trainings / arms, 1),
        "studies": number,
    }


def main() -> None:
    """Print the table, and write it as CSV if requested."""
    parser = csv_parser(__doc__)
    parser.add_argument("--studies", type=int, default=1000)
    options = parser.parse_args()
    planned = cells()
    rows = []
    with ProcessPoolExecutor(2) as pool:
        for found in pool.map(row, planned, [options.studies] * len(planned)):
            rows.append(found)
            print(found, flush=True)
    if options.csv:
        write_csv(rows, options.csv)


if __name__ == "__main__":
    main()
