"""The records of a study, read no more often than they must be."""

import os
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path

from fairbench import index
from fairbench.compact import Compactor
from fairbench.errors import UsageError
from fairbench.history import History, read_history
from fairbench.index import Index
from fairbench.spec import TrialSpec
from fairbench.store import Record, read_record, write_atomically

WORTHWHILE = 100
"""Records that were read for which the index is written anew."""


class Snapshot:
    """The records of a study, each as it is when it is first asked for; what came later is not there.

    A call gives a whole record, `brief` as much of it as planning and a live view need, which the study's index may
    know without the record being read.

    Args:
        directory: the study's output directory.
    """

    def __init__(self, directory: Path) -> None:
        self._trials, self._index_file = directory / "trials", directory / index.FILE
        self._files: dict[str, os.DirEntry[str]] = {}
        with suppress(FileNotFoundError), os.scandir(self._trials) as entries:
            self._files = {x.name.removesuffix(".json"): x for x in entries if x.name.endswith(".json")}
        self._whole: dict[str, Record] = {}
        self._briefs: dict[str, Record | None] = {}
        self._compact = Compactor()

    @cached_property
    def _index(self) -> Index:
        try:
            return Index(self._index_file.read_bytes())
        except OSError:
            return Index()

    def __call__(self, spec: TrialSpec) -> Record | None:
        """The whole record of a trial, None when there is none; it is compact, see `fairbench.compact`.

        Raises:
            UsageError: the record is damaged; it is left as it is.
        """
        name = spec.id
        if name not in self._whole and name in self._files and (record := self._read(name)) is not None:
            self._whole[name] = self._compact(spec, record)
        return self._whole.get(name)

    def brief(self, spec: TrialSpec) -> Record | None:
        """What `fairbench.index.brief` gives of the record of a trial, None when there is none.

        Raises:
            UsageError: the record is damaged; it is left as it is.
        """
        return self._brief(spec.id) if spec.id in self._files else None

    def final_trials(self) -> int:
        """How many final trials have a record, of any plan; one that cannot be read may be one."""
        return sum(map(self._may_be_final, self._files))

    def remember(self) -> None:
        """Write what was read into the index, where that saves the next reader some time."""
        if self._index.learned >= WORTHWHILE:
            with suppress(UsageError):  # it is read-only, or the disk is full: whoever comes next reads what we read
                write_atomically(self._index_file, self._index.content(self._files))

    def _may_be_final(self, name: str) -> bool:
        try:
            record = self._brief(name)
        except UsageError:
            return True
        return record is not None and record["spec"]["stage"] == "final"

    def _brief(self, name: str) -> Record | None:
        if name in self._briefs:
            return self._briefs[name]
        try:
            known = self._index.knows(name, index.stamp(self._files[name].stat()))
        except OSError:  # who reads it will say why
            known = False
        there = known or self._read(name) is not None
        told = self._briefs[name] = self._index.brief(name) if there else None
        return told

    def _read(self, name: str) -> Record | None:
        """A record; the index learns of it, unless it knows that it was checked and is as it was."""
        found = read_record(self._trials / f"{name}.json", partial(self._index.knows, name))
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
