"""What a trial is, and why two trials are not the same one."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.study.history import changes
from fairbench.study.plan import arms
from fairbench.study.records import Record
from fairbench.study.snapshot import open_study
from fairbench.study.trial_spec import TrialSpec


def explain_trials(names: Sequence[str], directory: Path | None) -> list[str]:
    """Lines on one trial and its place in the plan, or on the difference between two.

    Args:
        names: one or two trials, as record files or beginnings of ids.
        directory: the output directory that has them; None looks into all of `results/`.

    Raises:
        UsageError: there is no such trial, more than one of that name, or more than two were asked for.
    """
    if len(names) > 2:
        raise UsageError(f"one trial is explained, or the difference between two; got {len(names)}")
    files = [find_record(name, directory) for name in names]
    records = [read_any(file) for file in files]
    lines = [line for file, record in zip(files, records, strict=True) for line in describe(file, record)]
    if len(records) == 1:
        return [*lines, *place(files[0].parent.parent, records[0])]
    return [*lines, *difference(records[0]["spec"], records[1]["spec"])]


def find_record(name: str, directory: Path | None) -> Path:
    """The file of a trial's record."""
    if Path(name).is_file():
        return Path(name)
    where = [directory] if directory else sorted(Path("results").glob("*"))
    found = [
        file for folder in where for file in sorted((folder / "trials").glob("*.json")) if file.stem.startswith(name)
    ]
    if len(found) != 1:
        place = directory or "results/"
        many = f": {', '.join(map(str, found[:5]))}" if found else "; say --output-dir"
        raise UsageError(f"{len(found) or 'no'} trials in {place} begin with {name!r}{many}")
    return found[0]


def read_any(file: Path) -> Record:
    """A record, of whatever study and code."""
    try:
        record: Record = json.loads(file.read_text())
        TrialSpec.from_json(record["spec"])
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise UsageError(f"{file} is no readable record ({type(error).__name__}: {error})") from error
    return record


def describe(file: Path, record: Record) -> list[str]:
    """What a trial is and what became of it."""
    spec = TrialSpec.from_json(record["spec"])
    ground = record["environment"] or {}
    lines = [f"{file.stem}  {spec.label()}: {record['status']}"]
    if record["error"]:
        lines.append(f"  {record['error']['type']}: {record['error']['message']}")
    return lines + [f"  {fact}: {value}" for fact, value in ground.items()]


def place(directory: Path, record: Record) -> list[str]:
    """Whether the plan of its directory has the trial, and if not, how the planned one differs."""
    history, lookup = open_study(directory)
    spec = TrialSpec.from_json(record["spec"])
    planned = [trial for arm in arms(history.study, lookup) for trial in arm.trials]
    if any(trial.id == spec.id for trial in planned):
        return [f"the plan of {directory} has this trial"]
    searched = history.study.suite.sweep.extra
    label = spec.label(searched)
    alike = [trial for trial in planned if trial.label(searched) == label]
    if not alike:
        return [f"the plan of {directory} has no {label}"]
    nearest = min(alike, key=lambda trial: len(changes(record["spec"], trial.as_stored)))
    return [f"the plan of {directory} has {nearest.id} instead", *difference(record["spec"], nearest.as_stored)]


def difference(first: Any, second: Any) -> list[str]:
    """How the spec of one trial differs from that of another, entry by entry."""
    found = changes(first, second)
    if not found:
        return ["they are the same trial"]
    return ["they differ in", *(f"  {change}" for change in found)]
