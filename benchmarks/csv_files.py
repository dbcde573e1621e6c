"""Tables as CSV files, and when, where and from which code they were measured."""

import csv
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from fairbench.common.git_revision import revision_of
from fairbench.common.installation import PACKAGES

REVISION = str(revision_of(Path(__file__), [*PACKAGES, Path(__file__).parent]))
"""The revision of the packages and of the benchmarks when this process began: the checkout may change meanwhile."""
MEASURED = "measured.csv"
"""In a folder of published tables: a row for each of them."""


def csv_parser(doc: str | None) -> ArgumentParser:
    """The parser of a benchmark with this docstring, whose table is written to `--csv` if that is given."""
    parser = ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--csv", type=Path)
    return parser


def print_table(doc: str | None, rows: Iterable[dict[str, Any]]) -> None:
    """Print the rows of a benchmark with this docstring, each as soon as it is known, and write them to `--csv`."""
    options = csv_parser(doc).parse_args()
    table = []
    for row in rows:
        table.append(row)
        print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    if options.csv:
        write_csv(table, options.csv)


def write_csv(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write rows that have the same columns; truth values as TRUE and FALSE, which R and pandas read.

    A folder with `measured.csv` gets the script, date, commit and machine there. What a table has, and the code that it
    measures, are declared in that file.
    """
    # It imports torch, which would add to the memory that a benchmark measures, and to the time of its forks.
    from fairbench.training.environment import instruction_set, processor

    _write(rows, path)
    about = path.parent / MEASURED
    if not about.exists():
        return
    known = {row["file"]: row for row in read_csv(about)}
    row = known.setdefault(path.name, {"file": path.name, "what": "", "script": "", "code": "src"})
    row["date"] = str(datetime.now(timezone.utc).date())
    row["script"] = f"benchmarks/{Path(sys.argv[0]).name}"
    row["commit"] = REVISION[:7] + REVISION[40:]  # with "+changes", if it has them
    row["machine"] = f"{processor()}, {instruction_set()}"
    _write([known[name] for name in sorted(known)], about)


def _write(rows: Sequence[dict[str, Any]], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: _cell(value) for name, value in row.items()})


def _cell(value: Any) -> Any:
    """A value as it is written."""
    if isinstance(value, bool):
        return str(value).upper()
    return value


def read_csv(path: Path) -> list[dict[str, str]]:
    """Read a file of `write_csv`."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
