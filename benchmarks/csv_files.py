"""Tables as CSV files, and when, where and from which code they were measured."""

import csv
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

MEASURED = "measured.csv"
"""In a folder of published tables: a row for each of them."""


def write_csv(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write rows that have the same columns; truth values as TRUE and FALSE, which R and pandas read.

    A folder with `measured.csv` gets the script, date, commit and machine there. What a table has, and the code that it
    measures, are declared in that file.
    """
    # It imports torch, which would add to the memory that a benchmark measures, and to the time of its forks.
    from fairbench.training.environment import LOADED_REVISION, processor

    _write(rows, path)
    about = path.parent / MEASURED
    if about.exists():
        known = {row["file"]: row for row in read_csv(about)}
        row = known.setdefault(path.name, {"file": path.name, "what": "", "script": "", "code": "src"})
        row["date"] = str(datetime.now(timezone.utc).date())
        commit = LOADED_REVISION[:7] + LOADED_REVISION[40:]  # with "+changes", if it has them
        row |= {"script": f"benchmarks/{Path(sys.argv[0]).name}", "commit": commit, "machine": processor()}
        _write([known[name] for name in sorted(known)], about)


def _write(rows: Sequence[dict[str, Any]], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: str(v).upper() if isinstance(v, bool) else v for k, v in row.items()} for row in rows)


def read_csv(path: Path) -> list[dict[str, str]]:
    """Read a file of `write_csv`."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
