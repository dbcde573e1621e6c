"""What planning needs of each record, remembered so that not all of them must be read to know it.

The index is a file beside the records, `DIR/index.jsonl`, and nothing that counts: it may be deleted at any time, and
whoever may write replaces it as a whole, the last one wins. What it says of a record holds for the file that was read
and checked, which is known by its size, its times and its inode; of any other file it says nothing.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from fairbench.study.records import Record, Stamp

FILE = "index.jsonl"
VERSION = 2
"""An index that was written by another version is not read."""


class Told(NamedTuple):
    """What the index tells of a record.

    Attributes:
        environment: machine and versions; None when the trial failed.
        stage: "sweep", "final" or "timing".
        status: "finished", "diverged" or "failed".
        seconds: that the trial took; None when it failed.
        steps: that it has done; None when it failed.
        val: the final metrics of the validation split in a sweep trial that finished: nothing else is selected by.
    """

    environment: Any
    stage: str
    status: str
    seconds: float | None
    steps: int | None
    val: dict[str, float] | None

    @classmethod
    def of(cls, record: Record) -> "Told":
        """What is told of a record, or of what `brief` gave of it."""
        stage, cost, result = record["spec"]["stage"], record["cost"], record["result"]
        final = result and stage == "sweep" and result["final"]
        return cls(
            record["environment"],
            stage,
            record["status"],
            cost and cost["seconds"]["total"],
            result and result["steps"],
            final["val"] if final else None,
        )

    def brief(self, name: str) -> Record:
        """The same in the places where the whole record has it.

        Args:
            name: id of the trial.
        """
        return {
            "id": name,
            "spec": {"stage": self.stage},
            "status": self.status,
            "environment": self.environment,
            "cost": None if self.seconds is None else {"seconds": {"total": self.seconds}},
            "result": None if self.steps is None else {"steps": self.steps, "final": self.val and {"val": self.val}},
        }


def brief(record: Record) -> Record:
    """What planning needs of a record, in the places where the whole record has it."""
    return Told.of(record).brief(record["id"])


class Index:
    """What is remembered of records that were read and checked.

    Args:
        content: what `content` has made; anything else is as good as nothing.
    """

    def __init__(self, content: bytes = b"") -> None:
        self.learned = 0
        """How many records were read since."""
        self._environments: list[Any] = []
        self._rows: dict[str, list[Any]] = {}  # state of the file, number of the environment, the other facts
        head, _, body = content.partition(b"\n")
        if head == _head(body):
            value = orjson.loads(body)
            self._environments, self._rows = value["environments"], value["records"]

    def content(self, present: Iterable[str]) -> bytes:
        """The index as it is written to a file.

        Args:
            present: ids of the records that are there; others are forgotten.
        """
        rows = {name: self._rows[name] for name in sorted(present) if name in self._rows}
        body = json.dumps({"environments": self._environments, "records": rows}, separators=(",", ":")).encode()
        return _head(body) + b"\n" + body

    def knows(self, name: str, state: Stamp) -> bool:
        """Whether a record was read from a file in this state."""
        row = self._rows.get(name)
        return row is not None and row[0] == state

    def told(self, name: str, state: Stamp) -> Told | None:
        """What is told of a record that was read from a file in this state; None if none was."""
        row = self._rows.get(name)
        return Told(self._environments[row[1]], *row[2:]) if row is not None and row[0] == state else None

    def learn(self, name: str, state: Stamp, record: Record) -> None:
        """Remember a record that was read from a file in this state, and checked."""
        environment, *facts = Told.of(record)
        if environment not in self._environments:
            self._environments.append(environment)
        self._rows[name] = [state, self._environments.index(environment), *facts]
        self.learned += 1


def _head(body: bytes) -> bytes:
    """The first line of an index, by which it is known to be whole and of this version."""
    return json.dumps({"version": VERSION, "sha256": hashlib.sha256(body).hexdigest()}).encode()
