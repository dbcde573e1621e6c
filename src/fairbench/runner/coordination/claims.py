"""Who runs a trial: claims in the output directory, which several drivers share, also over NFS.

A claim is a file `claims/<name>` with its owner's token. It is made under another name and then linked, which only one
can do; no lock is involved, and where a file system has no hard links, a file is opened that must not be there yet. An
owner renews all its claims at once with the beat of its presence (`heartbeat.py`). It has gone when

* its presence is not there: whoever ends gives its claims back first, so this one was swept away;
* or it has gone for sure (`liveness.py`): its process, of this machine, has ended, or an observer has seen its
  beat stand still for minutes of its own monotonic clock. What any clock says elsewhere does not matter.

A claim whose owner has gone is never changed: the next owner links `<name>.1` beside it, the one after that `<name>.2`.
The last of such a chain holds. Each of its files can be made by one driver only, and is tried only when the owner
before has gone, so of all that take over an expired claim one wins. Who ends without a record removes its own file, and
the chain is as it was; who has written the record removes the chain from its end. A hole can only come about while the
trial has a record, which everybody reads once more after taking a claim; or when an owner that was thought gone (a
suspended machine, a network away for minutes) wakes up. Then two may run one trial, and nothing is lost: a trial is a
function of its spec, and the store keeps the first record.
"""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol

from fairbench.common.errors import UsageError
from fairbench.runner.coordination.heartbeat import Presence
from fairbench.runner.coordination.liveness import TURN, Witness
from fairbench.study.records import Store


class Folder(Protocol):
    """Where claims lie."""

    def create(self, name: str, content: str) -> bool:
        """Make a file; False if there is one of that name."""

    def read(self, name: str) -> str | None:
        """What a file says; None if there is none."""

    def remove(self, name: str) -> None:
        """Remove a file that may not be there."""


class DiskFolder:
    """A folder on a disk, perhaps one of another machine.

    Args:
        path: the folder, which exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, name: str, content: str) -> bool:
        """Make a file with all of its content at once; False if there is one of that name.

        Raises:
            UsageError: the folder cannot be written.
        """
        try:
            return self._link(name, content)
        except OSError as error:
            raise UsageError(f"cannot write {self.path / name}: {error.strerror}; finished trials are kept") from error

    def _link(self, name: str, content: str) -> bool:
        written = self.path / f".{name}.{secrets.token_hex(4)}.tmp"
        try:
            written.write_text(content)
            try:
                (self.path / name).hardlink_to(written)
            except FileExistsError:
                return written.stat().st_nlink == 2  # the server did link, and its answer was lost
            except OSError:  # no hard links here
                return self._open(name, content)
            return True
        finally:
            with suppress(OSError):
                written.unlink()

    def _open(self, name: str, content: str) -> bool:
        """The same in two moments: whoever reads between them finds an empty file."""
        try:
            with (self.path / name).open("x") as file:
                file.write(content)
        except FileExistsError:
            return False
        return True

    def read(self, name: str) -> str | None:
        """What a file says, nothing if it cannot be read now; None if there is none."""
        try:
            return (self.path / name).read_text()
        except FileNotFoundError:
            return None
        except OSError:
            return ""

    def remove(self, name: str) -> None:
        """Remove a file that may not be there."""
        (self.path / name).unlink(missing_ok=True)


class Claims:
    """The claims of one driver, which are given back at the end of a `with` block.

    Args:
        folder: where the claims of all drivers lie.
        token: of this driver, whose presence is there already.
        witness: sees which drivers have gone.
    """

    def __init__(self, folder: Folder, token: str, witness: Witness) -> None:
        self._folder, self._token, self._witness = folder, token, witness
        self._held: dict[str, int] = {}

    def __enter__(self) -> "Claims":
        """Begin without any."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give back what is still held."""
        for name in list(self._held):
            self.give_back(name)

    def take(self, name: str) -> bool:
        """Claim something, unless a driver that has not gone holds it."""
        generation = 0
        while (owner := self._folder.read(_file(name, generation))) is not None:
            if not self._has_gone(owner, _file(name, generation)):
                return False
            generation += 1
        if not self._folder.create(_file(name, generation), self._token):
            return False
        self._held[name] = generation
        return True

    def _has_gone(self, owner: str, file: str) -> bool:
        """Whether an owner has gone; of one that is not named yet, whether it never will be."""
        return self._witness.gone(owner) if owner else self._witness.silent(file, owner)

    def give_back(self, name: str) -> None:
        """Hold something no longer; there may be no record of it, so that those who had it before stay on file."""
        generation = self._held.pop(name)
        if self._folder.read(_file(name, generation + 1)) is None:  # else it was taken from one who slept
            self._folder.remove(_file(name, generation))

    def settle(self, name: str) -> None:
        """Nobody needs to hold this any more: its record is on disk."""
        for generation in range(self._held.pop(name), -1, -1):
            self._folder.remove(_file(name, generation))

    @contextmanager
    def holding(self, name: str, waits: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Wait for a claim, and hold it for the block.

        Args:
            name: of what.
            waits: called again and again while somebody else has it.
        """
        while not self.take(name):
            waits()
            time.sleep(TURN)
        try:
            yield
        finally:
            if name in self._held:
                self.give_back(name)


def _file(name: str, generation: int) -> str:
    """The name of a claim, or of the one that took it over so many times later."""
    return f"{name}.{generation}" if generation else name


def open_claims(store: Store, presence: Presence) -> Claims:
    """The claims of a driver on the trials of a store.

    Args:
        store: the records of the study.
        presence: of the driver.
    """
    return Claims(DiskFolder(store.claims), presence.token, presence.witness)
