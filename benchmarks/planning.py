"""The cost of a study of 10,000 trials for its driver: milliseconds per finished trial, and seconds for the report.

.venv/bin/python benchmarks/planning.py [--csv docs/results/benchmarks/planning.csv]
"""

import resource
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fairbench"))
from csv_files import csv_parser, write_csv
from fabricated import Records, history, study

from fairbench.report.study import write_report
from fairbench.study.record import Record, WholeRecord
from fairbench.study.records import Store
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.study.snapshot import Snapshot
from fairbench.study.trial_queue import TrialQueue
from fairbench.study.trial_spec import TrialSpec

OPTIMIZERS = 38
SEEDS = 125
CODE = 30
"""Modules that take part, as many as PsiLogic has."""


def cpu() -> float:
    """Seconds of CPU of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def study_with_code() -> ResolvedSuite:
    """A study of two arenas, each of whose optimizers has as much code as PsiLogic."""
    names = [f"O{i}" for i in range(OPTIMIZERS)]
    names += ["AdamW", "PsiLogic"]
    made = study(("gpt", "vit"), names, range(1, SEEDS + 1))
    code = {f"package.module_{i}": f"{i:016x}" for i in range(CODE)}
    optimizers = {}
    for name, optimizer in made.optimizers.items():
        optimizers[name] = replace(optimizer, code=code)
    return replace(made, optimizers=optimizers)


def main() -> None:
    """Print the results, and write them as CSV if requested."""
    parser = csv_parser(__doc__)
    options = parser.parse_args()
    the_study = study_with_code()
    scores = [0.5 + i % 7 / 100 for i in range(SEEDS)]
    made = Records(the_study, **dict.fromkeys(the_study.optimizers, scores))
    records = {}

    trials = 0
    began = cpu()
    queue = TrialQueue(the_study, lambda spec: records.get(spec.id))
    planning = cpu() - began
    while spec := queue.next():
        record = made(spec)
        began = cpu()
        records[spec.id] = record
        queue.ended(spec)
        queue.progress()
        planning += cpu() - began
        trials += 1
    rows = [("planning, ms of CPU per finished trial", 1000 * planning / trials)]

    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        store.trials.mkdir()

        def lookup(spec: TrialSpec) -> Record | None:
            if store.path(spec.id).exists():
                return records[spec.id]
            return None

        again = TrialQueue(the_study, lookup)
        while spec := again.next():
            store.write(spec, records[spec.id])
            again.ended(spec)
        began = cpu()
        snapshot = Snapshot(store.directory, the_study.suite.metrics, WholeRecord)
        write_report(history(the_study), snapshot, Path(folder))
        rows.append(("report, s of CPU", cpu() - began))
    used = resource.getrusage(resource.RUSAGE_SELF)
    rows.append(("peak memory, GB", used.ru_maxrss / 1e6))
    print(f"{trials} trials")
    for what, value in rows:
        print(f"{value:8.3f}  {what}")
    if options.csv:
        lines = [{"what": "trials", "value": trials}]
        for what, value in rows:
            lines.append({"what": what, "value": f"{value:.4g}"})
        write_csv(lines, options.csv)


if __name__ == "__main__":
    main()
