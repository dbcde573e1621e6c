"""The records of a study at one moment, each read at most once."""

import marshal
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.common.files import Stamp, stamp, write_atomically
from fairbench.common.reading import Damaged, read_bytes
from fairbench.study.folder import TRIALS
from fairbench.study.history import History, read_history
from fairbench.study.plan import ResolvedSuite
from fairbench.study.record_index import INDEX_FILE, Index, IndexEntry
from fairbench.study.records import Record, damage, read_record, stand_in
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.loader import suite_names

DAMAGED = IndexEntry(None, "", "failed", None, None, None, None)
"""The entry of a damaged record: that of a failed trial of an unknown stage."""
SUFFIX = ".json"
"""End of a record's file name, after the trial's id."""
WORTHWHILE = 100
"""New entries from which the index is written again."""


class Snapshot:
    """The records of a study, each as it is when it is first read; later records are absent.

    `snapshot(spec)` reads the whole record; `reduced` and `entry` read it only if the index does not have it. A damaged
    record is left unchanged, and counts as that of a failed trial.

    Args:
        directory: of the study.
        study: tells what the records of each arena must have measured; None if only stages and times are needed.
    """

    def __init__(self, directory: Path, study: ResolvedSuite | None = None) -> None:
        self._directory, self._trials, self._study = directory, str(directory / TRIALS), study
        self._metrics = study.suite.metrics if study else {}
        self._index_file = directory / INDEX_FILE
        self._present: set[str] = set()  # ids of the trials with a record
        with suppress(FileNotFoundError), os.scandir(self._trials) as files:
            self._present = {x.name.removesuffix(SUFFIX) for x in files if x.name.endswith(SUFFIX)}
        self._whole: dict[str, Record] = {}
        self._entries: dict[str, IndexEntry | None] = {}
        self._damaged: dict[str, Damaged] = {}
        self._compact = Compactor()

    @property
    def damaged(self) -> list[str]:
        """Messages on the damaged records among those that were read."""
        return [damage(x) for x in self._damaged.values()]

    @cached_property
    def _index(self) -> Index:
        read = read_bytes(self._index_file)
        return Index(read[0]) if isinstance(read, tuple) else Index()

    def __call__(self, spec: TrialSpec) -> Record | None:
        """The whole record of a trial, compact (see `Compactor`); the stand-in for a damaged one; None without one."""
        trial = spec.id
        if trial not in self._whole and trial in self._present and (record := self._read(trial)) is not None:
            self._whole[trial] = self._compact(spec, record)
        return self._whole.get(trial) or self._stand_in(spec)

    def _stand_in(self, spec: TrialSpec) -> Record | None:
        return stand_in(spec, self._damaged[spec.id]) if spec.id in self._damaged else None

    def reduced(self, spec: TrialSpec) -> Record | None:
        """The parts of a trial's record that planning needs, or the stand-in for a damaged one; None without one."""
        entry = self.entry(spec.id)
        measured = [*entry.final.values()] if entry and entry.final else []
        if any(metrics.keys() != set(self._metrics.get(spec.arena.name, metrics)) for metrics in measured):
            record = self._read(spec.id)  # the index is wrong
            entry = self._entries[spec.id] = IndexEntry.of(record) if record else DAMAGED
        return self._stand_in(spec) or (entry and entry.as_record(spec.id))

    def entry(self, trial: str) -> IndexEntry | None:
        """The index entry of the trial with that id; None without a record."""
        if trial not in self._present:
            return None
        if trial not in self._entries:
            entry = None
            with suppress(OSError):  # reading the record will give the reason
                entry = self._index.entry(trial, stamp(os.stat(self._path(trial))))  # noqa: PTH116 - no Path for each
            if entry is None and (record := self._read(trial)) is not None:
                entry = IndexEntry.of(record)
            self._entries[trial] = entry or (DAMAGED if trial in self._damaged else None)
        return self._entries[trial]

    def _path(self, trial: str) -> str:
        return f"{self._trials}/{trial}{SUFFIX}"

    def refreshed(self) -> "Snapshot":
        """The records as they are now; final ones are not read again, but those of failed trials are."""
        later = Snapshot(self._directory, self._study)
        later._entries = {trial: entry for trial, entry in self._entries.items() if entry and entry.status != "failed"}
        return later

    def final_trials(self) -> int:
        """How many final trials have a record, of any plan; a damaged record counts."""
        entries = map(self.entry, self._present)
        return sum(entry is not None and entry.stage in ("final", DAMAGED.stage) for entry in entries)

    def write_index(self) -> None:
        """Write the index, if it gained enough entries to save the next reader time."""
        if self._index.added >= WORTHWHILE:
            with suppress(UsageError):  # read-only, or the disk is full: the next reader reads the records
                write_atomically(self._index_file, self._index.content(self._present))

    def _read(self, trial: str) -> Record | None:
        """A record, which is verified and added to the index, unless the index has it; None if it is damaged."""

        def is_indexed(state: Stamp) -> bool:
            return self._index.entry(trial, state) is not None

        read = read_record(Path(self._path(trial)), self._metrics, is_indexed)
        if isinstance(read, Damaged):
            self._damaged[trial] = read
        if not isinstance(read, tuple):
            return None
        record, state = read
        if not is_indexed(state):
            self._index.add(trial, state, record)
        return record


def open_study(directory: Path) -> tuple[History, Snapshot]:
    """The plans of an output directory and its records as they are now; raises as `read_plans` does."""
    history = read_plans(directory)
    return history, Snapshot(directory, history.study)


def read_plans(directory: Path) -> History:
    """The plans of an output directory.

    Raises:
        UsageError: there is no study, or its configuration is damaged.
    """
    history = read_history(directory)
    if not history.plans:
        reason = "there is no config.json" if directory.is_dir() else "there is no such directory"
        named = f"the study of a suite is in results/{directory}" if str(directory) in suite_names() else ""
        advice = named or "give the --output-dir of a run, as results/mini"
        raise UsageError(f"{directory} holds no study: {reason}; {advice}")
    return history


class Packed:
    """A list or dictionary of JSON values, serialized to a tenth of its memory and parsed at every access."""

    __slots__ = ("_length", "_packed")

    def __init__(self, values: list[Any] | dict[str, Any]) -> None:
        self._packed = marshal.dumps(values)
        self._length = len(values)  # which `list` asks for before it iterates

    def _values(self) -> Any:
        return marshal.loads(self._packed)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, key: Any) -> Any:
        return self._values()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values())


class PackedList(Packed, Sequence[Any]):
    """A packed list."""

    __slots__ = ()


class PackedDict(Packed, Mapping[str, Any]):
    """A packed dictionary."""

    __slots__ = ()


class Compactor:
    """Makes the records of a study compact: equal parts are shared, so records must not be changed afterwards."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def __call__(self, spec: TrialSpec, record: Record) -> Record:
        """The record of a trial, which is changed, compact."""
        if result := record["result"]:
            result["loss_curve"] = PackedList(result["loss_curve"])
            result["evaluations"] = PackedList(result["evaluations"])
            if mechanism := result["mechanism"]:
                mechanism["course"] = PackedList(mechanism["course"])
                mechanism["tensors"] = PackedDict(mechanism["tensors"])
            result["hashes"] = {name: self._known.setdefault(x, x) for name, x in result["hashes"].items()}
        spec_json, environment = record["spec"], record["environment"]
        for part in ("arena", "optimizer", "training"):
            spec_json[part] = self._known.setdefault(getattr(spec, part).text, spec_json[part])
        if environment:
            record["environment"] = self._known.setdefault(tuple(environment.items()), environment)
        return record
