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
from fairbench.suites.search import NO_RATE


class ShownRecord(Record, frozen=True, kw_only=True):
    """A record with its spec as it is stored."""

    spec: dict[str, Any]


@dataclass(frozen=True)
class Explained:
    """The records of one trial or two, and lines of text about them.

    The lines say whether the plan has the one trial, or how the two trials differ.
    """

    records: list[ShownRecord]
    lines: list[str]

    def to_json(self) -> dict[str, Any]:
        """The trials and the lines as plain JSON values."""
        trials = []
        for record in self.records:
            values = plain_values(record)
            trials.append({key: values[key] for key in ("id", "status", "spec", "error", "environment")})
        return {"trials": trials, "text": self.lines}

    def __str__(self) -> str:
        return "\n".join(self.lines)


def explain(options: argparse.Namespace) -> Explained:
    """`fairbench explain`: what identifies a trial, or how two trials differ."""
    if len(options.trials) > 2:
        raise UsageError(f"one trial is explained, or the difference between two; got {len(options.trials)}")
    files = [_record_file(name, options.output_dir) for name in options.trials]
    records = [_read(file) for file in files]
    lines = []
    for file, record in zip(files, records, strict=True):
        lines.append(f"{file.stem}  {TrialSpec.from_json(record.spec).label()}: {record.status}")
        if record.error:
            lines.append(f"  {record.error}")
        if record.environment:
            lines += [f"  {key}: {value}" for key, value in record.environment.items()]
    if len(records) == 1:
        directory = files[0].parent.parent
        lines += _compare_with_plan(directory, records[0])
    else:
        lines += _differences(records[0].spec, records[1].spec)
    return Explained(records, lines)


def _record_file(name: str, directory: Path | None) -> Path:
    """The file of a record.

    `name` is the file itself, or the beginning of an id: then one record in the directory, or in all studies without a
    directory, must have it.
    """
    if Path(name).is_file():
        return Path(name)
    results = Path("results")
    folders = [directory] if directory else sorted(results.glob("*"))
    where = f"{directory}" if directory else f"the studies of {results.resolve()}"
    matching = []
    for folder in folders:
        files = sorted((folder / TRIALS).glob("*.json"))
        matching += [file for file in files if file.stem.startswith(name)]
    if not matching:
        raise UsageError(f"no trial in {where} begins with {name!r}; give its study as --output-dir, or its file")
    if len(matching) == 1:
        return matching[0]
    choices = list(dict.fromkeys(file.stem for file in matching))
    remedy = "more of the id"
    if len(choices) == 1:  # the same trial is in several studies
        choices = [str(file) for file in matching]
        remedy = "one of these files"
    raise UsageError(f"{len(matching)} trials in {where} begin with {name!r}: {some(choices)}; give {remedy}")


def _read(file: Path) -> ShownRecord:
    """The record in a file. Raises `UsageError` if there is no such file, or if it is damaged."""
    record = read_file(file, _checked)
    if record is None:
        raise UsageError(f"there is no file {file}")
    if isinstance(record, Damaged):
        raise UsageError(record.text("record", "name another one"))
    return record


def _checked(content: bytes) -> ShownRecord:
    """The record in the content of a file. Raises ValueError if a part is missing that is shown."""
    record = decode(content, ShownRecord, None)
    spec = build(TrialSpec, record.spec, ())
    build(float, spec.optimizer.options.get("lr", NO_RATE), ("spec", "optimizer", "options", "lr"))
    return record


def _compare_with_plan(directory: Path, record: ShownRecord) -> list[str]:
    """Lines on whether the plan of a directory has a trial.

    If not, how it differs from the most similar planned trial.
    """
    history, lookup = open_study(directory)
    spec = TrialSpec.from_json(record.spec)
    seeds = seeds_needed(history.study, lookup)
    planned = []
    for arm in arms(history.study, lookup, seeds):
        planned += arm.trials
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
    """Lines on the differences between the specs of two trials."""
    entries = changes(first, second)
    if not entries:
        return ["they are the same trial"]
    return ["they differ in", *[f"  {entry}" for entry in entries]]
