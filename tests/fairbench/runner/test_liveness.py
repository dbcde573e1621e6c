"""Which drivers are alive: by processes of this machine and by beats, even if clocks elsewhere are wrong."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from fairbench.common.files import write_atomically
from fairbench.runner.coordination import liveness as module
from fairbench.runner.coordination.liveness import BEAT_WAIT, EXPIRY, FRESH, Liveness
from fairbench.runner.coordination.status import DriverStatus, start_of, status_path, this_machine
from fairbench.runner.observers import RunningTrial

NOW = 1.8e9
DAY = 86_400.0
FAR = DriverStatus("abc", "elsewhere", os.getpid(), "another machine", "long ago", beat=5, written=NOW)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def liveness(tmp_path, clock):
    return Liveness(tmp_path, clock, lambda: NOW + clock())


def write_status(directory, status):
    write_atomically(status_path(directory, status.token), json.dumps(asdict(status)))


def test_a_driver_elsewhere_is_dead_when_its_beat_has_not_changed_by_the_observers_clock(tmp_path, clock, liveness):
    status = replace(FAR, written=-1e9)
    write_status(tmp_path, status)
    assert not liveness.is_dead("abc")
    clock.now += EXPIRY
    assert not liveness.is_dead("abc")
    write_status(tmp_path, replace(status, beat=6))
    clock.now += FRESH
    assert not liveness.is_dead("abc")  # its beat has changed
    clock.now += EXPIRY
    assert not liveness.is_dead("abc")
    clock.now += FRESH
    assert liveness.is_dead("abc")
    assert not status_path(tmp_path, "abc").exists()
    assert liveness.is_dead("a driver without a heartbeat")

    status_path(tmp_path, "odd").write_text("{")
    assert not liveness.is_dead("odd")
    clock.now += EXPIRY + FRESH
    assert liveness.is_dead("odd")


def test_a_driver_of_this_machine_is_dead_when_its_process_has_ended(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        status = DriverStatus("abc", "here", process.pid, this_machine(), start_of(process.pid), beat=1, written=-1e9)
        write_status(tmp_path, status)
        assert not Liveness(tmp_path).is_dead("abc")
        assert Liveness(tmp_path).alive() == [status]  # although its clock is wrong
        write_status(tmp_path, replace(status, started="before"))  # an earlier process of that number
        assert Liveness(tmp_path).alive() == []
        assert Liveness(tmp_path).is_dead("abc")
        write_status(tmp_path, status)
        process.kill()
        process.stdin.close()
    assert Liveness(tmp_path).alive() == []
    assert status_path(tmp_path, "abc").exists()  # a reader writes nothing
    Liveness(tmp_path).remove_dead()
    assert not status_path(tmp_path, "abc").exists()


def test_a_driver_elsewhere_whose_clock_is_right_is_alive_until_its_beat_expires(tmp_path, clock, liveness):
    write_status(tmp_path, FAR)
    assert liveness.alive() == [FAR]
    clock.now += EXPIRY - 1
    assert liveness.alive() == [FAR]
    clock.now += 1
    assert liveness.alive() == []  # by the calendar
    write_status(tmp_path, replace(FAR, beat=6))
    assert len(liveness.alive()) == 1
    clock.now += EXPIRY
    assert len(liveness.alive()) == 1  # the beat has changed, so the timestamp does not count
    clock.now += 1
    assert liveness.alive() == []


@pytest.mark.parametrize("wrong", [-DAY, -EXPIRY, 2 * EXPIRY, DAY])
def test_a_wrong_clock_neither_hides_a_live_driver_nor_keeps_a_dead_one(tmp_path, clock, liveness, monkeypatch, wrong):
    monkeypatch.setattr(module, "POLL", 0.0)
    dead = replace(FAR, token="dead", written=NOW + wrong)
    alive = replace(FAR, written=NOW + wrong)
    write_status(tmp_path, dead)
    write_status(tmp_path, alive)
    assert Liveness(tmp_path, clock, lambda: NOW).alive() == []  # before a beat was seen

    def wait():
        clock.now += 1
        if clock.now == 10:
            write_status(tmp_path, replace(alive, beat=6, trials={"x": trial}))

    trial = RunningTrial("a trial", 10, alive.written - 60, alive.written - 1, driver=alive.name)
    (status,) = liveness.wait_until_known(wait)
    assert clock.now == BEAT_WAIT  # for the dead one
    assert (status.token, status.written) == ("abc", NOW + 10)  # the time of the beat by our calendar
    assert (status.trials["x"].started, status.trials["x"].updated) == (NOW - 50, NOW + 9)
    assert liveness.wait_until_known(wait) == [status]
    assert clock.now == BEAT_WAIT  # all is known
    clock.now += EXPIRY + 1
    liveness.remove_dead()
    assert not list(tmp_path.glob("drivers/*"))


def test_drivers_whose_liveness_is_known_are_not_waited_for(tmp_path, clock, liveness, monkeypatch):
    def never():
        pytest.fail("there is nothing to wait for")

    write_status(tmp_path, FAR)
    write_status(tmp_path, DriverStatus("def", "here", os.getpid(), this_machine(), "another process of that number"))
    liveness.wait_until_known(never)
    monkeypatch.setattr(module, "POLL", 0.0)
    status_path(tmp_path, "odd").write_text("{")
    waits = [lambda: write_status(tmp_path, replace(FAR, token="odd"))]
    liveness.wait_until_known(lambda: waits.pop()())  # it could not be read for a moment
    assert len(liveness.alive()) == 2
