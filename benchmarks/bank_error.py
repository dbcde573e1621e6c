"""How often studies of real trainings find a difference between two optimizers that do the same at their best rates.

.venv/bin/python benchmarks/training_bank.py --csv docs/results/benchmarks/training_bank.csv
.venv/bin/python benchmarks/bank_error.py [--studies 2000] [--csv docs/results/benchmarks/bank_error.csv]

Every study has one arena and two copies of AdamW of the bank: copies that do the same at every rate, or one whose best
rate lies half a step of the grid away from the other's. It is planned, selected and judged by the code that
plans, selects and judges real ones, with a margin so small that nothing is equivalent. Its seeds are drawn from those
of the bank without replacement: the same for both copies, as in every study, or other ones for each. A rate outside of
the bank counts as diverged.
"""

import sys
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from csv_files import csv_parser, read_csv, write_csv
from search_error import record_of, the_study

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fairbench"))
from fabricated import history

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.alternatives import DEPENDS
from fairbench.study.record import Record
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.study.trial_spec import TrialSpec

Copies = dict[str, str]
"""The copy of the bank that takes the place of each optimizer."""
COPIES: dict[str, Copies] = {
    "the same": {"AdamW": "0", "PsiLogic": "1"},
    "half a step away": {"AdamW": "0", "PsiLogic": "2"},
}
"""The compared copies, by where the best rate of the second one lies."""
Bank = dict[tuple[str, int, str, int], dict[str, str]]
"""Rows by copy, steps, rate and seed."""


def study_of(arena: str, rates: list[float], seeds: int) -> ResolvedSuite:
    """A study of two copies in one arena, searched over the rates of the bank."""
    study = the_study(seeds)
    names = next(iter(COPIES.values()))
    suite = replace(
        study.suite,
        arenas={arena: study.suite.arenas[arena]},
        optimizers={name: study.suite.optimizers[name] for name in names},
        sweep=replace(study.suite.sweep, lr_min=rates[0], lr_max=rates[-1], points=len(rates), budget=len(rates)),
        final=replace(study.suite.final, seeds=[*range(1, 1 + seeds)], interim_analyses=[]),
    )
    optimizers = {name: study.optimizers[name] for name in names}
    return replace(study, suite=suite, arenas={arena: study.arenas[arena]}, optimizers=optimizers)


@dataclass(frozen=True)
class BankRecords:
    """The records of a study: each has the values of the training of the bank that takes its trial's place.

    Attributes:
        copies: the copy of each optimizer.
        seeds: the seed of the bank by that of the study, for each optimizer.
        metrics: those of the arena.
        metric: the primary one.
    """

    bank: Bank
    copies: Copies
    seeds: dict[str, dict[int, int]]
    metrics: Collection[str]
    metric: str

    def __call__(self, spec: TrialSpec) -> Record | None:
        """The record of a trial; None of a timing trial."""
        if spec.stage == "timing":
            return None
        name = spec.optimizer.name
        seed = self.seeds[name][spec.seed]
        row = self.bank.get((self.copies[name], spec.training.steps, f"{spec.lr:.3g}", seed))
        if not row or not row["val"]:
            return record_of(spec, "diverged", None)
        others = dict.fromkeys(self.metrics, 0.0)
        val = float(row["val"])
        test = float(row["test"] or row["val"])
        final = {"val": {**others, self.metric: val}, "test": {**others, self.metric: test}}
        return record_of(spec, "finished", final)


def row(
    arena: str, rows: list[dict[str, str]], best_rate: str, seeds: int, same_seeds: bool, studies: int
) -> dict[str, Any]:
    """The share of studies with a false difference, and how large the difference is on average."""
    rates = sorted({float(training["lr"]) for training in rows})
    of_bank = sorted({int(training["seed"]) for training in rows})
    bank: Bank = {}
    for training in rows:
        rate = f"{float(training['lr']):.3g}"
        bank[training["copy"], int(training["steps"]), rate, int(training["seed"])] = training
    study = study_of(arena, rates, seeds)
    plans = history(study)
    metrics = study.suite.metrics[arena]
    metric = study.suite.arenas[arena].metric
    own = [*study.suite.sweep.seeds, *study.suite.final.seeds]
    random = np.random.default_rng(1)
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(studies):
        drawn = [int(seed) for seed in random.permutation(of_bank)]
        others = drawn if same_seeds else drawn[len(own) :]
        seeds_of = {
            "AdamW": dict(zip(own, drawn, strict=False)),
            "PsiLogic": dict(zip(own, others, strict=False)),
        }
        records = BankRecords(bank, COPIES[best_rate], seeds_of, metrics, metric)
        (c,) = Analyses(plans, records).comparisons
        found["different"].append(c.verdict in ("better", "worse"))
        found["withheld"].append(DEPENDS in c.note)
        found["gain"].append(abs(c.gain or 0.0))
    return {
        "arena": arena,
        "best_rate": best_rate,
        "seeds": seeds,
        "same_seeds": same_seeds,
        "false_verdict": np.mean(found["different"]),
        "withheld": np.mean(found["withheld"]),
        "mean_difference": np.mean(found["gain"]),
        "studies": studies,
    }


def main() -> None:
    """Print the table, and write it as CSV if requested."""
    parser = csv_parser(__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--bank", type=Path, default=Path("docs/results/benchmarks/training_bank.csv"))
    options = parser.parse_args()
    by_arena: dict[str, list[dict[str, str]]] = defaultdict(list)
    for training in read_csv(options.bank):
        by_arena[training["arena"]].append(training)
    rows = []
    for (arena, trainings), best_rate, seeds, same in product(by_arena.items(), COPIES, (5, 8), (True, False)):
        rows.append(row(arena, trainings, best_rate, seeds, same, options.studies))
        print(*rows[-1].values(), sep="\t", flush=True)
    if options.csv:
        write_csv(rows, options.csv)


if __name__ == "__main__":
    main()
