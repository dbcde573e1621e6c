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
from fairbench.study.history import History, read_history
from fairbench.study.record_index import INDEX_FILE, Index, IndexEntry
from fairbench.study.records import Record, read_record
from fairbench.study.trial_spec import TrialSpec

SUFFIX = ".json"
"""End of a record's file name, after the trial's id."""
WORTHWHILE = 100
"""New entries from which the index is written again."""


class Snapshot:
    """The records of a study, each as it is when it is first read; later records are absent.

    `snapshot(spec)` reads the whole record; `reduced` and `entry` read it only if the index does not have it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory, self._trials = directory, str(directory / "trials")
        self._index_file = directory / INDEX_FILE
        self._present: set[str] = set()  # ids of the trials with a record
        with suppress(FileNotFoundError), os.scandir(self._trials) as files:
            self._present = {x.name.removesuffix(SUFFIX) for x in files if x.name.endswith(SUFFIX)}
        self._whole: dict[str, Record] = {}
        self._entries: dict[str, IndexEntry | None] = {}
        self._compact = Compactor()

    @cached_property
    def _index(self) -> Index:
        try:
            return Index(self._index_file.read_bytes())
        except OSError:
            return Index()

    def __call__(self, spec: TrialSpec) -> Record | None:
        """The whole record of a trial, compact (see `Compactor`); None without one.

        Raises:
            UsageError: the record is damaged; it is left unchanged.
        """
        trial = spec.id
        if trial not in self._whole and trial in self._present and (record := self._read(trial)) is not None:
            self._whole[trial] = self._compact(spec, record)
        return self._whole.get(trial)

    def reduced(self, spec: TrialSpec) -> Record | None:
        """The parts of a trial's record that planning needs; None without a record. Raises as `entry` does."""
        entry = self.entry(spec.id)
        return entry and entry.as_record(spec.id)

    def entry(self, trial: str) -> IndexEntry | None:
        """The index entry of the trial with that id; None without a record.

        Raises:
            UsageError: the record is damaged; it is left unchanged.
        """
        if trial not in self._present:
            return None
        if trial not in self._entries:
            entry = None
            with suppress(OSError):  # reading the record will give the reason
                entry = self._index.entry(trial, stamp(os.stat(self._path(trial))))  # noqa: PTH116 - no Path for each
            if entry is None and (record := self._read(trial)) is not None:
                entry = IndexEntry.of(record)
            self._entries[trial] = entry
        return self._entries[trial]

    def _path(self, trial: str) -> str:
        return f"{self._trials}/{trial}{SUFFIX}"

    def refreshed(self) -> "Snapshot":
        """The records as they are now; final ones are not read again, but those of failed trials are."""
        later = Snapshot(self._directory)
        later._entries = {trial: entry for trial, entry in self._entries.items() if entry and entry.status != "failed"}
        return later

    def final_trials(self) -> int:
        """How many final trials have a record, of any plan; a damaged record counts."""

        def may_be_final(trial: str) -> bool:
            try:
                entry = self.entry(trial)
            except UsageError:
                return True
            return entry is not None and entry.stage == "final"

        return sum(map(may_be_final, self._present))

    def write_index(self) -> None:
        """Write the index, if it gained enough entries to save the next reader time."""
        if self._index.added >= WORTHWHILE:
            with suppress(UsageError):  # read-only, or the disk is full: the next reader reads the records
                write_atomically(self._index_file, self._index.content(self._present))

    def _read(self, trial: str) -> Record | None:
        """A record, which is verified and added to the index, unless the index has it."""

        def is_indexed(state: Stamp) -> bool:
            return self._index.entry(trial, state) is not None

        record_and_stamp = read_record(Path(self._path(trial)), is_indexed)
        if record_and_stamp is None:
            return None
        record, state = record_and_stamp
        if not is_indexed(state):
            self._index.add(trial, state, record)
        return record


def open_study(directory: Path) -> tuple[History, Snapshot]:
    """The plans of an output directory and its records as they are now; raises as `read_plans` does."""
    return read_plans(directory), Snapshot(directory)


def read_plans(directory: Path) -> History:
    """The plans of an output directory.

    Raises:
        UsageError: there is no study, or its configuration is damaged.
    """
    history = read_history(directory)
    if not history.plans:
        reason = "there is no config.json" if directory.is_dir() else "there is no such directory"
        raise UsageError(f"{directory} holds no study: {reason}")
    return history


class Packed:
    """A list or dictionary of JSON values, serialized to a tenth of its memory and parsed at every access."""

    __slots__ = ("_packed",)

    def __init__(self, values: list[Any] | dict[str, Any]) -> None:
        self._packed = marshal.dumps(values)

    def _values(self) -> Any:
        return marshal.loads(self._packed)

    def __len__(self) -> int:
        return len(self._values())

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
