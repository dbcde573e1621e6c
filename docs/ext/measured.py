"""When, at which commit and on what a published table was measured, and whether the code has changed since."""

import csv
import json
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TRAINED = ("src/psilogic", *(f"src/fairbench/{x}" for x in ("arenas", "data", "optimizers", "training")))
"""The code that the trials of a study run."""


class Measurement(NamedTuple):
    """Where a table comes from; `code` has the paths that it measures."""

    date: str
    commit: str
    machine: str
    code: tuple[str, ...]

    def __str__(self) -> str:
        return f"Measured on {self.date}, commit {self.commit}, {self.machine}."


def measurement(path: Path) -> Measurement | None:
    """The measurement of a table: of a study by its `config.json`, of a benchmark by `measured.csv`, which has none."""
    if path.name == "measured.csv":
        return None
    config = path.parent / "config.json"
    if config.exists():
        plan = json.loads(config.read_text())["plans"][-1]
        environment = plan["study"]["environment"]
        commit = environment["git"][:7] + environment["git"][40:]  # with "+changes", if it has them
        return Measurement(plan["declared"][:10], commit, environment["device"], TRAINED)
    with (path.parent / "measured.csv").open() as file:
        (row,) = (row for row in csv.DictReader(file) if row["file"] == path.name)
    return Measurement(row["date"], row["commit"], row["machine"], tuple(row["code"].split()))


@cache
def changes_since(commit: str, code: tuple[str, ...]) -> int | None:
    """How many commits have changed some code since; None without the history."""
    command = ["git", "rev-list", "--count", f"{commit.removesuffix('+changes')}..HEAD", "--", *code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else None


def age(table: Measurement) -> str:
    """What the site says below a table of which the code has changed."""
    count = changes_since(table.commit, table.code)
    commits = "1 commit has" if count == 1 else f"{count} commits have"
    return f" Since then {commits} changed {', '.join(table.code)}." if count else ""


def ages() -> Iterator[str]:
    """The published tables of which the code has changed, those of a study as one."""
    for path in sorted((ROOT / "docs/results").glob("*/*.csv")):
        listed = path.name == "significance.csv" or path.parent.name == "benchmarks"
        if listed and (table := measurement(path)) and (since := age(table)):
            yield f"{path.relative_to(ROOT)}: {table}{since}"
