"""The cost of a separate process for each trial: milliseconds from its start to its end, with its result.

.venv/bin/python benchmarks/fresh_process.py [--csv docs/results/benchmarks/fresh_process.csv]
"""

import argparse
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from csv_files import write_csv

from fairbench.runner.executors.local import ProcessExecutor
from fairbench.runner.preload import preload
from fairbench.suites.loader import load_suite
from fairbench.training.device_slot import DeviceSlot

ROUNDS = 60
ARENAS = ("vit", "gpt,vit,resnet,ddpm")


def measure(arenas: str) -> float:
    suite = load_suite("mini")
    suite = replace(suite, arenas={name: suite.arenas[name] for name in arenas.split(",")})
    seconds = []
    with ProcessExecutor([DeviceSlot()], preload=preload(suite)) as executor:
        for _ in range(ROUNDS):
            began = time.perf_counter()
            executor.call(os.getpid)  # next to no work
            seconds.append(time.perf_counter() - began)
    return 1000 * median(seconds)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--csv", type=Path)
    options.add_argument("--one", metavar="ARENAS", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:  # a process can have one server only
        print(measure(given.one))
        return
    rows = []
    for arenas in ARENAS:
        command = [sys.executable, __file__, "--one", arenas]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        milliseconds = f"{float(done.stdout.split()[-1]):.1f}"
        rows.append({"arenas": arenas.replace(",", " "), "milliseconds": milliseconds})
        print(*rows[-1].values(), sep="\t", flush=True)
    if given.csv:
        write_csv(rows, given.csv)


if __name__ == "__main__":
    main()
