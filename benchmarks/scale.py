"""The cost of a study of 100,000 trials: to plan, to watch, to report; on disk, in memory, in CPU time.

.venv/bin/python benchmarks/scale.py FOLDER [--csv docs/results/benchmarks/scale.csv]

The studies are fabricated in FOLDER, a record of the size of mini's for each trial, and stay there: a second call only
measures. All of it runs in separate processes, the commands as users run them.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fairbench"))
from csv_files import csv_parser, write_csv
from fabricated import METRICS, QUANTITIES, Records, edited, history, mechanism, study

from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.study.history import read_history, write_history
from fairbench.study.plan import ResolvedSuite
from fairbench.study.record import Details, Record, Series
from fairbench.study.records import Store
from fairbench.study.snapshot import Snapshot
from fairbench.study.trial_queue import TrialQueue

STEPS = {"gpt": (75, 300), "vit": (240, 720)}
"""Steps of a sweep trial and of a final one, as in mini."""
LOG_EVERY, EVALUATIONS = 10, 10
TENSORS = 40
CODE = {"arena": 17, "optimizer": 3, "PsiLogic": 28}
"""Modules that take part because of an arena and of an optimizer."""
OPTIONS = {"betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01, "foreach": None, "maximize": False}
ENVIRONMENT = {f"package-{i}": f"{i}.0.1" for i in range(9)} | {"device": "a machine", "git": "c0ffee" * 6}


@dataclass(frozen=True)
class Shape:
    """A study of two arenas, and of three sweep trials in each arm."""

    name: str
    optimizers: int
    seeds: int

    @property
    def study(self) -> ResolvedSuite:
        """The study, with as much code and as many options as those of mini."""
        names = [f"O{i}" for i in range(1, self.optimizers - 1)] + ["AdamW", "PsiLogic"]
        made = study(tuple(STEPS), names, range(1, self.seeds + 1))
        plan = OptimizerPlan(factory="torch.optim:AdamW", options={"weight_decay": 0.01})
        arenas = {
            name: replace(arena, sweep_steps=STEPS[name][0], steps=STEPS[name][1])
            for name, arena in made.suite.arenas.items()
        }
        final = replace(made.suite.final, evaluations=EVALUATIONS)
        training = replace(made.suite.training, log_every=LOG_EVERY)
        suite = replace(
            made.suite, arenas=arenas, final=final, training=training, optimizers=dict.fromkeys(names, plan)
        )
        optimizers = {
            name: replace(
                resolve_optimizer(name, plan), code=code(name, CODE["PsiLogic" if name == "PsiLogic" else "optimizer"])
            )
            for name in names
        }
        met = {name: replace(arena, code=code(name, CODE["arena"])) for name, arena in made.arenas.items()}
        return replace(made, suite=suite, optimizers=optimizers, arenas=met, environment=ENVIRONMENT)


def code(of: str, modules: int) -> dict[str, str]:
    """As much code as takes part because of an arena or an optimizer."""
    return {f"package.{of}.module_{i}": f"{i:016x}" for i in range(modules)}


SHAPES = (Shape("80 arms", 40, 1247), Shape("500 arms", 250, 197))


class Realistic(Records):
    """Records as large as mini's: loss curves, evaluations, and the mechanism by tensors."""

    def record(self, spec, outcome):
        found = edited(super().record(spec, outcome), "environment", ENVIRONMENT)
        return edited(edited(found, "cost.steps", spec.training.steps), "result.steps", spec.training.steps)

    def details(self, spec, outcome, finished):
        training, metrics = spec.training, self.metrics(spec, outcome)
        noise = math.sin(1e3 * spec.seed + len(spec.optimizer.name) + spec.lr) / 50
        steps = [*range(LOG_EVERY, training.steps + 1, LOG_EVERY)]
        every = training.steps // training.evaluations
        metric = METRICS[spec.arena.name][0]
        losses = [5.4 / math.sqrt(step) + noise for step in steps]
        numbers = range(1, training.evaluations + 1)
        values = {name: [value] * len(numbers) for name, value in metrics.items()}
        values[metric] = [0.5 + 0.3 * math.sqrt(i) / 3 + noise for i in numbers]
        found = Details(Series(steps, {"loss": losses}), Series([i * every for i in numbers], values), None)
        if spec.optimizer.name == "PsiLogic":
            names = [f"vit.layers.{i}.attention.projection.weight" for i in range(TENSORS)]
            of_all = {
                name: (unit, {x: noise + i for i, x in enumerate(names)}) for name, (unit, _) in QUANTITIES.items()
            }
            told = mechanism(of_all)
            course = Series(steps, {name: [x[0]] * len(steps) for name, x in told.course.values.items()})
            found = edited(edited(found, "mechanism", told), "mechanism.course", course)
        return found


def fabricate(shape: Shape, directory: Path) -> None:
    """Write a study with all its records, through the store."""
    the_study = shape.study
    scores = [0.5 + i % 97 / 1000 for i in range(shape.seeds)]
    made = Realistic(the_study, **dict.fromkeys(the_study.suite.optimizers, scores))
    records, store = {}, Store(directory)
    store.trials.mkdir(parents=True)
    queue = TrialQueue(the_study, lambda spec: records.get(spec.id))
    sync, os.fsync = os.fsync, lambda handle: None  # which would take most of the time, and tells nothing here
    while spec := queue.next():
        record = made(spec)
        store.write(spec, record)
        records[spec.id] = edited(record, "details", None)
        queue.ended(spec)
    os.fsync = sync
    write_history(directory, history(the_study))


SMALL = """
import json, os, sys
_, status, used = os.wait4(os.posix_spawn(sys.executable, [sys.executable, *sys.argv[1:]], os.environ), 0)
print(json.dumps([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, 1024 * used.ru_maxrss / 1e6]))
"""
"""Starts a command and prints its exit code, its seconds and megabytes.

A process inherits the peak of its parent, and the peak of this one is larger than that of many commands.
"""


def measured(*command: str) -> dict[str, Any]:
    """The time and memory of a command in a separate process, and its output."""
    ran = subprocess.run([sys.executable, "-c", SMALL, *command], stdout=subprocess.PIPE, text=True, check=True)
    said, _, last = ran.stdout.rstrip().rpartition("\n")
    code, seconds, megabytes = json.loads(last)
    if code:
        sys.exit(f"{' '.join(command)} ended with {code}")
    return {"cpu_s": round(seconds, 2), "peak_mb": round(megabytes), "said": said}


def start(directory: Path) -> None:
    """The work of a driver with the records before its first trial: plan, find the missing ones."""
    the_study = read_history(directory).study
    print(TrialQueue(the_study, Snapshot(directory, the_study.suite.metrics, Record)).progress().trials)


def planning(directory: Path) -> None:
    """Print the milliseconds of CPU that a driver plans for each trial, from the first one to the last that ends."""
    the_study = read_history(directory).study
    held = Snapshot(directory, the_study.suite.metrics, Record)
    TrialQueue(the_study, held)  # reads all records
    records: dict[str, Any] = {}
    began = time.process_time()
    queue = TrialQueue(the_study, lambda spec: records.get(spec.id))
    while spec := queue.next():
        records[spec.id] = held(spec)
        queue.ended(spec)
        queue.progress()
    print(1000 * (time.process_time() - began) / len(records))


PARTS = {"start": start, "planning": planning}
"""Work that is no command and is measured in a separate process."""


def measure(shape: Shape, directory: Path) -> list[dict[str, Any]]:
    """Every number of one study."""
    if not directory.exists():
        fabricate(shape, directory)
    rows = []

    def row(what: str, value: float, unit: str, target: float | str = "") -> None:
        shown = f"{value:.4g}" if isinstance(value, float) else value
        rows.append({"study": shape.name, "what": what, "value": shown, "unit": unit, "target": target})
        print("  ".join(str(x) for x in rows[-1].values()), flush=True)

    def command(what: str, *words: str, seconds: float | str = "", megabytes: float | str = "") -> str:
        used = measured(*words)
        row(f"{what}, CPU", used["cpu_s"], "s", seconds)
        row(f"{what}, peak memory", used["peak_mb"], "MB", megabytes)
        return used["said"]

    records = list(os.scandir(directory / "trials"))
    row("records", len(records), "files")
    row("records", sum(x.stat().st_size for x in records) / 1e6, "MB")
    row("records, blocks on disk", sum(512 * x.stat().st_blocks for x in records) / 1e6, "MB")
    fairbench = ("-m", "fairbench")
    command("status", *fairbench, "status", str(directory), seconds=6)
    command("start of a driver", __file__, str(directory), "--part", "start")
    said = command("planning", __file__, str(directory), "--part", "planning")
    row("planning after a finished trial, CPU", float(said), "ms", 1)
    with tempfile.TemporaryDirectory() as output:
        command("report", *fairbench, "report", str(directory), "--output-dir", output, seconds=60, megabytes=2000)
        row("report.html", (Path(output) / "report.html").stat().st_size / 1e6, "MB", 8)
        row("steps.csv", (Path(output) / "steps.csv").stat().st_size / 1e6, "MB")
    return rows


def main() -> None:
    """Print the results, and write them as CSV if requested."""
    parser = csv_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        PARTS[options.part](options.folder)
        return
    rows = [row for shape in SHAPES for row in measure(shape, options.folder / shape.name)]
    if options.csv:
        write_csv(rows, options.csv)


if __name__ == "__main__":
    main()
