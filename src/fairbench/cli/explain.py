"""`fairbench explain`: the identity of a trial, and the differences between two."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairbench.analysis.seeds import seeds_needed
from fairbench.common.coercion import build
from fairbench.common.errors import UsageError
from fairbench.common.formatting import some
from fairbench.common.reading import Damaged, read_file
from fairbench.study.folder import TRIALS
from fairbench.study.history import changes
from fairbench.study.plan import arms
from fairbench.study.record import Record, decode, plain_values
from fairbench.study.snapshot import open_study
from fairbench.study.trial_spec import TrialSpec


class ShownRecord(Record, frozen=True, kw_only=True):
    """A record with its spec as it is stored."""

    spec: dict[str, Any]


@dataclass(frozen=True)
class Explained:
    """The records of one trial or two, and lines on its place in the plan, or on their differences."""

    records: list[ShownRecord]
    lines: list[str]

    def to_json(self) -> dict[str, Any]:
        keys = ("id", "status", "spec", "error", "environment")
        return {
            "trials": [{key: record[key] for key in keys} for record in map(plain_values, self.records)],
            "text": self.lines,
        }

    def __str__(self) -> str:
        return "\n".join(self.lines)


def explain(options: argparse.Namespace) -> Explained:
    """What identifies a trial, or how two trials differ."""
    if len(options.trials) > 2:
        raise UsageError(f"one trial is explained, or the difference between two; got {len(options.trials)}")
    files = [_record_file(name, options.output_dir) for name in options.trials]
    records = [_read(file) for file in files]
    lines = []
    for file, record in zip(files, records, strict=True):
        lines.append(f"{file.stem}  {TrialSpec.from_json(record.spec).label()}: {record.status}")
        lines += [f"  {record.error}"] if record.error else []
        lines += [f"  {key}: {value}" for key, value in (record.environment or {}).items()]
    if len(records) == 1:
        return Explained(records, [*lines, *_compare_with_plan(files[0].parent.parent, records[0])])
    return Explained(records, [*lines, *_differences(records[0].spec, records[1].spec)])


def _record_file(name: str, directory: Path | None) -> Path:
    if Path(name).is_file():
        return Path(name)
    folders = [directory] if directory else sorted(Path("results").glob("*"))
    files = [file for folder in folders for file in sorted((folder / TRIALS).glob("*.json"))]
    matching = [file for file in files if file.stem.startswith(name)]
    where = f"{directory}" if directory else f"the studies of {Path('results').resolve()}"
    if not matching:
        raise UsageError(f"no trial in {where} begins with {name!r}; give its study as --output-dir, or its file")
    if len(matching) > 1:
        ids = list(dict.fromkeys(file.stem for file in matching))
        found, way = (ids, "more of the id") if ids[1:] else ([*map(str, matching)], "one of these files")
        raise UsageError(f"{len(matching)} trials in {where} begin with {name!r}: {some(found)}; give {way}")
    return matching[0]


def _read(file: Path) -> ShownRecord:
    record = read_file(file, _checked)
    if record is None or isinstance(record, Damaged):
        raise UsageError(record.text("record", "name another one") if record else f"there is no file {file}")
    return record


def _checked(content: bytes) -> ShownRecord:
    """The record in a file; raises ValueError if it lacks something that is shown."""
    record = decode(content, ShownRecord, None)
    spec = build(TrialSpec, record.spec, ())
    build(float, spec.optimizer.options.get("lr"), ("spec", "optimizer", "options", "lr"))
    return record


def _compare_with_plan(directory: Path, record: ShownRecord) -> list[str]:
    """Whether the plan of a directory has the trial, otherwise its differences from the nearest planned one."""
    history, lookup = open_study(directory)
    spec = TrialSpec.from_json(record.spec)
    seeds = seeds_needed(history.study, lookup)
    planned = [trial for arm in arms(history.study, lookup, seeds) for trial in arm.trials]
    if any(trial.id == spec.id for trial in planned):
        return [f"the plan of {directory} has this trial"]
    searched = history.study.suite.sweep.extra
    label = spec.label(searched)
    alike = [trial for trial in planned if trial.label(searched) == label]
    if not alike:
        return [f"the plan of {directory} has no {label}"]
    nearest = min(alike, key=lambda trial: len(changes(record.spec, trial.as_stored)))
    return [f"the plan of {directory} has {nearest.id} instead", *_differences(record.spec, nearest.as_stored)]


def _differences(first: Any, second: Any) -> list[str]:
    entries = changes(first, second)
    return ["they differ in", *(f"  {entry}" for entry in entries)] if entries else ["they are the same trial"]
