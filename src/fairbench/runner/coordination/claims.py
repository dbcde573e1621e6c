"""Which driver runs a trial: claims in the output directory, which several drivers share, also over NFS.

A claim is a file `claims/<name>` with its owner's token. It is made under a temporary name and then linked, which only
one driver can do; no lock is involved. Where a file system has no hard links, the file is opened in exclusive mode. An
owner renews all its claims at once with its heartbeat (`heartbeat.py`). An owner is dead when

* its name is no token, so that no driver wrote the claim;
* it has no status file: a driver releases its claims before it removes its status, so this one was removed as dead;
* or it is certainly dead (`liveness.py`): its process on this machine has ended, or an observer has seen no change of
  its beat for minutes of the observer's monotonic clock. Clocks of other machines do not matter.

The claim of a dead owner is never changed: the next owner links `<name>.1`, the one after that `<name>.2`. The last
file of such a chain holds. Each file can be made by one driver only, and is tried only when the previous owner is dead:
of all drivers that take over an expired claim, one wins. A driver that stops without a record removes its file,
which restores the chain. A driver that has written the record removes the chain from its end. A gap in the chain can
appear only while the trial has a record, which every driver reads again after taking a claim, or when an owner that
was thought dead wakes up (a suspended machine, a network interruption of minutes). Two drivers may then run one trial,
and nothing is lost: a trial is a function of its spec, and the store keeps the first record.

A claim that this user may not read is respected, whatever became of its owner.
"""

import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.common.files import remove
from fairbench.common.reading import Damaged, read_text
from fairbench.runner.coordination.heartbeat import Heartbeat
from fairbench.runner.coordination.liveness import POLL, Liveness
from fairbench.runner.coordination.status import TOKEN_DIGITS, read_statuses
from fairbench.study.records import Store

PART_OF_TOKEN = re.compile(f"[0-9a-f]{{0,{TOKEN_DIGITS}}}")
"""A driver's token, or what a driver has written of it so far on a file system without hard links."""


class ClaimFolder:
    """The folder of claims, possibly on a network file system."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, name: str, content: str) -> bool:
        """Make a file with all of its content at once; False if the name is taken."""
        path = self.path / name
        written = self.path / f".{name}.{secrets.token_hex(4)}.tmp"
        try:
            written.write_text(content)
            try:
                path.hardlink_to(written)
            except FileExistsError:
                # two names of one file: the server did link, and its reply was lost
                return written.stat().st_nlink == 2
            except OSError:  # the file system has no hard links
                return _make_in_two_steps(path, content)
            return True
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}; finished trials are kept") from error
        finally:
            remove(written)

    def read(self, name: str) -> str | Damaged | None:
        """The token of the claim's owner.

        It is empty while the owner still writes it, and None if there is no claim.
        """
        content = read_text(self.path / name)
        if not isinstance(content, str):
            return content
        if not PART_OF_TOKEN.fullmatch(content):
            return Damaged(self.path / name, "no driver wrote it")
        is_complete = len(content) == TOKEN_DIGITS
        return content if is_complete else ""

    def remove(self, name: str) -> None:
        """Remove the file of a claim, if there is one."""
        remove(self.path / name)


class Claims:
    """The claims of one driver. A `with` block releases them at its end. `say` gets messages on damaged claims."""

    def __init__(
        self, folder: ClaimFolder, token: str, liveness: Liveness, say: Callable[[str], None] = lambda text: None
    ) -> None:
        self._folder = folder
        self._token = token
        self._liveness = liveness
        self._say = say
        self._held: dict[str, int] = {}  # the generation of each claim: the number of dead owners before this one
        self._said: set[Damaged] = set()

    def __enter__(self) -> "Claims":
        return self

    def __exit__(self, *error: object) -> None:
        for name in list(self._held):
            self.release(name)

    def take(self, name: str) -> bool:
        """Claim a name, unless another live driver holds it. Returns whether this driver holds it now."""
        if name in self._held:
            return True
        generation = 0
        while (owner := self._folder.read(_file(name, generation))) is not None:
            if not self._is_dead(owner, _file(name, generation)):
                return False
            generation += 1
        # False if another driver was faster
        if not self._folder.create(_file(name, generation), self._token):
            return False
        self._held[name] = generation
        return True

    def _is_dead(self, owner: str | Damaged, file: str) -> bool:
        """Whether the owner in a claim file is dead. An empty file has an unknown owner, and expires with time."""
        if isinstance(owner, Damaged):
            if owner not in self._said:
                self._said.add(owner)
                self._say(owner.text("claim", "it is ignored, and you may delete it"))
            return not owner.locked  # a claim that this user may not read is respected
        if owner:
            return self._liveness.is_dead(owner)
        return self._liveness.is_expired(file, owner)

    def release(self, name: str) -> None:
        """Give up a claim on a trial that has no record. The claims of earlier owners remain."""
        generation = self._held.pop(name)
        if self._folder.read(_file(name, generation + 1)) is None:  # otherwise another driver took it over meanwhile
            self._folder.remove(_file(name, generation))

    def complete(self, name: str) -> None:
        """Remove a claim whose trial has a record, and the claims of earlier owners, from the end of the chain."""
        for generation in range(self._held.pop(name), -1, -1):
            self._folder.remove(_file(name, generation))

    @contextmanager
    def holding(self, name: str, wait: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Wait for a claim, and hold it in a `with` block.

        `wait` is called repeatedly while another driver holds it.
        """
        while not self.take(name):
            wait()
            time.sleep(POLL)
        try:
            yield
        finally:
            if name in self._held:
                self.release(name)


def _make_in_two_steps(path: Path, content: str) -> bool:
    """Make a file, which a reader between the steps finds empty; False if there is one."""
    try:
        with path.open("x") as file:
            file.write(content)
    except FileExistsError:
        return False
    return True


def _file(name: str, generation: int) -> str:
    """The name of the claim file of a generation, which is the number of dead owners before it."""
    return f"{name}.{generation}" if generation else name


def open_claims(store: Store, heartbeat: Heartbeat, say: Callable[[str], None] = lambda text: None) -> Claims:
    """The claims of a driver on the trials of a store. `say` gets a message on each damaged claim."""
    return Claims(ClaimFolder(store.claims), heartbeat.status.token, heartbeat.liveness, say)


def remove_dead_claims(store: Store) -> None:
    """Remove the claims that killed drivers have left on the plan or on timing, once no driver has a status."""
    if read_statuses(store.directory):
        return
    for path in store.claims.glob("*"):
        remove(path)
