"""Several drivers on one study: each trial runs once, even if drivers die, and all have the same records at the end."""

import json
import shutil
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from math import inf

import fabricated
import msgspec
import pytest
from disturbed import results
from fabricated import Records, rehearsed, stored, sweep
from tiny import run_here

from fairbench.cli.main import main
from fairbench.common.errors import Preempted, UsageError
from fairbench.runner import trial_loop
from fairbench.runner.admission import admit
from fairbench.runner.coordination.claims import open_claims
from fairbench.runner.coordination.heartbeat import Heartbeat
from fairbench.runner.coordination.liveness import EXPIRY
from fairbench.runner.coordination.status import names, status_path
from fairbench.runner.devices import RunOptions
from fairbench.runner.executors.executor import NO_CHANGES, PausedTrial
from fairbench.runner.observers import Observer, RunningTrial
from fairbench.runner.trial_loop import TrialLoop
from fairbench.study.history import plan_digest, write_history
from fairbench.study.plan import arms
from fairbench.study.planned_trial import timing_trials
from fairbench.study.record import Record, WholeRecord, failed
from fairbench.study.records import Store
from fairbench.study.target import target_in
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.device_slot import DeviceSlot

pytestmark = pytest.mark.xdist_group("studies")  # one worker has the study that some of them share


class Killed(BaseException):
    """Stands for a kill -9: no claim is released."""


class Pretending:
    """An executor whose trials end at once, with the records of `truth`; its driver is killed after `lives` of them."""

    def __init__(self, truth, log, lives=inf):
        self.truth = truth
        self.log = log
        self.lives = lives
        self.trials = list[TrialSpec]()

    def has_free_slot(self):
        return len(self.trials) < 2

    def submit(self, spec, limit, changes=NO_CHANGES):
        self.log.append(spec.id)
        self.trials.append(spec)

    def collect(self, patience=inf):
        time.sleep(0.002)
        self.lives -= 1
        if self.lives < 0:
            raise Killed
        spec = self.trials.pop(0)
        if spec.stage == "timing":
            return [self.truth.record(spec, 0.5)]
        return [self.truth(spec)]

    def pause(self):
        return []


@pytest.fixture
def study():
    return fabricated.study(optimizers=("AdamW", "PsiLogic"), seeds=(1, 2))


@pytest.fixture
def truth(study):
    return Records(study)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(trial_loop, "CHECK_SECONDS", 0.01)
    store = Store(tmp_path / "study")
    store.prepare()
    return store


def drive(study, store, executor, ready=lambda: None, timing=False, fail_fast=False):
    """Run a driver after its admission."""
    heartbeat = Heartbeat(store.directory)
    block = ExitStack()
    observer = block.enter_context(heartbeat)
    claims = block.enter_context(open_claims(store, heartbeat))
    try:
        options = RunOptions([DeviceSlot()], timing=timing, fail_fast=fail_fast)
        planned = TrialLoop(rehearsed(study), options, store=store, claims=claims, executor=executor, observer=observer)
        ready()
        planned.run()
    except Killed:
        path = status_path(store.directory, heartbeat.status.token)
        status = json.loads(path.read_text())
        status["started"] = "long ago"
        path.write_text(json.dumps(status))
    else:
        block.close()


def drive_all(study, store, *executors, timing=False):
    ready = threading.Barrier(len(executors)).wait  # otherwise the last one starts after the first one has ended
    with ThreadPoolExecutor(len(executors)) as drivers:
        list(drivers.map(lambda each: drive(study, store, each, ready, timing), executors))


def trials(study, store):
    return [spec for arm in arms(study, partial(store.read, kind=Record)) for spec in arm.trials]


def is_alone(store, spec):
    """Whether the record of a trial says that it was alone."""
    return bool(store.read(spec, Record).cost.alone)


def test_four_drivers_run_each_trial_once_though_two_are_killed(study, truth, store):
    log = []
    drive_all(study, store, *(Pretending(truth, log, lives) for lives in (3, inf, 0, inf)))
    planned = trials(study, store)
    assert len(planned) == 20
    for spec in planned:
        record = store.read(spec, WholeRecord)
        assert record.plan == plan_digest(study)
        assert msgspec.structs.replace(record, plan="", written="") == truth(spec)
    assert set(log) == {spec.id for spec in planned}
    assert len(log) <= 20 + 4  # the trials that ran in the two killed drivers
    assert not list((store.directory / "claims").iterdir())


def test_a_failed_trial_runs_once_in_each_run_of_several_drivers(study, truth, store):
    truth.cases.append(sweep(arena="gpt", optimizer="AdamW", lr=1e-4, outcome="failed"))
    for _ in range(2):
        log = []
        drive_all(study, store, *(Pretending(truth, log) for _ in range(3)))
        (failed,) = [spec for spec in trials(study, store) if truth(spec).status == "failed"]
        assert Counter(log)[failed.id] == 1
    assert log == [failed.id]


def test_fail_fast_ends_at_the_first_failed_trial_and_a_later_run_continues(study, truth, store):
    truth.cases.append(sweep(arena="gpt", optimizer="AdamW", lr=1e-3, outcome="failed"))
    executor = Pretending(truth, [])
    executor.pause = lambda: [PausedTrial(spec.id) for spec in executor.trials]
    drive(study, store, executor, fail_fast=True)
    statuses = Counter(record.status for spec in trials(study, store) if (record := store.read(spec, Record)))
    assert statuses == {"finished": 1, "failed": 1}
    truth.cases.clear()
    drive(study, store, Pretending(truth, []), fail_fast=True)
    assert {store.read(spec, Record).status for spec in trials(study, store)} == {"finished"}


def test_a_driver_that_is_stopped_keeps_trials_that_ended_meanwhile(study, truth, store):
    executor = Pretending(truth, [])

    def stop(patience):
        raise Preempted("SIGTERM")

    def pause():
        store.shared(executor.trials[0].id).touch()
        return [truth(executor.trials[0]), PausedTrial(executor.trials[1].id)]

    executor.collect = stop
    executor.pause = pause
    with pytest.raises(Preempted):
        drive(study, store, executor)
    first, second = executor.trials
    assert store.read(first, Record).result == truth(first).result
    assert not is_alone(store, first)
    assert store.read(second, Record) is None


def declared_in(study, store, others=(), freeze=False):
    """The history of a directory with the study in force, while other drivers run there."""
    return target_in(store.directory, study.suite).declare(study, 0, names(others), EXPIRY, freeze)


def test_a_plan_that_another_driver_runs_cannot_be_changed(study, store):
    other = fabricated.with_suite(study, alpha=0.2)
    write_history(store.directory, declared_in(study, store))
    mine = Heartbeat(store.directory)
    with Heartbeat(store.directory) as heartbeat:
        declared_in(other, store, mine.other_drivers())  # it runs no trials yet
        heartbeat.announce(study.environment)
        assert not heartbeat.other_drivers()
        others = mine.other_drivers()
        assert declared_in(study, store, others).study == study
        with pytest.raises(UsageError, match=r"the driver .* runs the plan of (?s:.*)suite.alpha: 0.05 -> 0.2"):
            declared_in(other, store, others)
        with pytest.raises(UsageError, match="which this run would change"):
            declared_in(other, store, others, freeze=True)
    assert declared_in(other, store, mine.other_drivers()).study == other


def test_a_directory_of_another_suite_is_refused_before_anything_is_made(study, tiny_suite, tmp_path):
    out = tmp_path / "out"
    write_history(out, declared_in(study, Store(out)))
    with pytest.raises(UsageError, match="not 'tiny'; choose another --output-dir"):
        target_in(out, tiny_suite)
    assert [path.name for path in out.iterdir()] == ["config.json"]


def test_a_plan_that_another_machine_declares_again_leaves_the_same_file(study, store):
    write_history(store.directory, declared_in(study, store))
    config = store.directory / "config.json"
    before = config.read_bytes(), config.stat().st_mtime_ns
    there = replace(study, environment={"python": "3.98", "device": "another"})
    write_history(store.directory, declared_in(there, store))
    assert (config.read_bytes(), config.stat().st_mtime_ns) == before


def test_a_driver_is_admitted_unless_trials_would_run_in_another_environment(study, truth, store):
    there = replace(study, environment={"python": "3.98", "device": "a machine"})
    with Heartbeat(store.directory) as heartbeat, open_claims(store, heartbeat) as claims:

        def admitted(the_study, allow_mixed=False, timing=False):
            options = RunOptions([DeviceSlot()], timing=timing)
            nothing_runs = Pretending(truth, [])
            loop = TrialLoop(
                rehearsed(the_study), options, store=store, claims=claims, executor=nothing_runs, observer=Observer()
            )
            return admit(loop, store, claims, heartbeat, allow_mixed)

        assert admitted(study) == ""
        (status,) = Heartbeat(store.directory).other_drivers()
        assert status.environment == study.environment
        with Heartbeat(store.directory) as other:
            other.announce({"python": "3.97"})
            with pytest.raises(
                UsageError, match=r"and those of the driver .*:\n  python: 3.97; here 3.99\n--allow-mixed"
            ):
                admitted(study)
        drive(study, store, Pretending(truth, [], 3))
        with pytest.raises(UsageError, match=r"from the finished ones:\n(?s:.*)python: 3.99; here 3.98"):
            admitted(there)
        assert not (store.directory / "claims" / "plan").exists()
        assert "python: 3.99; here 3.98" in admitted(there, allow_mixed=True)
        drive(study, store, Pretending(truth, []))
        assert admitted(there) == ""  # nothing is left to run
        with pytest.raises(UsageError, match=r"python: 3.99; here 3.98"):
            admitted(there, timing=True)
        drive(study, store, Pretending(truth, []), timing=True)
        assert admitted(there, timing=True) == ""


class Timing(Pretending):
    """An executor that counts the timing trials that are submitted while another trial of any driver runs."""

    now_running = 0
    overlaps = 0

    def submit(self, spec, limit, changes=NO_CHANGES):
        super().submit(spec, limit)
        Timing.now_running += 1
        if spec.stage == "timing" and Timing.now_running > 1:
            Timing.overlaps += 1

    def collect(self, patience=inf):
        records = super().collect(patience)
        Timing.now_running -= len(records)
        return records


def test_timing_trials_run_last_one_at_a_time_and_by_one_driver(study, truth, store):
    logs = [[], []]
    executors = [Timing(truth, log) for log in logs]
    drive_all(study, store, *executors, timing=True)
    assert Timing.overlaps == 0
    timed = [spec.id for spec in timing_trials(study)]
    untimed = {spec.id for spec in trials(study, store)}
    timed_in = [[trial for trial in log if trial in timed] for log in logs]
    assert sorted(timed_in, key=len) == [[], timed]
    for log, last in zip(logs, timed_in, strict=True):
        first = log[: len(log) - len(last)]
        assert {*first} <= untimed


def test_a_timing_trial_that_was_stopped_or_failed_runs_again(study, truth, store):
    drive(study, store, Pretending(truth, []))
    log = []
    first, *others = timing_trials(study)
    store.shared(others[0].id).touch()
    executor = Pretending(truth, log)
    stops = [[PausedTrial(first.id)], [failed(first, "WorkerDied", "", "")]]
    real = executor.collect

    def collect(patience):
        if not stops:
            return real()
        executor.trials.clear()
        return stops.pop(0)

    executor.collect = collect
    drive(study, store, executor, timing=True)
    assert log == [first.id, first.id, *(spec.id for spec in others)]
    assert [is_alone(store, spec) for spec in others[:2]] == [False, True]
    drive(study, store, executor, timing=True)
    assert log[-1] == first.id
    drive(study, store, executor, timing=True)
    assert len(log) == len(others) + 3


@pytest.mark.usefixtures("no_figures")
def test_a_moved_directory_resumes_with_allow_mixed_while_another_driver_runs(finished, tmp_path, monkeypatch, capsys):
    run_here(monkeypatch, finished.folder)
    installed = tmp_path / "scikit_learn-99.dist-info" / "METADATA"
    installed.parent.mkdir()
    installed.write_text("Metadata-Version: 2.1\nName: scikit-learn\nVersion: 99\n")
    monkeypatch.syspath_prepend(tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(finished.output, copy)
    command = [*finished.words, "--output-dir", str(copy), "--workers", "1"]
    last = max(copy.glob("trials/*.json"), key=lambda path: stored(path)["spec"]["stage"] == "final")
    last.unlink()
    before = (copy / "config.json").read_bytes()
    assert main(command) == 2
    assert "; here 99\n--allow-mixed" in capsys.readouterr().err
    assert not last.exists()
    assert (copy / "config.json").read_bytes() == before
    with Heartbeat(copy) as other:
        other.trials["a trial"] = RunningTrial("a trial", 1, 0.0, 0.0)
        other.announce({"python": "another"})
        assert main([*command, "--allow-mixed"]) == 0
    assert stored(last)["cost"]["alone"] is False
    assert "MIXED MACHINES" in capsys.readouterr().out
    assert results(copy) == results(finished.output)
