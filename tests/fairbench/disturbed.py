"""A study that is disturbed while it runs, by real signals to real processes, a full disk and damaged files."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tiny import OUTSIDE_OF_GIT, TINY, write_tiny

TIMED = {"cost.csv", "cost.tex", "equal_time.tex", "report.html"}
"""Derived files that tell of seconds."""
NO_TABLES = {"trials", "checkpoints", "claims", "drivers"}
DONE, FAILED, REFUSED, TO_BE_CONTINUED, STOPPED = 0, 1, 2, 75, 130
SMALL_DISK = "size=16m"
PATIENCE = 300.0
"""Seconds in which something must happen."""


def suite_text(seeds: int, steps: int) -> str:
    """The tiny suite with so many final seeds, and trials of so many steps."""
    text = TINY.replace("seeds = [1, 2]", f"seeds = {list(range(1, seeds + 1))}")
    return text.replace("steps = 40", f"steps = {steps}").replace("sweep_steps = 10", f"sweep_steps = {steps}")


def below(pid: int) -> list[int]:
    """The processes below a process."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
    found, new = [], [pid]
    while new:
        new = [child for child, parent in parents.items() if parent in new]
        found += new
    return found


def send(signal_number: int, pids: list[int]) -> None:
    """Send a signal to all that are still there."""
    for pid in pids:
        try:
            os.kill(pid, signal_number)
        except ProcessLookupError:
            continue


def tables(folder: Path) -> dict[str, bytes]:
    """Every derived file that must be the same byte for byte, but for the time of declaration and who shared a core."""
    files = [path for path in folder.rglob("*") if path.is_file() and not NO_TABLES & {*path.relative_to(folder).parts}]
    return {
        str(path.relative_to(folder)): re.sub(rb'"declared": ".*"|shared device & .*\n', b"", path.read_bytes())
        for path in files
        if path.name not in TIMED and not path.name.startswith((".", "step_time", "index"))
    }


def results(folder: Path) -> dict[str, object]:
    """What every record says that does not depend on time or place."""
    records = {path.name: json.loads(path.read_text()) for path in folder.glob("trials/*.json")}
    return {name: (record["spec"], record["status"], record["result"]) for name, record in records.items()}


@dataclass
class Driver:
    """A driver, what it has said, and with which codes it may end."""

    process: subprocess.Popen[bytes]
    log: Path
    may_end: set[int] = field(default_factory=lambda: {DONE, FAILED})

    def check_end(self) -> None:
        """See that it ended as it had to."""
        said = self.log.read_text()
        assert self.process.returncode in self.may_end, (self.process.returncode, self.may_end, self.log, said)
        if self.process.returncode in (TO_BE_CONTINUED, REFUSED):
            assert "Traceback" not in said, said


class Disturbed:
    """A study in `folder/out` that some drivers run.

    Args:
        folder: holds the suite.
        chance: what is random in it.
        words: what the drivers are told.
        output: the output directory, in `folder`.
        every: seconds between the checkpoints of a trial.
    """

    def __init__(
        self,
        folder: Path,
        chance: random.Random,
        words: Sequence[str] = ("run", "--suite", "tiny.toml"),
        output: str = "out",
        every: float = 0.5,
    ) -> None:
        self.folder, self.chance, self.words, self.every = folder, chance, words, every
        self.output, self.out = output, folder / output
        self.logs = Path(tempfile.mkdtemp(prefix="disturbed-"))
        self.drivers: list[Driver] = []
        self.started, self.done = 0, list[str]()

    def start(self, workers: int = 1) -> Driver:
        """One more driver."""
        self.started += 1
        log = self.logs / f"{self.started}.log"
        words = [*self.words, "--output-dir", self.output, "--workers", str(workers)]
        command = [sys.executable, "-m", "fairbench", *words, "--checkpoint-every", str(self.every)]
        with log.open("wb") as file:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=OUTSIDE_OF_GIT,
                stdout=file,
                stderr=file,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(
                    signal.SIGINT, signal.SIG_DFL
                ),  # who runs in the background ignores it
            )
        self.drivers.append(Driver(process, log))
        return self.drivers[-1]

    def running(self) -> list[Driver]:
        """The drivers that still run; how the others ended is checked."""
        for driver in [driver for driver in self.drivers if driver.process.poll() is not None]:
            driver.check_end()
            self.drivers.remove(driver)
        return list(self.drivers)

    def wait_for(self, what: Callable[[], object]) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE
        while not what():
            assert time.monotonic() < deadline, f"never so; {self.done}"
            time.sleep(0.01)

    def go_on(self, drivers: int, seconds: float) -> bool:
        """Let so many drivers run for so long; returns whether any of them still does."""
        for _ in range(drivers - len(self.running())):
            self.start(self.chance.choice((0, 1, 2)))
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.running():
            time.sleep(0.02)
        return bool(self.running())

    def ended_records(self) -> list[Path]:
        """The records of trials that finished or diverged."""
        return [path for path in self.out.glob("trials/*.json") if b'"status": "failed"' not in path.read_bytes()]

    def end(self) -> None:
        """Wait for the drivers that run, then let one driver bring the study to its end, tried again what failed."""
        self.wait_for(lambda: not self.running())
        last = self.start(2)
        last.may_end = {DONE}
        self.wait_for(lambda: not self.running())

    def disturb(self, kind: str) -> None:
        """Do one of `KINDS`, to one of the drivers."""
        self.done.append(kind)
        self.KINDS[kind](self, self.chance.choice(self.running()))

    def kill_driver(self, driver: Driver) -> None:
        """The driver is killed; its workers must end by themselves."""
        workers = below(driver.process.pid)
        driver.may_end = {-signal.SIGKILL}
        driver.process.kill()
        driver.process.wait()
        self.wait_for(lambda: not any(map(is_running, workers)))

    def kill_worker(self, driver: Driver) -> None:
        """A process below the driver is killed: a trial, the server that trials are forked from, a tracker."""
        if workers := below(driver.process.pid):
            driver.may_end |= {REFUSED}  # no server, no trials
            send(signal.SIGKILL, [self.chance.choice(workers)])

    def kill_all(self, driver: Driver) -> None:
        """The driver and all below it are killed."""
        driver.may_end = {-signal.SIGKILL}
        send(signal.SIGKILL, [driver.process.pid, *below(driver.process.pid)])
        driver.process.wait()

    def _stop(self, driver: Driver, signal_number: int, code: int, everybody: bool) -> None:
        others = below(driver.process.pid) if everybody else []
        driver.may_end |= {code, -signal_number}  # before it has set its handlers, a signal ends it as it does anything
        send(signal_number, [driver.process.pid, *others])
        self.wait_for(lambda: driver.process.poll() is not None)

    def terminate(self, driver: Driver) -> None:
        """The driver gets SIGTERM."""
        self._stop(driver, signal.SIGTERM, TO_BE_CONTINUED, everybody=False)

    def terminate_all(self, driver: Driver) -> None:
        """The driver and all below it get SIGTERM, as from a cluster."""
        self._stop(driver, signal.SIGTERM, TO_BE_CONTINUED, everybody=True)

    def warn(self, driver: Driver) -> None:
        """The driver gets SIGUSR1."""
        self._stop(driver, signal.SIGUSR1, TO_BE_CONTINUED, everybody=False)

    def warn_all(self, driver: Driver) -> None:
        """The driver and all below it get SIGUSR1."""
        self._stop(driver, signal.SIGUSR1, TO_BE_CONTINUED, everybody=True)

    def interrupt(self, driver: Driver) -> None:
        """Ctrl-C."""
        self._stop(driver, signal.SIGINT, STOPPED, everybody=False)

    def fill_disk(self, driver: Driver) -> None:
        """The disk is full for a while: whoever must write a record ends, and says so."""
        for each in self.running():
            each.may_end |= {REFUSED}
        free = os.statvfs(self.out)
        filler = self.out / "filler"
        with suppress(OSError):
            filler.write_bytes(b"0" * free.f_bavail * free.f_frsize)
        until = time.monotonic() + self.chance.uniform(0.5, 4)
        while time.monotonic() < until and driver.process.poll() is None:
            time.sleep(0.01)
        filler.unlink()

    def truncate_record(self, driver: Driver) -> None:
        """A record loses its end: the next one to read it names the file and ends; then that is deleted."""
        records = self.ended_records()
        if not records:
            return
        record = self.chance.choice(records)
        whole = record.read_bytes()
        for each in self.running():
            each.may_end |= {REFUSED}
        record.write_bytes(whole[: self.chance.randrange(len(whole))])
        reader = self.start()
        reader.may_end = {REFUSED}
        self.wait_for(lambda: reader.process.poll() is not None)
        said = reader.log.read_text()
        assert f"damaged record {self.output}/trials/{record.name}" in said, said
        record.unlink()

    def damage_checkpoint(self, driver: Driver) -> None:
        """A checkpoint loses its end, or a bit of it changes; whoever runs that trial is killed."""
        self.kill_all(driver)
        checkpoints = [*self.out.glob("checkpoints/*.pt")]
        if checkpoints:
            path = self.chance.choice(checkpoints)
            try:
                content = bytearray(path.read_bytes())
            except FileNotFoundError:  # another driver has just ended that trial
                return
            if self.chance.random() < 0.5:
                del content[self.chance.randrange(len(content)) :]
            else:
                content[self.chance.randrange(len(content))] ^= 1
            if path.exists():
                path.write_bytes(content)

    def suspend(self, driver: Driver) -> None:
        """The driver sleeps for a while, its workers do not."""
        send(signal.SIGSTOP, [driver.process.pid])
        time.sleep(self.chance.uniform(0.5, 3))
        send(signal.SIGCONT, [driver.process.pid])

    KINDS: ClassVar[dict[str, Callable[["Disturbed", Driver], None]]] = {
        "kill -9 of a driver": kill_driver,
        "kill -9 of a worker": kill_worker,
        "kill -9 of all": kill_all,
        "SIGTERM": terminate,
        "SIGTERM to all": terminate_all,
        "SIGUSR1": warn,
        "SIGUSR1 to all": warn_all,
        "Ctrl-C": interrupt,
        "truncated record": truncate_record,
        "damaged checkpoint": damage_checkpoint,
        "suspended driver": suspend,
        "full disk": fill_disk,
    }


def is_running(pid: int) -> bool:
    """Whether a process is there, and not only its entry."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of 16 MB."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", SMALL_DISK, "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def undisturbed(folder: Path, text: str) -> Path:
    """The study as one driver runs it that nobody disturbs; returns its output directory."""
    folder.mkdir()
    write_tiny(folder, text)
    study = Disturbed(folder, random.Random(0), every=0.0)
    study.end()
    return study.out
