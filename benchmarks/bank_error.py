"""How often studies of real trainings find a difference between two optimizers that do the same.

.venv/bin/python benchmarks/training_bank.py --csv docs/results/benchmarks/training_bank.csv
.venv/bin/python benchmarks/bank_error.py [--studies 2000] [--csv docs/results/benchmarks/bank_error.csv]

Every study has one arena and the two copies of AdamW of the bank. It is planned, selected and judged by the code that
plans, selects and judges real ones, with a margin so small that nothing is equivalent. Its seeds are drawn from those
of the bank without replacement: the same for both copies, as in every study, or other ones for each. A rate outside of
the bank counts as diverged.
"""

import argparse
import sys
from collections import defaultdict
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from csv_files import read_csv, write_csv
from search_error import COST, the_study

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fairbench"))
from fabricated import history

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.alternatives import DEPENDS
from fairbench.study.plan import ResolvedSuite
from fairbench.study.record import Hashes, Record, Result
from fairbench.study.trial_spec import TrialSpec

COPIES = {"AdamW": "0", "PsiLogic": "1"}
"""The copy of the bank that takes the place of each optimizer."""
Bank = dict[tuple[str, int, str, int], dict[str, str]]
"""Rows by copy, steps, rate and seed."""


def study_of(arena: str, rates: list[float], seeds: int) -> ResolvedSuite:
    """A study of the two copies in one arena, searched over the rates of the bank."""
    study = the_study(seeds)
    suite = replace(
        study.suite,
        arenas={arena: study.suite.arenas[arena]},
        optimizers={name: study.suite.optimizers[name] for name in COPIES},
        sweep=replace(study.suite.sweep, lr_min=rates[0], lr_max=rates[-1], points=len(rates), budget=len(rates)),
        final=replace(study.suite.final, seeds=[*range(1, 1 + seeds)], looks=[]),
    )
    optimizers = {name: study.optimizers[name] for name in COPIES}
    return replace(study, suite=suite, arenas={arena: study.arenas[arena]}, optimizers=optimizers)


def record(spec: TrialSpec, bank: Bank, seeds: dict[int, int], metrics: dict[str, str], metric: str) -> Record | None:
    """The record of a trial, with the values of the training of the bank that takes its place."""
    if spec.stage == "timing":
        return None
    row = bank.get((COPIES[spec.optimizer.name], spec.training.steps, f"{spec.lr:.3g}", seeds[spec.seed]))
    status, final = "diverged", None
    if row and row["val"]:
        values = {split: float(row[split] or row["val"]) for split in ("val", "test")}
        status, final = "finished", {x: {**dict.fromkeys(metrics, 0.0), metric: value} for x, value in values.items()}
    hashes = Hashes("", "", "", f"{spec.optimizer.name} {spec.lr}")
    result = Result(spec.training.steps, final, hashes, 1, 0.0, None)
    return Record(id="", stage=spec.stage, status=status, result=result, cost=COST, environment={})


def row(arena: str, rows: list[dict[str, str]], seeds: int, same_seeds: bool, studies: int) -> dict[str, Any]:
    """The share of studies with a false difference, and how large the difference is on average."""
    rates = sorted({float(x["lr"]) for x in rows})
    study, random = study_of(arena, rates, seeds), np.random.default_rng(1)
    bank = {(x["copy"], int(x["steps"]), f"{float(x['lr']):.3g}", int(x["seed"])): x for x in rows}
    plans, of_bank = history(study), sorted({int(x["seed"]) for x in rows})
    own, metric = [*study.suite.sweep.seeds, *study.suite.final.seeds], study.suite.arenas[arena].metric
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(studies):
        drawn = [int(x) for x in random.permutation(of_bank)]
        others = drawn if same_seeds else drawn[len(own) :]
        seen = {"AdamW": dict(zip(own, drawn, strict=False)), "PsiLogic": dict(zip(own, others, strict=False))}
        analyses = Analyses(
            plans, lambda x, seen=seen: record(x, bank, seen[x.optimizer.name], study.suite.metrics[arena], metric)
        )
        (c,) = analyses.comparisons
        found["different"].append(c.verdict in ("better", "worse"))
        found["withheld"].append(DEPENDS in c.note)
        found["gain"].append(abs(c.gain or 0.0))
    return {
        "arena": arena,
        "seeds": seeds,
        "same_seeds": same_seeds,
        "false_verdict": np.mean(found["different"]),
        "withheld": np.mean(found["withheld"]),
        "mean_difference": np.mean(found["gain"]),
        "studies": studies,
    }


def main() -> None:
    """Print the table, and write it as CSV if requested."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--bank", type=Path, default=Path("docs/results/benchmarks/training_bank.csv"))
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    by_arena: dict[str, list[dict[str, str]]] = defaultdict(list)
    for training in read_csv(options.bank):
        by_arena[training["arena"]].append(training)
    rows = []
    for (arena, trainings), seeds, same in product(by_arena.items(), (5, 8), (True, False)):
        rows.append(row(arena, trainings, seeds, same, options.studies))
        print(*rows[-1].values(), sep="\t", flush=True)
    if options.csv:
        write_csv(rows, options.csv)


if __name__ == "__main__":
    main()
