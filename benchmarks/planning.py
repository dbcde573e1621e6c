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
from fairbench.study.record import WholeRecord
from fairbench.study.records import Store
from fairbench.study.snapshot import Snapshot
from fairbench.study.trial_queue import TrialQueue

OPTIMIZERS, SEEDS = 38, 125
CODE = 30  # modules that take part, as many as PsiLogic has


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the results, and write them as CSV if requested."""
    parser = csv_parser(__doc__)
    options = parser.parse_args()
    names = [f"O{i}" for i in range(OPTIMIZERS)] + ["AdamW", "PsiLogic"]
    the_study = study(("gpt", "vit"), names, range(1, SEEDS + 1))
    code = {f"package.module_{i}": f"{i:016x}" for i in range(CODE)}
    resolved = {name: replace(optimizer, code=code) for name, optimizer in the_study.optimizers.items()}
    the_study = replace(the_study, optimizers=resolved)
    scores = {name: [0.5 + i % 7 / 100 for i in range(SEEDS)] for name in names}
    made = Records(the_study, **scores)
    records = {}

    began, trials = cpu(), 0
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
        again = TrialQueue(the_study, lambda spec: records[spec.id] if store.path(spec.id).exists() else None)
        while spec := again.next():
            store.write(spec, records[spec.id])
            again.ended(spec)
        began = cpu()
        write_report(history(the_study), Snapshot(store.directory, the_study.suite.metrics, WholeRecord), Path(folder))
        rows.append(("report, s of CPU", cpu() - began))
    rows.append(("peak memory, GB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6))
    print(f"{trials} trials")
    for what, value in rows:
        print(f"{value:8.3f}  {what}")
    if options.csv:
        lines = [("trials", trials), *((what, f"{value:.4g}") for what, value in rows)]
        write_csv([{"what": what, "value": value} for what, value in lines], options.csv)


if __name__ == "__main__":
    main()
