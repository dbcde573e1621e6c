"""The course of a study under one driver, perhaps of several: run what is missing and nobody else runs."""

import time
from collections.abc import Callable, Mapping
from functools import partial

from fairbench.common.errors import Preempted
from fairbench.runner.coordination.claims import Claims
from fairbench.runner.executors.base import Executor
from fairbench.runner.observers import Observer
from fairbench.study.plan import Study, timing_trials
from fairbench.study.record_index import brief
from fairbench.study.records import Record, Stamp, Store, judged
from fairbench.study.schedule import Outlook, Schedule
from fairbench.study.trial_spec import TrialSpec

PATIENCE = 2.0
"""Seconds for which a driver waits for its trials, before it says that it is there and looks at those of others."""
LOOK, LOOK_EACH = 1.0, 0.01
"""Seconds between two looks at trials that others run: so many, and so many for each of the trials."""


class Course:
    """Runs the trials of a study until none is missing, those of other drivers included.

    Args:
        study: the study.
        store: its records, the only thing that drivers tell each other; those there are are read now.
        observer: told of the course.
    """

    def __init__(self, study: Study, store: Store, observer: Observer) -> None:
        self.study = study
        self._store, self._observer = store, observer
        self._held = store.snapshot()
        self._records: dict[str, Record | None] = {}  # what planning needs of them
        self._failed: dict[str, Stamp] = {}  # stamps of the records that are there and do not count
        self._running: dict[str, TrialSpec] = {}
        self._elsewhere: dict[str, TrialSpec] = {}  # others run them, or did a moment ago
        self._due: list[TrialSpec] = []  # those of them that are to be looked at now
        self._collected: list[Record] = []
        self._looked, self._said = float("-inf"), False
        self._schedule = Schedule(study, self._lookup)
        self._held.remember()

    @property
    def complete(self) -> bool:
        """Whether nothing is left to run."""
        return not any(self._schedule.outlook().steps_left.values())

    @property
    def records(self) -> list[Record]:
        """The records there are, without those of failed trials."""
        return [record for record in self._records.values() if record]

    def run(
        self, claims: Claims, executor: Executor, limits: Mapping[str, float], resumes: Callable[[TrialSpec], bool]
    ) -> None:
        """Run trials; each record is on disk before the next trial is planned.

        Args:
            claims: of this driver.
            executor: runs the trials.
            limits: seconds that a trial may take, by arena.
            resumes: whether a trial can go on from a checkpoint.

        Raises:
            KeyboardInterrupt: the user stopped it; so did
            Preempted: a signal. Running trials have written a checkpoint, if the executor can have them do so.
        """
        try:
            while True:
                self._observer.planned(self._schedule.outlook())
                while executor.has_room() and (spec := self._claim(claims)):
                    self._running[spec.id] = spec
                    self._observer.started(spec)
                    executor.submit(spec, limits[spec.arena.name], resumes(spec))
                if not self._running and not self._elsewhere:
                    return
                self._wait(executor)
                self._keep(claims)
        except (KeyboardInterrupt, Preempted):
            self._pause(executor)
            raise

    def _lookup(self, spec: TrialSpec) -> Record | None:
        """The record, read once; what failed in an earlier run is tried again."""
        if spec.id not in self._records:
            record = self._held.brief(spec) or self._written_since(spec)
            if record and record["status"] == "failed":
                self._failed[spec.id], record = self._store.stamp(spec), None
            self._records[spec.id] = record and brief(record)
            if record:
                self._observer.found(spec, partial(self._store.read, spec))
        return self._records[spec.id]

    def _claim(self, claims: Claims) -> TrialSpec | None:
        """A trial to run: one that nobody has yet, or that others have had for a while and do no longer."""
        while spec := self._schedule.next() or self._again():
            if not claims.take(spec.id):
                self._elsewhere[spec.id] = spec
                continue
            self._elsewhere.pop(spec.id, None)
            if not (record := self._written_since(spec)):
                return spec
            claims.settle(spec.id)
            self._ended(spec, record)
        return None

    def _again(self) -> TrialSpec | None:
        """One of the trials that others run, each once whenever it is time to look at them."""
        if not self._due and time.monotonic() - self._looked >= max(LOOK, LOOK_EACH * len(self._elsewhere)):
            self._looked = time.monotonic()
            self._due = list(self._elsewhere.values())
        return self._due.pop() if self._due else None

    def _written_since(self, spec: TrialSpec) -> Record | None:
        """The record that another driver has written since this one began; one of a failed trial counts, too."""
        stamp, record = self._store.stamp(spec), self._store.read(spec)
        return None if self._failed.get(spec.id) == stamp else record

    def _wait(self, executor: Executor) -> None:
        """Let time pass, until trials end; who is told of it looks around before they are written down."""
        if self._running:
            self._said = False
            self._collected += executor.collect(PATIENCE)
        else:
            if not self._said:
                self._said = True
                self._observer.say(f"waiting for records of trials that run elsewhere: {len(self._elsewhere)}")
            time.sleep(LOOK)
        self._observer.beat()

    def _keep(self, claims: Claims) -> None:
        """Write down what has ended."""
        while self._collected:
            record = self._collected[0]
            spec = self._running[record["id"]]
            if record["status"] == "paused":
                self._elsewhere[spec.id] = spec
                claims.give_back(spec.id)
                self._observer.paused(spec)
            else:
                record = judged(record, self._store)
                if not self._store.write(record):
                    record = self._store.read(spec) or record
                claims.settle(spec.id)
                self._ended(spec, record)
                self._observer.ended(spec, record)
            self._collected.pop(0)
            del self._running[spec.id]

    def _ended(self, spec: TrialSpec, record: Record) -> None:
        self._records[spec.id] = brief(record)
        self._schedule.ended(spec)

    def _pause(self, executor: Executor) -> None:
        """Keep what running trials have come to, and what had ended; claims end with their `with` block."""
        self._collected += executor.pause()
        for record in self._collected:
            if record["status"] != "paused":
                self._store.write(judged(record, self._store))
            elif unsaved := record.get("unsaved"):
                self._observer.say(f"{self._running[record['id']].label()} could not be saved: {unsaved}")
        if saved := sum(self._store.checkpoint(trial).exists() for trial in self._running):
            self._observer.say(f"{saved} running trials have a checkpoint")


def run_timing(study: Study, store: Store, executor: Executor, observer: Observer, limits: Mapping[str, float]) -> None:
    """Run the timing trials that are missing, one after the other."""
    missing = untimed(study, store)
    steps = dict.fromkeys(study.suite.arenas, 0)
    for done, spec in enumerate(missing):
        observer.planned(Outlook(done, len(missing), steps))
        record = judged(_timed(spec, executor, observer, limits[spec.arena.name]), store)
        store.write(record)
        observer.ended(spec, record)


def untimed(study: Study, store: Store) -> list[TrialSpec]:
    """The timing trials that have no record yet, or failed."""
    found = ((spec, store.read(spec)) for spec in timing_trials(study))
    return [spec for spec, record in found if record is None or record["status"] == "failed"]


def _timed(spec: TrialSpec, executor: Executor, observer: Observer, limit: float) -> Record:
    """The record of a timing trial; it begins again if somebody asks its process to stop."""
    while True:
        observer.started(spec)
        executor.submit(spec, limit)
        records: list[Record] = []
        while not records:
            records = executor.collect(PATIENCE)
            observer.beat()
        (record,) = records
        if record["status"] != "paused":
            return record
        observer.paused(spec)
