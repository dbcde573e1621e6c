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
ENDS = {1: "diverged", 2: "failed"}
"""How one final trial of ten ended, and the next one."""


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
        """The final seeds of each arm."""
        return self.trials // (2 * self.optimizers) - 3

    @property
    def names(self) -> list[str]:
        """The optimizers."""
        numbered = [f"O{i}" for i in range(1, self.optimizers - 1)]
        return [*numbered, "AdamW", "PsiLogic"]

    def scores(self) -> dict[str, list[float | str]]:
        """The final scores of each optimizer; some of its trials have diverged or failed, if any are lost."""
        found = {}
        for position, name in enumerate(self.names):
            scores: list[float | str] = [0.5 + i % 7 / 100 for i in range(self.seeds)]
            if self.lost:
                for i in range(self.seeds):
                    scores[i] = ENDS.get((i + position) % LOST, scores[i])
            found[name] = scores
        return found


SHAPES = (
    Shape(trials=100, optimizers=5, lost=False, seconds=10, megabytes=1),
    Shape(trials=10_000, optimizers=40, lost=False, seconds=60, megabytes=8),
    Shape(trials=10_000, optimizers=40, lost=True, seconds=60, megabytes=8),
    Shape(trials=10_000, optimizers=5, lost=False, seconds=60, megabytes=8),
    Shape(trials=10_000, optimizers=250, lost=False, seconds=60, megabytes=8),
)


class Curves(Records):
    """Records with evaluations on the way, no two of which are the same."""

    def details(self, spec, outcome, finished):
        found = super().details(spec, outcome, finished)
        if not finished:
            return found
        noise = math.sin(1e3 * spec.seed + len(spec.optimizer.name) + spec.lr)
        steps = list(range(1, EVALUATIONS + 1))
        values = {}
        for name, value in self.metrics(spec, outcome).items():
            values[name] = [value] * EVALUATIONS
        metric = METRICS[spec.arena.name][0]
        values[metric] = [0.5 + 0.3 * (step / EVALUATIONS) ** 0.5 + 0.02 * noise for step in steps]
        return edited(found, "evaluations", Series(steps, values))


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
        measured = driver.execute_async_script(OPENED)
    finally:
        driver.quit()
    return {name: round(value, 2) for name, value in measured.items()}


def measure(shape: Shape) -> dict[str, float | str]:
    """Make the report of a study and weigh it."""
    the_study = study(("gpt", "vit"), shape.names, range(1, shape.seeds + 1))
    made = Curves(the_study, **shape.scores())
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
        "lost": shape.lost,
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
        row = measure(shape)
        rows.append(row)
        words = [f"{key} {value}" for key, value in row.items()]
        print("  ".join(words), flush=True)
    if options.csv:
        write_csv(rows, options.csv)


if __name__ == "__main__":
    main()
