"""What fairbench adds to the wall time of a training program in each trial, in milliseconds.

.venv/bin/python benchmarks/program_overhead.py [--csv docs/results/benchmarks/program_overhead.csv]

The program, which takes 20 steps of next to no work, runs alone and as a trial, in alternation; the values are medians.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from csv_files import write_csv

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fairbench"))
from programs import program_spec, write_program

from fairbench.arenas.program import ProgramOptions, command
from fairbench.runner.executors.local import ProcessExecutor
from fairbench.runner.run_study import preload
from fairbench.suites.loader import load_suite
from fairbench.training.place import Place
from fairbench.training.program import values

ROUNDS = 40


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--csv", type=Path)
    given = options.parse_args()
    csv = given.csv and given.csv.resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_program(folder)
        alone, trial = zip(*measured(folder), strict=True)
        os.chdir("/")
    extra = 1000 * (median(trial) - median(alone))
    rows = [
        {
            "alone_ms": f"{1000 * median(alone):.1f}",
            "trial_ms": f"{1000 * median(trial):.1f}",
            "extra_ms": f"{extra:.1f}",
        }
    ]
    print(rows)
    if csv:
        write_csv(rows, csv)


def measured(folder: str) -> list[tuple[float, float]]:
    """Seconds of the program alone and as a trial, in turns."""
    found = []
    spec = program_spec()
    words = command(ProgramOptions(**spec.arena.model), values(spec, Path(folder)))
    modules = preload(load_suite("mine.toml"))
    with ProcessExecutor([Place(checkpoints=f"{folder}/kept")], preload=modules) as executor:
        executor.call(os.getpid)  # starts the server
        for seed in range(ROUNDS):
            began = time.perf_counter()
            subprocess.run(words, check=True)
            middle = time.perf_counter()
            executor.submit(replace(spec, seed=seed), 60.0)
            (record,) = executor.collect()
            found.append((middle - began, time.perf_counter() - middle))
            assert getattr(record, "status", "") == "finished", record
    return found


if __name__ == "__main__":
    main()
