"""What fairbench adds to a training program in each trial: milliseconds of wall time and of CPU time.

.venv/bin/python benchmarks/program_overhead.py [--csv docs/results/benchmarks/program_overhead.csv]

A study runs one trial at a time, from its plan to its record on disk; its program takes a few steps of next to no work.
After each trial the same program runs alone. Wall times are medians. CPU times are means: those of the driver, and of
the server that trials are forked from, with all that it has started and that has ended.
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, median

from csv_files import csv_parser, write_csv

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fairbench"))
from programs import write_program

from fairbench.arenas.program import ProgramOptions
from fairbench.runner.devices import RunOptions
from fairbench.runner.executors.starting import SERVERS
from fairbench.runner.observers import Observer
from fairbench.runner.run_study import run_study
from fairbench.study.record import WholeRecord
from fairbench.study.target import target_in
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import Overrides
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.program_start import start_of

SEEDS = 20
TICKS = os.sysconf("SC_CLK_TCK")


class Measured(Observer):
    """Measures each trial between two runs of its program alone; in seconds, wall and CPU time of each."""

    def __init__(self) -> None:
        self.alone: list[tuple[float, float]] = []
        self.trials: list[tuple[float, float]] = []
        self._began = (0.0, 0.0)

    def started(self, spec: TrialSpec, label: str) -> None:
        self._began = self._began if self.trials else now()

    def ended(self, spec: TrialSpec, record: WholeRecord) -> None:
        assert record.status == "finished", record
        self.trials.append(since(self._began))
        words = start_of(spec, Path.cwd(), DeviceSlot(), ProgramOptions(**spec.arena.model)).words
        Path("metrics.jsonl").unlink(missing_ok=True)
        began = time.perf_counter()
        _, status, usage = os.wait4(os.posix_spawn(words[0], words, os.environ), 0)
        assert status == 0
        self.alone.append((time.perf_counter() - began, usage.ru_utime + usage.ru_stime))
        self._began = now()


def now() -> tuple[float, float]:
    """The time, and the CPU time so far of the driver and of its servers with their children that have ended."""
    of_servers = 0
    for server in SERVERS.values():
        fields = Path(f"/proc/{server._forkserver_pid}/stat").read_text().rpartition(")")[2].split()
        of_servers += sum(map(int, fields[11:15]))
    return time.perf_counter(), time.process_time() + of_servers / TICKS


def since(began: tuple[float, float]) -> tuple[float, float]:
    wall, cpu = now()
    return wall - began[0], cpu - began[1]


def main() -> None:
    options = csv_parser(__doc__)
    given = options.parse_args()
    csv = given.csv and given.csv.resolve()
    measured = Measured()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_program(folder)
        suite = load_suite("mine.toml", Overrides(seeds=SEEDS))
        run_study(target_in(Path("study"), suite), RunOptions([DeviceSlot()]), [measured])
        os.chdir("/")
    rows = []
    for kind, average, number in (("wall", median, 0), ("cpu", mean, 1)):
        alone, trial = (1000 * average(x[number] for x in of) for of in (measured.alone, measured.trials))
        columns = {"alone_ms": alone, "trial_ms": trial, "extra_ms": trial - alone}
        rows.append({"time": kind, **{name: f"{value:.1f}" for name, value in columns.items()}})
        print(*rows[-1].values(), sep="\t")
    if csv:
        write_csv(rows, csv)


if __name__ == "__main__":
    main()
