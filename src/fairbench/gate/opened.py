"""The session of a repository: where it is, and the lock of the command that changes it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.gate.ledger import LEDGER, Ledger, read_ledger
from fairbench.gate.repository import common_folder
from fairbench.gate.session import Session
from fairbench.gate.steps import PastStep, steps_of
from fairbench.gate.training import Trainer
from fairbench.runner.git import Repository
from fairbench.study.records import Store

STUDIES = "studies"
"""The folder of the studies of a session."""


@dataclass(frozen=True)
class Gate:
    """A session of a repository."""

    repository: Repository
    ledger: Ledger

    @property
    def session(self) -> Session:
        """The state of the session."""
        return self.ledger.session

    @property
    def steps(self) -> list[PastStep]:
        """The steps of the session so far."""
        return steps_of(self.ledger.entries)

    @property
    def ended_runs(self) -> int:
        """The number of runs that have ended in a batch that was interrupted. The ledger gets a batch as a whole."""
        if self.session.step is None:
            return 0
        (first_seed,) = self.ledger.next_seeds(1)
        return Store(self.ledger.folder / STUDIES / str(first_seed)).final_trials()

    @property
    def name(self) -> str:
        """The name of the session: its number in the repository."""
        return self.ledger.folder.name

    def trainer(self, quiet: bool, certifies: bool = False, margin: float = 1.0) -> Trainer:
        """What trains the batches of the session."""
        return Trainer(
            facts=self.ledger.facts,
            folder=self.ledger.folder / STUDIES,
            seconds=self.session.seconds,
            quiet=quiet,
            certifies=certifies,
            margin=margin,
        )


def session_folders(folder: Path) -> list[Path]:
    """The folder of each session in the folder of all sessions of a repository, the last one last."""
    ledgers = folder.glob(f"*/{LEDGER}")
    return sorted((ledger.parent for ledger in ledgers), key=lambda folder: int(folder.name))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one command at a time change the sessions of a repository. The lock ends with the process.

    Args:
        folder: the folder of all sessions of the repository.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                "another fairbench gate command runs in this repository; wait until it has ended"
            ) from None
        yield


def read_gate(repository: Repository, completes: bool) -> Gate:
    """The last session of a repository.

    Args:
        repository: the repository.
        completes: whether a line that a crash has cut off is completed on disk, which needs the lock.

    Raises:
        UsageError: there is no session, it is that of another folder, or its ledger is not as it was written.
    """
    folders = session_folders(common_folder(repository))
    if not folders:
        raise UsageError(f"{repository.root} has no session; begin one with fairbench gate init")
    ledger = read_ledger(folders[-1], completes)
    folder = ledger.facts["folder"]
    if folder != repository.prefix:
        where = repository.root / folder
        raise UsageError(f"the session was begun in {where}; start the command there")
    return Gate(repository, ledger)


@contextmanager
def changing() -> Iterator[Gate]:
    """The calibrated session of the working directory, to be changed by this command alone.

    Raises:
        UsageError: there is no such session, or another command changes it.
    """
    repository = Repository.here()
    with locked(common_folder(repository)):
        gate = read_gate(repository, completes=True)
        if not gate.session.std:
            raise UsageError("the session has no calibration yet; fairbench gate init with the same options makes it")
        yield gate
