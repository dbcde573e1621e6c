"""The records of a study as far as a driver knows them."""

from collections.abc import Callable, Collection, Mapping

from msgspec.structs import replace

from fairbench.common.files import Stamp
from fairbench.study.record import Record, WholeRecord
from fairbench.study.records import Store
from fairbench.study.trial_spec import TrialSpec


class KnownRecords:
    """The records of a study as planning needs them. The failure of a trial in an earlier run counts as no record.

    A damaged record is kept as it is, and its trial does not run again, since the user may want to repair the record.

    Args:
        store: the records of the study on disk.
        metrics: the metrics that a record of each arena must have.
        say: gets a message on each damaged record.
    """

    def __init__(self, store: Store, metrics: Mapping[str, Collection[str]], say: Callable[[str], None]) -> None:
        self._store = store
        self._metrics = metrics
        self._say = say
        self._known: dict[str, Record | None] = {}
        self._earlier_failures: dict[str, Stamp] = {}

    def __call__(self, spec: TrialSpec) -> Record | None:
        """The record of a trial, read once; None if the trial has to run."""
        if spec.id not in self._known:
            self._known[spec.id] = self._first_read(spec)
        return self._known[spec.id]

    def _first_read(self, spec: TrialSpec) -> Record | None:
        """The record on disk when this run first asks for it.

        None without one, and for a failure of an earlier run, which is remembered as such.
        """
        stamp = self._store.stamp(spec.id)
        record = self.read_now(spec)
        if record and record.status == "failed" and not record.is_damaged:
            self._earlier_failures[spec.id] = stamp
            return None
        return record

    def read_now(self, spec: TrialSpec) -> Record | None:
        """The record on disk now, unless it is the failure of an earlier run. A damaged record is said."""
        stamp = self._store.stamp(spec.id)
        record = self._store.read(spec, Record, self._metrics[spec.arena.name])
        if record and record.error and record.is_damaged:
            self._say(record.error.message)
        if self._earlier_failures.get(spec.id) == stamp:
            return None  # the file has not changed since that failure
        return record

    def whole(self, spec: TrialSpec) -> WholeRecord | None:
        """The record on disk with its long parts."""
        return self._store.read(spec, WholeRecord, self._metrics[spec.arena.name])

    def add(self, record: Record) -> None:
        """Remember a record, without its long parts, which planning does not read."""
        if isinstance(record, WholeRecord):
            record = replace(record, details=None)
        self._known[record.id] = record

    def successful(self) -> list[Record]:
        """The known records of trials that did not fail."""
        return [record for record in self._known.values() if record and record.status != "failed"]
