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
from fairbench.study.record import Details, MechanismReport, Record, Series
from fairbench.study.records import Store
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.study.snapshot import Snapshot
from fairbench.study.trial_queue import TrialQueue

STEPS = {"gpt": (75, 300), "vit": (240, 720)}
"""Steps of a sweep trial and of a final one, as in mini."""
LOG_EVERY = 10
EVALUATIONS = 10
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
        names = [f"O{i}" for i in range(1, self.optimizers - 1)]
        names += ["AdamW", "PsiLogic"]
        made = study(tuple(STEPS), names, range(1, self.seeds + 1))
        plan = OptimizerPlan(factory="torch.optim:AdamW", options={"weight_decay": 0.01})
        arena_plans = {}
        for name, arena_plan in made.suite.arenas.items():
            sweep_steps, steps = STEPS[name]
            arena_plans[name] = replace(arena_plan, sweep_steps=sweep_steps, steps=steps)
        suite = replace(
            made.suite,
            arenas=arena_plans,
            final=replace(made.suite.final, evaluations=EVALUATIONS),
            training=replace(made.suite.training, log_every=LOG_EVERY),
            optimizers=dict.fromkeys(names, plan),
        )
        optimizers = {}
        for name in names:
            modules = CODE.get(name, CODE["optimizer"])
            optimizers[name] = replace(resolve_optimizer(name, plan), code=code(name, modules))
        arenas = {}
        for name, arena in made.arenas.items():
            arenas[name] = replace(arena, code=code(name, CODE["arena"]))
        return replace(made, suite=suite, optimizers=optimizers, arenas=arenas, environment=ENVIRONMENT)


def code(of: str, modules: int) -> dict[str, str]:
    """As much code as takes part because of an arena or an optimizer."""
    return {f"package.{of}.module_{i}": f"{i:016x}" for i in range(modules)}


SHAPES = (Shape("80 arms", 40, 1247), Shape("500 arms", 250, 197))


class Realistic(Records):
    """Records as large as mini's: loss curves, evaluations, and the mechanism by tensors."""

    def record(self, spec, outcome):
        found = edited(super().record(spec, outcome), "environment", ENVIRONMENT)
        found = edited(found, "cost.steps", spec.training.steps)
        return edited(found, "result.steps", spec.training.steps)

    def details(self, spec, outcome, finished):
        noise = math.sin(1e3 * spec.seed + len(spec.optimizer.name) + spec.lr) / 50
        steps = list(range(LOG_EVERY, spec.training.steps + 1, LOG_EVERY))
        losses = [5.4 / math.sqrt(step) + noise for step in steps]
        loss = Series(steps, {"loss": losses})
        found = Details(loss, self.evaluations(spec, outcome, noise), None)
        if spec.optimizer.name == "PsiLogic":
            found = edited(found, "mechanism", mechanism_of(steps, noise))
        return found

    def evaluations(self, spec, outcome, noise):
        """The metrics on the way: the arena's own improves, the others stay the same."""
        training = spec.training
        numbers = range(1, training.evaluations + 1)
        every = training.steps // training.evaluations
        values = {}
        for name, value in self.metrics(spec, outcome).items():
            values[name] = [value] * len(numbers)
        metric = METRICS[spec.arena.name][0]
        values[metric] = [0.5 + 0.3 * math.sqrt(number) / 3 + noise for number in numbers]
        return Series([number * every for number in numbers], values)


def mechanism_of(steps: list[int], noise: float) -> MechanismReport:
    """What PsiLogic reports of itself: each quantity by tensors, and its course over the steps."""
    by_tensor = {f"vit.layers.{i}.attention.projection.weight": noise + i for i in range(TENSORS)}
    quantities = {name: (unit, by_tensor) for name, (unit, _) in QUANTITIES.items()}
    found = mechanism(quantities)
    course = {}
    for name, values in found.course.values.items():
        course[name] = [values[0]] * len(steps)
    return edited(found, "course", Series(steps, course))


def fabricate(shape: Shape, directory: Path) -> None:
    """Write a study with all its records, through the store."""
    the_study = shape.study
    scores = [0.5 + i % 97 / 1000 for i in range(shape.seeds)]
    made = Realistic(the_study, **dict.fromkeys(the_study.suite.optimizers, scores))
    records = {}
    store = Store(directory)
    store.trials.mkdir(parents=True)
    queue = TrialQueue(the_study, lambda spec: records.get(spec.id))
    sync = os.fsync
    os.fsync = lambda handle: None  # it would take most of the time, and tells nothing here
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
    snapshot = Snapshot(directory, the_study.suite.metrics, Record)
    queue = TrialQueue(the_study, snapshot)
    print(queue.progress().trials)


def planning(directory: Path) -> None:
    """Print the milliseconds of CPU that a driver plans for each trial, from the first one to the last that ends."""
    the_study = read_history(directory).study
    snapshot = Snapshot(directory, the_study.suite.metrics, Record)
    TrialQueue(the_study, snapshot)  # reads all records
    records: dict[str, Any] = {}
    began = time.process_time()
    queue = TrialQueue(the_study, lambda spec: records.get(spec.id))
    while spec := queue.next():
        records[spec.id] = snapshot(spec)
        queue.ended(spec)
        queue.progress()
    seconds = time.process_time() - began
    print(1000 * seconds / len(records))


PARTS = {"start": start, "planning": planning}
"""Work that is no command and is measured in a separate process."""


def measure(shape: Shape, directory: Path) -> list[dict[str, Any]]:
    """Every number of one study."""
    if not directory.exists():
        fabricate(shape, directory)
    rows = []

    def row(what: str, value: float, unit: str, target: float | str = "") -> None:
        shown: Any = value
        if isinstance(value, float):
            shown = f"{value:.4g}"
        line = {"study": shape.name, "what": what, "value": shown, "unit": unit, "target": target}
        rows.append(line)
        print("  ".join(map(str, line.values())), flush=True)

    def command(what: str, *words: str, seconds: float | str = "", megabytes: float | str = "") -> str:
        used = measured(*words)
        row(f"{what}, CPU", used["cpu_s"], "s", seconds)
        row(f"{what}, peak memory", used["peak_mb"], "MB", megabytes)
        return used["said"]

    files = [entry.stat() for entry in os.scandir(directory / "trials")]
    size = sum(file.st_size for file in files)
    size_on_disk = sum(512 * file.st_blocks for file in files)
    row("records", len(files), "files")
    row("records", size / 1e6, "MB")
    row("records, blocks on disk", size_on_disk / 1e6, "MB")
    fairbench = ("-m", "fairbench")
    command("status", *fairbench, "status", str(directory), seconds=6)
    command("start of a driver", __file__, str(directory), "--part", "start")
    said = command("planning", __file__, str(directory), "--part", "planning")
    row("planning after a finished trial, CPU", float(said), "ms", 1)
    with tempfile.TemporaryDirectory() as output:
        command("report", *fairbench, "report", str(directory), "--output-dir", output, seconds=60, megabytes=2000)
        page = Path(output) / "report.html"
        steps = Path(output) / "steps.csv"
        row("report.html", page.stat().st_size / 1e6, "MB", 8)
        row("steps.csv", steps.stat().st_size / 1e6, "MB")
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
    rows = []
    for shape in SHAPES:
        rows += measure(shape, options.folder / shape.name)
    if options.csv:
        write_csv(rows, options.csv)


if __name__ == "__main__":
    main()
