"""A study that is disturbed while it runs, by real signals to real processes, a full disk and damaged files."""

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

import psutil
import pytest
from fabricated import stored
from tiny import OUTSIDE_OF_GIT, TINY, run_here, write_tiny

from fairbench.cli.main import main
from fairbench.training.environment import environment_of_program

PAGE = (Path(__file__).parents[2] / "docs/studies.md").read_text()
NAMED = re.search(r"Those that hold\s+measured times differ: (.*?)\. ", PAGE, re.DOTALL)[1]
TIMED = re.findall(r"`(.*?)`", NAMED)
"""Patterns of derived files that contain durations, as docs/studies.md names them."""
NO_TABLES = {"trials", "checkpoints", "claims", "drivers"}
DONE = 0
FAILED = 1
REFUSED = 2
TO_BE_CONTINUED = 75
STOPPED = 130
PATIENCE = 300.0
"""Seconds in which an expected event must happen."""


def suite_text(seeds, steps):
    """The tiny suite with other numbers of final seeds and steps."""
    text = TINY.replace("seeds = [1, 2]", f"seeds = {list(range(1, seeds + 1))}")
    text = text.replace("steps = 40", f"steps = {steps}")
    return text.replace("sweep_steps = 10", f"sweep_steps = {steps}")


def below(pid):
    """The processes that a process has started, and those that they have."""
    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def send(signal_number, pids):
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal_number)


OF_TIME = rb'"declared": ".*"|(shared device|step time drifts|throttled or loaded) & .*\n|p\{[\d.]+em\}'
"""When a study was declared, what the audit says of its machine, and the widths of columns that this may change."""


def tables(folder):
    """Every derived file that must be identical, without the time of declaration and the shared trials.

    Of figures the vectors: some tests draw fewer pixels.
    """
    contents = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if not path.is_file() or NO_TABLES & {*name.parts} or path.suffix in (".pdf", ".png"):
            continue
        if holds_times(name) or path.name.startswith((".", "report_files")):
            continue
        contents[str(name)] = re.sub(OF_TIME, b"", path.read_bytes())
    return contents


def holds_times(file):
    """Whether docs/studies.md says that a derived file differs between two runs of a study."""
    return any(file.match(pattern) for pattern in TIMED)


def results(folder):
    """The parts of every record that do not depend on time or place."""
    parts = {}
    for path in folder.glob("trials/*.json"):
        record = stored(path)
        parts[path.name] = (record["spec"], record["status"], record["result"], record["details"])
    return parts


class Driver:
    """A driver, its output, and the exit codes that it may return."""

    def __init__(self, process, log):
        self.process = process
        self.log = log
        self.may_end = {DONE, FAILED}

    def check_end(self):
        output = self.log.read_text()
        code = self.process.returncode
        assert code in self.may_end, (code, self.may_end, self.log, output)
        assert code not in (TO_BE_CONTINUED, REFUSED) or "Traceback" not in output, output


class Disturbed:
    """A study in a folder that some drivers run; the random generator `chance` draws the disturbances."""

    def __init__(self, folder, chance, words=("run", "--suite", "tiny.toml"), output="out", every=0.5, ray=False):
        self.folder = folder
        self.chance = chance
        self.words = words
        self.every = every
        self.output = output
        self.out = folder / output
        self.ray = ray
        self.logs = Path(tempfile.mkdtemp(prefix="disturbed-"))
        self.drivers = []
        self.started = 0
        self.done = []

    def start(self, workers=1):
        self.started += 1
        log = self.logs / f"{self.started}.log"
        command = [sys.executable, "-m", "fairbench", *self.words, "--output-dir", self.output]
        command += ["--checkpoint-every", str(self.every)]
        command += ["--ray"] if self.ray else ["--workers", str(workers)]
        with log.open("wb") as file:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=OUTSIDE_OF_GIT,
                stdout=file,
                stderr=file,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background processes ignore it
            )
        self.drivers.append(Driver(process, log))
        return self.drivers[-1]

    def running(self):
        """The drivers that still run; the end of the others is checked."""
        for driver in list(self.drivers):
            if driver.process.poll() is not None:
                driver.check_end()
                self.drivers.remove(driver)
        return list(self.drivers)

    def wait_for(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"timeout; {self.done}"
            time.sleep(0.01)

    def keep_running(self, drivers, seconds):
        """Let a number of drivers run for some seconds; returns whether any still runs."""
        for _ in range(drivers - len(self.running())):
            self.start(self.chance.choice((1, 2)))
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.running():
            time.sleep(0.02)
        return bool(self.running())

    def ended_records(self):
        """The records of trials that finished or diverged."""
        return [path for path in self.out.glob("trials/*.json") if b'"status":"failed"' not in path.read_bytes()]

    def end(self):
        """Wait for the running drivers, then let one driver complete the study, with failed trials tried again."""
        self.wait_for(lambda: not self.running())
        last = self.start(2)
        last.may_end = {DONE}
        self.wait_for(lambda: not self.running())

    def end_here(self):
        """As `end`, but the last driver is this process, which has loaded the libraries and draws no PDF."""
        self.wait_for(lambda: not self.running())
        with pytest.MonkeyPatch.context() as patch:
            run_here(patch, self.folder)
            assert main([*self.words, "--output-dir", self.output, "--workers", "2"]) == DONE
        environment_of_program.cache_clear()

    def disturb(self, kind):
        """Do one of `KINDS`, to one of the drivers."""
        self.done.append(kind)
        self.KINDS[kind](self, self.chance.choice(self.running()))

    def kill_driver(self, driver):
        """Kill a driver; its workers must end by themselves."""
        workers = below(driver.process.pid)
        driver.may_end = {-signal.SIGKILL}
        driver.process.kill()
        driver.process.wait()
        self.wait_for(lambda: not any(map(is_running, workers)))

    def kill_worker(self, driver):
        """Kill a process below the driver: a trial, the process server, a resource tracker."""
        if workers := below(driver.process.pid):
            driver.may_end |= {REFUSED}  # no server, no trials
            send(signal.SIGKILL, [self.chance.choice(workers)])

    def kill_all(self, driver):
        """Kill the driver and all processes below it."""
        driver.may_end = {-signal.SIGKILL}
        send(signal.SIGKILL, [driver.process.pid, *below(driver.process.pid)])
        driver.process.wait()

    def stop(self, driver, signal_number, to_all=False):
        """The driver gets a signal that asks it to stop; `to_all` sends it to its workers too, as a cluster does."""
        code = STOPPED if signal_number == signal.SIGINT else TO_BE_CONTINUED
        driver.may_end |= {code, -signal_number}  # before it has set its handlers, the signal kills it
        if self.ray:  # Ray, which has handlers of its own, may crash while it starts or ends
            driver.may_end |= {-signal.SIGABRT, -signal.SIGSEGV}
        processes = [driver.process.pid]
        if to_all:
            processes += below(driver.process.pid)
        send(signal_number, processes)
        self.wait_for(lambda: driver.process.poll() is not None)

    def fill_disk(self, driver):
        """Fill the disk for some seconds: drivers that must write a record end with an error."""
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

    def truncate_record(self, driver):
        """Truncate a record: the next driver that reads it names the file; then it is deleted."""
        records = self.ended_records()
        if not records:
            return
        record = self.chance.choice(records)
        whole = record.read_bytes()
        record.write_bytes(whole[: self.chance.randrange(len(whole))])
        reader = self.start()
        named = f"damaged record {self.output}/trials/{record.name}"
        self.wait_for(lambda: named in reader.log.read_text() or reader.process.poll() is not None)
        assert named in reader.log.read_text(), reader.log.read_text()
        record.unlink()

    def damage_checkpoint(self, driver):
        """Truncate a checkpoint or flip a bit in it, after its driver was killed."""
        self.kill_all(driver)
        with suppress(FileNotFoundError, IndexError):  # there is none, or another driver has just ended its trial
            path = self.chance.choice([*self.out.glob("checkpoints/*.pt")])
            content = bytearray(path.read_bytes())
            if self.chance.random() < 0.5:
                del content[self.chance.randrange(len(content)) :]
            else:
                content[self.chance.randrange(len(content))] ^= 1
            if path.exists():
                path.write_bytes(content)

    def suspend(self, driver):
        """Suspend the driver for some seconds, but not its workers."""
        send(signal.SIGSTOP, [driver.process.pid])
        time.sleep(self.chance.uniform(0.5, 3))
        send(signal.SIGCONT, [driver.process.pid])

    KINDS: ClassVar = {
        "kill -9 of a driver": kill_driver,
        "kill -9 of a worker": kill_worker,
        "kill -9 of all": kill_all,
        "SIGTERM": partial(stop, signal_number=signal.SIGTERM),
        "SIGTERM to all": partial(stop, signal_number=signal.SIGTERM, to_all=True),
        "SIGUSR1": partial(stop, signal_number=signal.SIGUSR1),
        "SIGUSR1 to all": partial(stop, signal_number=signal.SIGUSR1, to_all=True),
        "Ctrl-C": partial(stop, signal_number=signal.SIGINT),
        "truncated record": truncate_record,
        "damaged checkpoint": damage_checkpoint,
        "suspended driver": suspend,
        "full disk": fill_disk,
    }


def is_running(pid):
    """Whether a process exists and is no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def small_disk(folder):
    """A disk of 16 MB."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def undisturbed(folder, text):
    """Run the study with one driver and no disturbance; returns its output directory."""
    folder.mkdir()
    write_tiny(folder, text)
    study = Disturbed(folder, random.Random(0), every=0.0)
    study.end()
    return study.out
