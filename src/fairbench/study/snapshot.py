"""The records of a study, read no more often than they must be."""

import marshal
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.common.files import write_atomically
from fairbench.study import record_index
from fairbench.study.history import History, read_history
from fairbench.study.record_index import Index, Told
from fairbench.study.records import Record, read_record, stamp
from fairbench.study.trial_spec import TrialSpec

SUFFIX = ".json"
"""Of a record's file, whose name is the trial's id."""
WORTHWHILE = 100
"""Records that were read for which the index is written anew."""


class Snapshot:
    """The records of a study, each as it is when it is first asked for; what came later is not there.

    A call gives a whole record, `told` as much of it as a live view needs and `brief` the same as planning reads it,
    which the study's index may know without the record being read.

    Args:
        directory: the study's output directory.
    """

    def __init__(self, directory: Path) -> None:
        self._directory, self._index_file, self._trials = (
            directory,
            directory / record_index.FILE,
            str(directory / "trials"),
        )
        self._there: set[str] = set()  # the trials of which there is a record
        with suppress(FileNotFoundError), os.scandir(self._trials) as entries:
            self._there = {x.name.removesuffix(SUFFIX) for x in entries if x.name.endswith(SUFFIX)}
        self._whole: dict[str, Record] = {}
        self._told: dict[str, Told | None] = {}
        self._compact = Compactor()

    @cached_property
    def _index(self) -> Index:
        try:
            return Index(self._index_file.read_bytes())
        except OSError:
            return Index()

    def __call__(self, spec: TrialSpec) -> Record | None:
        """The whole record of a trial, None when there is none; it is compact, see `fairbench.study.snapshot`.

        Raises:
            UsageError: the record is damaged; it is left as it is.
        """
        name = spec.id
        if name not in self._whole and name in self._there and (record := self._read(name)) is not None:
            self._whole[name] = self._compact(spec, record)
        return self._whole.get(name)

    def brief(self, spec: TrialSpec) -> Record | None:
        """What `fairbench.study.record_index.brief` gives of the record of a trial, None when there is none.

        Raises:
            UsageError: the record is damaged; it is left as it is.
        """
        told = self.told(spec.id)
        return told and told.brief(spec.id)

    def told(self, name: str) -> Told | None:
        """What the index tells of the record of the trial of that id, None when there is none.

        Raises:
            UsageError: the record is damaged; it is left as it is.
        """
        if name not in self._there:
            return None
        if name not in self._told:
            self._told[name] = self._unchanged(name) or self._told_anew(name)
        return self._told[name]

    def _unchanged(self, name: str) -> Told | None:
        """What the index tells of a record whose file is as it was when the index learned of it."""
        try:
            return self._index.told(name, stamp(os.stat(self._path(name))))  # noqa: PTH116 - no Path for each
        except OSError:  # who reads it will say why
            return None

    def _told_anew(self, name: str) -> Told | None:
        record = self._read(name)
        return None if record is None else Told.of(record)

    def _path(self, name: str) -> str:
        return f"{self._trials}/{name}{SUFFIX}"

    def renewed(self) -> "Snapshot":
        """The records as they are now; one that was there for good is not looked at again.

        What failed is not for good: a later run tries it again.
        """
        later = Snapshot(self._directory)
        later._told = {name: told for name, told in self._told.items() if told and told.status != "failed"}
        return later

    def final_trials(self) -> int:
        """How many final trials have a record, of any plan; one that cannot be read may be one."""
        return sum(map(self._may_be_final, self._there))

    def remember(self) -> None:
        """Write what was read into the index, where that saves the next reader some time."""
        if self._index.learned >= WORTHWHILE:
            with suppress(UsageError):  # it is read-only, or the disk is full: whoever comes next reads what we read
                write_atomically(self._index_file, self._index.content(self._there))

    def _may_be_final(self, name: str) -> bool:
        try:
            told = self.told(name)
        except UsageError:
            return True
        return told is not None and told.stage == "final"

    def _read(self, name: str) -> Record | None:
        """A record; the index learns of it, unless it knows that it was checked and is as it was."""
        found = read_record(Path(self._path(name)), partial(self._index.knows, name))
        if found is None:
            return None
        record, state = found
        if not self._index.knows(name, state):
            self._index.learn(name, state, record)
        return record


def held_study(directory: Path) -> tuple[History, Snapshot]:
    """The plans of an output directory and its records as they are now; nothing is locked or written.

    Raises:
        UsageError: there is no study, or its configuration is damaged.
    """
    return held_plans(directory), Snapshot(directory)


def held_plans(directory: Path) -> History:
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
    """A list or a dictionary of JSON values that takes a tenth of its memory, and is made anew whenever it is read."""

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
    """Makes the records of a study compact; what they say alike they share, so nobody may change them."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def __call__(self, spec: TrialSpec, record: Record) -> Record:
        """The record of a trial.

        Args:
            spec: the trial.
            record: its record as it was read, which is changed.
        """
        if result := record["result"]:
            result["loss_curve"] = PackedList(result["loss_curve"])
            result["evaluations"] = PackedList(result["evaluations"])
            if mechanism := result["mechanism"]:
                mechanism["course"] = PackedList(mechanism["course"])
                mechanism["tensors"] = PackedDict(mechanism["tensors"])
            result["hashes"] = {name: self._known.setdefault(x, x) for name, x in result["hashes"].items()}
        about, environment = record["spec"], record["environment"]
        for part in ("arena", "optimizer", "training"):
            about[part] = self._known.setdefault(getattr(spec, part).text, about[part])
        if environment:
            record["environment"] = self._known.setdefault(tuple(environment.items()), environment)
        return record
