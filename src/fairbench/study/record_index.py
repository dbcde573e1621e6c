"""An index of the records: the facts that planning needs, so that not every file must be read.

The index is the file `DIR/index.jsonl`. Nothing depends on it: it may be deleted at any time, and any process may
replace it as a whole; the last writer wins. An entry holds for the file that was read and verified, identified by size,
times and inode, and for no other file.
"""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from types import NoneType
from typing import Any, NamedTuple

from fairbench.common.coercion import build
from fairbench.common.files import Stamp
from fairbench.common.reading import parse_json
from fairbench.study.records import Record

INDEX_FILE = "index.jsonl"
VERSION = 4
"""An index of a different version is not read."""
SPLITS = {"sweep": "val", "confirm": "val", "final": "test"}
"""The split whose final metrics planning needs, by stage."""
STATUSES = ("finished", "diverged", "failed")
KINDS: tuple[set[Any], ...] = (
    *({list}, {int}, {str}, {str}, {float, int, NoneType}, {int, NoneType}),
    *({dict, NoneType}, {str, NoneType}),
)
"""The types in each column of the index: the state of the file, the number of the environment, then as `IndexEntry`."""


class IndexEntry(NamedTuple):
    """The facts of a record that the index holds.

    Attributes:
        environment: machine and versions; None, like `seconds` and `steps`, when the trial failed.
        stage: "sweep", "confirm", "final" or "timing".
        status: "finished", "diverged" or "failed".
        final: the final metrics of a finished trial that planning needs: validation of a trial that selects; test of a
            final one, which decides at a look.
        weights: hash of the final weights of a final trial.
    """

    environment: Any
    stage: str
    status: str
    seconds: float | None
    steps: int | None
    final: dict[str, dict[str, float]] | None
    weights: str | None

    @classmethod
    def of(cls, record: Record) -> "IndexEntry":
        """The entry of a record, which may be reduced."""
        stage, cost, result = record["spec"]["stage"], record["cost"], record["result"]
        final, split = result and result["final"], SPLITS.get(stage, "")
        return cls(
            record["environment"],
            stage,
            record["status"],
            cost and cost["seconds"]["total"],
            result and result["steps"],
            {split: final[split]} if final and split in final else None,
            result["hashes"]["final_weights"] if result and stage == "final" else None,
        )

    def as_record(self, trial: str) -> Record:
        """The reduced record of the trial with that id: these facts, where the whole record has them."""
        hashes = {"final_weights": self.weights} if self.weights else {}
        return {
            "id": trial,
            "spec": {"stage": self.stage},
            "status": self.status,
            "environment": self.environment,
            "cost": None if self.seconds is None else {"seconds": {"total": self.seconds}},
            "result": None if self.steps is None else {"steps": self.steps, "final": self.final, "hashes": hashes},
        }


def reduced(record: Record) -> Record:
    """The parts of a record that planning needs, where the whole record has them."""
    return IndexEntry.of(record).as_record(record["id"])


class Index:
    """The entries of records that were read and verified; bytes that `content` has not made give an empty index."""

    def __init__(self, content: bytes = b"") -> None:
        self.added = 0  # entries since the index was read
        self._environments: list[Any] = []
        self._rows: dict[str, list[Any]] = {}  # state of the file, number of the environment, the other facts
        head, _, body = content.partition(b"\n")
        if head == _head(body):
            with suppress(ValueError):  # written by something else
                self._environments, self._rows = _checked(parse_json(body))

    def content(self, present: Iterable[str]) -> bytes:
        """The index as bytes for its file, with the entries of the records with these ids."""
        rows = {trial: self._rows[trial] for trial in sorted(present) if trial in self._rows}
        body = json.dumps({"environments": self._environments, "records": rows}, separators=(",", ":")).encode()
        return _head(body) + b"\n" + body

    def entry(self, trial: str, state: Stamp) -> IndexEntry | None:
        """The entry of a record that was read from a file in this state; None if there is none."""
        row = self._rows.get(trial)
        return IndexEntry(self._environments[row[1]], *row[2:]) if row is not None and row[0] == state else None

    def add(self, trial: str, state: Stamp, record: Record) -> None:
        """Add the entry of a record that was read from a file in this state and verified."""
        environment, *facts = IndexEntry.of(record)
        if environment not in self._environments:
            self._environments.append(environment)
        self._rows[trial] = [state, self._environments.index(environment), *facts]
        self.added += 1


def _checked(value: Any) -> tuple[list[Any], dict[str, list[Any]]]:
    """The environments and the rows of an index; raises ValueError if they are not what `Index.content` writes."""
    table = build(dict[str, Any], value, ())
    environments = build(list[dict[str, str] | None], table.get("environments"), ("environments",))
    rows = build(dict[str, list[Any]], table.get("records"), ("records",))
    columns = [*zip(*rows.values(), strict=True)]
    if any(set(map(type, column)) - kinds for column, kinds in zip(columns, KINDS, strict=bool(rows))):
        raise ValueError("a row has another type")
    for _, number, stage, status, seconds, steps, final, _ in rows.values():
        known = status in STATUSES and 0 <= number < len(environments)
        full = status == "failed" or None not in (seconds, steps, environments[number])
        splits = [SPLITS[stage]] if status == "finished" and stage in SPLITS else []
        if not (known and full and [*(final or [])] == splits):
            raise ValueError("a row contradicts itself")
    build(list[dict[str, dict[str, float]]], [row[-2] for row in rows.values() if row[-2]], ("records",))
    return environments, rows


def _head(body: bytes) -> bytes:
    """The first line of an index, which shows that it is whole and of this version."""
    return json.dumps({"version": VERSION, "sha256": hashlib.sha256(body).hexdigest()}).encode()
