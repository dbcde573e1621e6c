"""The ledger of a session: lines of JSON, each with the hash of the one before it.

A line is written in two steps. First the file `last.json` is replaced by it, atomically, then it is added to the
ledger. A crash between them leaves a ledger that lacks the line in `last.json`, or has a part of it; the next command
completes it. So a line that is deleted at the end is restored, and a line that is deleted, edited, moved or added
elsewhere breaks the chain, or is not the one in `last.json`. The seeds and the verdicts are computed again, too.

The chain shows mistakes and shortcuts. It is no signature: who can write both files can write a new chain.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.common.files import write_atomically
from fairbench.common.hashing import canonical_json, digest
from fairbench.gate.session import Entry, Session, after
from fairbench.gate.verdicts import end_of

LEDGER = "ledger.jsonl"
LAST = "last.json"
"""The file with the last line of the ledger."""
START = "0" * 64
"""What the first line has in place of the hash of the line before it."""
ABANDONED = "abandoned"
"""The verdict of a try that was interrupted, and after which another one has begun."""
SEEDS = 2**31
"""Seeds are below this number: every library accepts them."""


class Damaged(Exception):
    """A line of a ledger is not as it was written; the message says which and why."""


class Ledger:
    """The entries of a session, and its state.

    Attributes:
        folder: the folder of the session.
        entries: the entries, without the parts of the chain.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.entries: list[Entry] = []
        self._hashes: list[str] = []
        self._session: Session | None = None

    @property
    def path(self) -> Path:
        """The file of the ledger."""
        return self.folder / LEDGER

    @property
    def session(self) -> Session:
        """The session after the last entry."""
        assert self._session is not None
        return self._session

    @property
    def facts(self) -> Entry:
        """The first entry: what was declared when the session began."""
        return self.entries[0]

    def next_seeds(self, count: int) -> list[int]:
        """The next seeds of the session: hashes of its first line and of their number."""
        first = self.session.seeds
        return [seed_of(self._hashes[0], number) for number in range(first, first + count)]

    def append(self, entry: Entry) -> None:
        """Add an entry. It is on disk when this returns.

        Raises:
            UsageError: the file cannot be written.
        """
        line = self._line(entry)
        write_atomically(self.folder / LAST, line)
        _add(self.path, line)
        self.take(line.removesuffix("\n"))

    def _line(self, entry: Entry) -> str:
        """The line of the next entry, with its end."""
        content = {**entry, "n": len(self._hashes), "previous": self._previous}
        return canonical_json({**content, "hash": digest(content)}) + "\n"

    @property
    def _previous(self) -> str:
        """The hash of the last line."""
        return self._hashes[-1] if self._hashes else START

    def take(self, line: str) -> None:
        """Take the next line of the ledger. Raises `Damaged` if it does not follow the last one."""
        content = _content_of(line)
        found = content.pop("hash", None)
        if found != digest(content):
            raise Damaged("its content is not that of its hash")
        if content.pop("previous", None) != self._previous:
            raise Damaged("the line before it is another one than when it was written")
        if content.pop("n", None) != len(self._hashes):
            raise Damaged("it has the number of another line")
        if self._session is None:
            self._session = first_session(content)
        else:
            self._check(content)
            self._session = after(self._session, content)
        self.entries.append(content)
        self._hashes.append(found)

    def _check(self, entry: Entry) -> None:
        """Raise `Damaged` if an entry does not follow from those before it by the rules of a session."""
        step = self.session.step
        event = entry["event"]
        if (event == "begin") != (step is None):
            raise Damaged(f"a step cannot {event} here")
        if event == "runs":
            seeds = list(dict.fromkeys(run["seed"] for run in entry["runs"]))
            if seeds != self.next_seeds(len(seeds)):
                raise Damaged("its seeds are not those of the session")
        follows = step is not None and step.kind != "prune" and entry.get("verdict") != ABANDONED
        if event == "end" and follows and canonical_json(entry) != canonical_json(end_of(self.session)):
            raise Damaged("its verdict is not the one of its runs")


def _content_of(line: str) -> dict[str, Any]:
    """The content of a line. Raises `Damaged` unless it is written as a ledger writes it."""
    try:
        content = json.loads(line)
        written = canonical_json(content)
    except ValueError:
        raise Damaged("it is no JSON") from None
    if written != line or not isinstance(content, dict):
        raise Damaged("it is written in another way")
    return content


def first_session(facts: Entry) -> Session:
    """The session after its first entry."""
    sign = 1 if facts["direction"] == "max" else -1
    return Session(sign, base=facts["base"], head=facts["base"])


def seed_of(session: str, number: int) -> int:
    """A seed of a session, by the hash of its first line and the number of the seed."""
    text = f"{session} {number}"
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % SEEDS


def read_ledger(folder: Path, completes: bool) -> Ledger:
    """Read the ledger of a session, with the line that a crash may have cut off, and check all lines.

    Args:
        folder: the folder of the session.
        completes: whether that line is completed on disk.

    Raises:
        UsageError: a line was deleted, edited, moved or added by hand.
    """
    ledger = Ledger(folder)
    text = _text_of(ledger.path)
    last = _text_of(folder / LAST)
    whole, _, part = text.rpartition("\n")
    lines = whole.split("\n") if whole else []
    for number, line in enumerate(lines, 1):
        try:
            ledger.take(line)
        except Damaged as error:
            raise _damaged(ledger, number, str(error)) from None
    if lines and not part and f"{lines[-1]}\n" == last:
        return ledger
    try:
        if not last.startswith(part):
            raise Damaged
        ledger.take(last.removesuffix("\n"))
    except Damaged:
        reason = f"the last line that was written is another one, which {folder / LAST} has"
        raise _damaged(ledger, len(lines) + 1, reason) from None
    if completes and part:
        os.truncate(ledger.path, len(whole.encode()) + 1)
    if completes:
        _add(ledger.path, last)
    return ledger


def _text_of(path: Path) -> str:
    """The text of a file; empty if there is none. What is no UTF-8 is replaced, and then no line of a ledger."""
    if not path.exists():
        return ""
    return path.read_text(errors="replace")


def _add(path: Path, line: str) -> None:
    """Add a line to a file, and wait until it is on disk."""
    try:
        with path.open("a") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}; correct that, and run the same command again"
        ) from error


def _damaged(ledger: Ledger, number: int, reason: str) -> UsageError:
    """The error for a line of a ledger that is not as it was written."""
    advice = "restore the file, or begin another session with `fairbench gate init --new`"
    return UsageError(f"{ledger.path}, line {number} is not as it was written: {reason}; {advice}")
