"""Verdicts on anyone's table of results, by the tests and corrections that a study gets."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fairbench.analysis.comparison.verdicts import Comparison, judge, of_values, summarized
from fairbench.analysis.statistics.significance import Summary
from fairbench.common.errors import UsageError, unknown

SEEDS, SUMMARIES = ("arena", "optimizer", "seed", "value"), ("arena", "optimizer", "mean", "std", "n")
"""The columns of the two kinds of table: a row for each seed, or for each arm."""
BETTER = {"lower": "min", "higher": "max"}
DIVERGED = "diverged"
"""What a table may have in place of a value."""


@dataclass(frozen=True)
class Row:
    """A row of a table by its columns, and its line in the file."""

    cells: Mapping[str, str]
    place: str

    def number(self, column: str) -> float:
        """The number in a column; not finite for a seed that diverged."""
        text = self.cells[column]
        try:
            return math.nan if text == DIVERGED else float(text)
        except ValueError:
            raise UsageError(f"{self.place}: {column} must be a number or {DIVERGED!r}, got {text!r}") from None

    def whole(self, column: str) -> int:
        """The whole number in a column."""
        number = self.number(column)
        if not (math.isfinite(number) and number == int(number)):
            raise UsageError(f"{self.place}: {column} must be a whole number, got {self.cells[column]!r}")
        return int(number)


Seeds = Mapping[str, float]
"""The values of an arm by seed."""
Arm = dict[str, float] | Summary
"""An optimizer in an arena: its values by seed, or their summary."""


def table_comparisons(
    path: Path, *, optimizer: str = "", better: str = "", baselines: Sequence[str] = (), alpha: float = 0.05
) -> list[Comparison]:
    """Judge the results of a CSV file: an optimizer against every other one, in every arena.

    Args:
        path: the file; a row has arena, optimizer, seed and value, or arena, optimizer, mean, std and n.
        optimizer: the optimizer that is compared; empty for the first one of the file.
        better: "lower" or "higher"; empty where the file has a column `better`.
        baselines: the baselines whose comparisons are the family; empty for all.
        alpha: family-wise error rate.

    Returns:
        The comparisons of optimizers in an arena that both have, in the order of the file: values by seed by the paired
        test, summaries by Welch's. Without a margin, none is equivalent.

    Raises:
        UsageError: the file cannot be read, lacks a column, or has a wrong or repeated value.
    """
    rows = _rows(path)
    arms: dict[str, dict[str, Arm]] = {}
    for row in rows:
        _add(arms.setdefault(row.cells["arena"], {}), row)
    names = list(dict.fromkeys(row.cells["optimizer"] for row in rows))
    optimizer = optimizer or names[0]
    for name in (optimizer, *baselines):
        if name not in names:
            raise unknown(f"optimizer of {path.name}", name, names)
    others = [name for name in names if name != optimizer and name in (baselines or names)]
    pairs = [(arena, name) for arena, here in arms.items() for name in others if {optimizer, name} <= here.keys()]
    if not pairs:
        raise UsageError(f"{path.name}: {optimizer} shares no arena with another optimizer; add rows, or --optimizer")
    directions = {arena: _direction(arena, rows, better) for arena in arms}
    return judge([_compare(x, directions[x], arms[x], optimizer, name) for x, name in pairs], alpha)


def _rows(path: Path) -> list[Row]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}; give a CSV file in UTF-8") from None
    reader = csv.DictReader(lines)
    columns = [name.strip() for name in reader.fieldnames or ()]
    reader.fieldnames = columns
    if not any(set(kind) <= set(columns) for kind in (SEEDS, SUMMARIES)):
        kinds = " or ".join(", ".join(kind) for kind in (SEEDS, SUMMARIES))
        raise UsageError(f"{path.name} must have the columns {kinds}; it has {', '.join(columns) or 'none'}")
    rows = []
    for cells in reader:
        place = f"{path.name}, line {reader.line_num}"
        if None in cells or None in cells.values():
            raise UsageError(f"{place}: must have {len(columns)} cells, as the first line; quote a cell with commas")
        rows.append(Row({column: cell.strip() for column, cell in cells.items()}, place))
    if not rows:
        raise UsageError(f"{path.name} has no rows; add one for each seed or arm")
    return rows


def _add(arms: dict[str, Arm], row: Row) -> None:
    """Add the value or the summary of a row to the arms of its arena."""
    name = row.cells["optimizer"]
    if "seed" not in row.cells or "value" not in row.cells:
        if name in arms:
            raise UsageError(f"{row.place}: {name} has a row already; keep one")
        arms[name] = _summary(row)
        return
    values = arms.setdefault(name, {})
    assert isinstance(values, dict)  # a table has one kind of row
    if (seed := row.cells["seed"]) in values:
        raise UsageError(f"{row.place}: seed {seed} of {name} has a value already; keep one")
    values[seed] = row.number("value")


def _summary(row: Row) -> Summary:
    n, mean, std = row.whole("n"), row.number("mean"), row.number("std")
    if n < 1 or not 0 <= std < math.inf or not math.isfinite(mean):
        need = "n must be at least 1, mean finite, and std finite and not negative"
        raise UsageError(f"{row.place}: {need}; got n {n}, mean {mean}, std {std}")
    return Summary(n, mean, std)


def _direction(arena: str, rows: Iterable[Row], better: str) -> str:
    """Which direction of the values is better in an arena, "min" or "max"."""
    given: dict[str, str] = {}
    for row in rows:
        if row.cells["arena"] == arena:
            given.setdefault(row.cells.get("better", ""), row.place)
    found, (place, *others) = [better] if better else [*given], given.values()
    if found == [""]:
        raise UsageError(f"{place}: which values are better? Give --better lower or higher, or a column better")
    if wrong := [word for word in found if word not in BETTER]:
        raise UsageError(f"{place}: better must be lower or higher, got {wrong[0]!r}")
    if len(found) > 1:
        raise UsageError(f"{others[0]}: better must be the same in all rows of arena {arena}")
    return BETTER[found[0]]


def _compare(arena: str, direction: str, arms: Mapping[str, Arm], optimizer: str, baseline: str) -> Comparison:
    """A comparison before Holm's correction."""
    begun = Comparison(arena, "value", direction, optimizer, baseline)
    ours, theirs = arms[optimizer], arms[baseline]
    if isinstance(ours, Summary) and isinstance(theirs, Summary):
        begun = replace(begun, n_optimizer=ours.n, n_baseline=theirs.n, seeds=max(ours.n, theirs.n))
        return summarized(begun, ours, theirs)
    assert isinstance(ours, dict)
    assert isinstance(theirs, dict)  # a table has one kind of row
    seeds = dict.fromkeys(seed for arm in arms.values() if isinstance(arm, dict) for seed in arm)
    return _by_seed(begun, list(seeds), ours, theirs)


def _by_seed(begun: Comparison, seeds: Sequence[str], ours: Seeds, theirs: Seeds) -> Comparison:
    """The comparison of two arms by their seeds, of which every arm must have all."""
    n, sides = len(seeds), ((begun.optimizer, ours), (begun.baseline, theirs))
    missing = {name: n - len(arm) for name, arm in sides}
    diverged = {name: sum(not math.isfinite(x) for x in arm.values()) for name, arm in sides}
    begun = replace(
        begun,
        seeds=n,
        n_optimizer=len(ours) - diverged[begun.optimizer],
        n_baseline=len(theirs) - diverged[begun.baseline],
        diverged_optimizer=diverged[begun.optimizer],
        diverged_baseline=diverged[begun.baseline],
    )
    if note := ", ".join(f"{name} missing {count}/{n}" for name, count in missing.items() if count):
        return replace(begun, verdict="incomplete", note=note)
    if note := ", ".join(f"{name} diverged {count}/{n}" for name, count in diverged.items() if count):
        return replace(begun, verdict="diverged", note=note)
    a, b = ([arm[seed] for seed in seeds] for arm in (ours, theirs))
    return of_values(begun, a, b)
