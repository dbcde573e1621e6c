"""What planning needs of each record, remembered so that not all of them must be read to know it.

The index is a file beside the records, `DIR/index.jsonl`, and nothing that counts: it may be deleted at any time, and
whoever may write replaces it as a whole, the last one wins. What it says of a record holds for the file that was read
and checked, which is known by its size, its times and its inode; of any other file it says nothing.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from functools import cache
from typing import Any

Record = dict[str, Any]
Stamp = list[int]
"""A state of a file: size, time of its content, time of its inode (which nobody can set back), number of its inode."""
FILE = "index.jsonl"
VERSION = 2
"""An index that was written by another version is not read."""


def stamp(state: os.stat_result) -> Stamp:
    """The state that a file is in."""
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]


def brief(record: Record) -> Record:
    """What planning and a live view need of a record, in the places where the whole record has it.

    Metrics are those of the validation split in a sweep trial: nothing else is selected by.
    """
    return _brief(record["id"], *_facts(record))


def _facts(record: Record) -> tuple[Any, ...]:
    """What of a record is remembered."""
    stage, cost, result = record["spec"]["stage"], record["cost"], record["result"]
    final = result and stage == "sweep" and result["final"]
    return (
        record["environment"],
        stage,
        record["status"],
        cost and cost["seconds"]["total"],
        result and result["steps"],
        final["val"] if final else None,
    )


def _brief(name: str, environment: Any, stage: str, status: str, seconds: Any, steps: Any, val: Any) -> Record:
    return {
        "id": name,
        "spec": _spec(stage),
        "status": status,
        "environment": environment,
        "cost": None if seconds is None else {"seconds": {"total": seconds}},
        "result": None if steps is None else {"steps": steps, "final": val and {"val": val}},
    }


@cache
def _spec(stage: str) -> dict[str, str]:
    """What is told of a spec, one for all records of a stage."""
    return {"stage": stage}


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
            value = json.loads(body)
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

    def brief(self, name: str) -> Record:
        """What `brief` gives of a record that is known."""
        _, environment, *facts = self._rows[name]
        return _brief(name, self._environments[environment], *facts)

    def learn(self, name: str, state: Stamp, record: Record) -> None:
        """Remember a record that was read from a file in this state, and checked."""
        environment, *facts = _facts(record)
        if environment not in self._environments:
            self._environments.append(environment)
        self._rows[name] = [state, self._environments.index(environment), *facts]
        self.learned += 1


def _head(body: bytes) -> bytes:
    """The first line of an index, by which it is known to be whole and of this version."""
    return json.dumps({"version": VERSION, "sha256": hashlib.sha256(body).hexdigest()}).encode()
