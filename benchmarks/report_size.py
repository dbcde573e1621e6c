"""The cost of a report: seconds of CPU to make it, size of its page and seconds to open it, from 100 to 10,000 trials.

.venv/bin/python benchmarks/report_size.py [--csv docs/results/benchmarks/report_size.csv]

Chromium and its driver open the page; `make browser` installs them.
"""

import math
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fairbench"))
from chromium import start
from csv_files import csv_parser, write_csv
from fabricated import METRICS, Records, edited, history, study
from planning import cpu
from selenium import webdriver

from fairbench.report.study import write_report
from fairbench.study.plan import arms
from fairbench.study.record import Series

EVALUATIONS = 10
LOST = 10
"""One final trial in this number diverged, the next one failed."""


@dataclass(frozen=True)
class Shape:
    """A study of two arenas and three sweep trials in each arm, and the targets for its report."""

    trials: int
    optimizers: int
    lost: bool
    seconds: float
    megabytes: float

    @property
    def seeds(self) -> int:
        return self.trials // (2 * self.optimizers) - 3


SHAPES = (
    Shape(100, 5, False, 10, 1),
    Shape(10_000, 40, False, 60, 8),
    Shape(10_000, 40, True, 60, 8),
    Shape(10_000, 5, False, 60, 8),
    Shape(10_000, 250, False, 60, 8),
)


class Curves(Records):
    """Records with evaluations on the way, no two of which are the same."""

    def details(self, spec, outcome, finished):
        found, steps = super().details(spec, outcome, finished), range(1, EVALUATIONS + 1)
        if not finished:
            return found
        noise = math.sin(1e3 * spec.seed + len(spec.optimizer.name) + spec.lr)
        values = {name: [x] * EVALUATIONS for name, x in self.metrics(spec, outcome).items()}
        values[METRICS[spec.arena.name][0]] = [0.5 + 0.3 * (i / EVALUATIONS) ** 0.5 + 0.02 * noise for i in steps]
        return edited(found, "evaluations", Series([*steps], values))


OPENED = """
const done = arguments[0], entry = (name) => performance.getEntriesByName(name)[0].startTime / 1000;
const tasks = [0];
const ends = (list) => list.getEntries().map((task) => (task.startTime + task.duration) / 1000);
new PerformanceObserver((list) => tasks.push(...ends(list)))
    .observe({type: 'longtask', buffered: true});
setTimeout(() => done({
    elements: document.querySelectorAll('*').length,
    first_paint_s: entry('first-contentful-paint'),
    interactive_s: Math.max(performance.getEntriesByType('navigation')[0].domInteractive / 1000, ...tasks),
}), 5000);
"""


def opened(page: Path) -> dict[str, float]:
    """What Chromium measures of a page: its elements, its first paint, and when its last long task has ended."""
    driver = start(webdriver, page.parent / "profile")
    try:
        driver.set_script_timeout(60)
        driver.get(f"file://{page}")
        return {name: round(value, 2) for name, value in driver.execute_async_script(OPENED).items()}
    finally:
        driver.quit()


def measure(shape: Shape) -> dict[str, float | str]:
    """Make the report of a study and weigh it."""
    names = [f"O{i}" for i in range(1, shape.optimizers - 1)] + ["AdamW", "PsiLogic"]
    the_study = study(("gpt", "vit"), names, range(1, shape.seeds + 1))
    ends = {1: "diverged", 2: "failed"} if shape.lost else {}
    scores = {
        name: [ends.get((i + k) % LOST, 0.5 + i % 7 / 100) for i in range(shape.seeds)] for k, name in enumerate(names)
    }
    made = Curves(the_study, **scores)
    records = {}

    def lookup(spec):
        return records.setdefault(spec.id, made(spec))

    trials = sum(len(arm.trials) for arm in arms(the_study, lookup))
    with tempfile.TemporaryDirectory() as folder:
        began = cpu()
        report = write_report(history(the_study), lookup, Path(folder))
        spent = cpu() - began
        size = report.page.stat().st_size / 1e6
        browser = opened(report.page)
    return {
        "trials": trials,
        "arms": 2 * shape.optimizers,
        "lost": bool(shape.lost),
        "cpu_s": round(spent, 1),
        "target_s": shape.seconds,
        "page_mb": round(size, 2),
        "target_mb": shape.megabytes,
        **browser,
    }


def main() -> None:
    """Print the results, and write them as CSV if requested."""
    parser = csv_parser(__doc__)
    options = parser.parse_args()
    rows = []
    for shape in SHAPES:
        rows.append(measure(shape))
        print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    if options.csv:
        write_csv(rows, options.csv)


if __name__ == "__main__":
    main()
