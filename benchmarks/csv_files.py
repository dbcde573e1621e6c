"""Tables as CSV files."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def write_csv(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write rows that have the same columns; truth values as TRUE and FALSE, which R and pandas read."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: str(v).upper() if isinstance(v, bool) else v for k, v in row.items()} for row in rows)


def read_csv(path: Path) -> list[dict[str, str]]:
    """Read a file of `write_csv`."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
