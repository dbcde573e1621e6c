"""One driver's trial loop: it runs the trials that have no record and that no other driver has claimed."""

import time
from datetime import datetime, timezone

from msgspec.structs import replace

from fairbench.analysis.first_verdicts import first_verdicts
from fairbench.analysis.seeds import seeds_needed
from fairbench.common.errors import Preempted, UsageError
from fairbench.common.formatting import plural
from fairbench.runner.coordination.claims import Claims
from fairbench.runner.coordination.liveness import CHECK_SECONDS, CHECK_SECONDS_EACH
from fairbench.runner.devices import RunOptions
from fairbench.runner.equal_trials import EqualTrials
from fairbench.runner.executors.executor import Ended, Executor, PausedTrial
from fairbench.runner.known_records import KnownRecords
from fairbench.runner.observers import Observer
from fairbench.study.history import plan_digest
from fairbench.study.plan import SeedsNeeded
from fairbench.study.preflight_result import Preflight, time_limits
from fairbench.study.record import Record, WholeRecord
from fairbench.study.records import Store
from fairbench.study.trial_queue import TrialQueue
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.result_names import NoTestSplit

COLLECT_SECONDS = 2.0
"""Longest wait for the end of trials between two heartbeats."""


class TrialLoop:
    """Runs the trials of a study until no record is missing. Drivers communicate only through records and claims.

    Args:
        preflight: the study, and what its first steps have shown.
        options: how the study is run, see `options_of_study`.
        store: the records of the study on disk.
        claims: the claims of this driver on trials.
        executor: runs the trials.
        observer: learns what happens.
    """

    def __init__(
        self,
        preflight: Preflight,
        options: RunOptions,
        *,
        store: Store,
        claims: Claims,
        executor: Executor,
        observer: Observer,
    ) -> None:
        study = preflight.study
        self.study = study
        self._store = store
        self._claims = claims
        self._executor = executor
        self._observer = observer
        self._preflight = preflight
        self._options = options
        self._limits = time_limits(preflight, options.trial_timeout)
        self._plan = plan_digest(study)
        self._running: dict[str, TrialSpec] = {}
        self._elsewhere: dict[str, TrialSpec] = {}  # trials that this driver could not claim
        self._due: list[TrialSpec] = []  # the trials in _elsewhere that this driver tries to claim again now
        self._last_look = float("-inf")  # when _due was last filled, by the monotonic clock
        self._collected: list[Ended] = []  # the trials that have ended or paused, and are not noted yet
        self._is_waiting = False
        self._failed = ""  # label of the first failed trial
        self.records = KnownRecords(store, study.suite.metrics, observer.say)
        self._queue = TrialQueue(study, self.records, options.timing, self._seeds_needed)
        self._equal_trials = EqualTrials(study, self.records.whole, preflight.told_by_name)

    def _seeds_needed(self) -> SeedsNeeded:
        """The number of final seeds of each arm: what the user gives for its optimizer, or what the study needs."""
        seeds = dict(seeds_needed(self.study, self.records))
        given = self._options.seeds_of
        for arena, optimizer in seeds:
            if optimizer in given:
                seeds[arena, optimizer] = given[optimizer]
        return seeds

    @property
    def complete(self) -> bool:
        """Whether no training step is left."""
        return not any(self._queue.progress().steps_left.values())

    def run(self) -> None:
        """Run trials until none is missing. Each record is on disk before the next trial is planned.

        If the user or a signal stops the run, or a failed trial does, running trials are paused and the records of
        ended trials are written.

        Raises:
            UsageError: a program ignores its learning rate or its optimizer, or reports no test split.
        """
        if not self.complete:
            self._observer.say(self._preflight.restart_notice())
            self._observer.say(self._preflight.sharing_notice(len(self._options.slots)))
        self._equal_trials.add_earlier(self.records)
        try:
            while True:
                self._observer.planned(self._queue.progress())
                self._start()
                if not self._running and not self._elsewhere:
                    return  # every trial has a record
                self._wait()
                self._keep()
                if self._failed and self._options.fail_fast:
                    self._observer.say(f"stopped at a failed trial, {self._failed}; the same command continues")
                    self._pause()
                    return
        except (KeyboardInterrupt, Preempted, UsageError):
            self._pause()
            raise

    def _start(self) -> None:
        """Start trials while the executor has a free slot and this driver can claim one."""
        while self._executor.has_free_slot():
            spec = self._claim()
            if spec is None:
                return
            self._running[spec.id] = spec
            self._observer.started(spec, self._label(spec))
            limit = self._limits[spec.arena.name]
            self._executor.submit(spec, limit, self._preflight.changes_of_slot(spec))

    def _label(self, spec: TrialSpec) -> str:
        """The name of a trial in messages."""
        return spec.label(self.study.suite.sweep.extra)

    def _claim(self) -> TrialSpec | None:
        """Claim a trial that has no record yet, and return it; None if there is no such trial now.

        Trials that another driver has claimed are remembered, and those that it has completed are noted as ended.
        """
        while spec := self._next():
            # One driver runs all timing trials, so that they never overlap.
            claimed_name = "timing" if spec.stage == "timing" else spec.id
            if not self._claims.take(claimed_name):
                self._elsewhere[spec.id] = spec
                continue
            self._elsewhere.pop(spec.id, None)
            record = self.records.read_now(spec)
            if record is None:
                return spec
            # another driver has completed the trial meanwhile
            self._end(spec, record)
        return None

    def _next(self) -> TrialSpec | None:
        """The next trial of the queue, otherwise a trial that another driver had claimed; None without either."""
        spec = self._queue.next()
        if spec is None:
            spec = self._next_elsewhere()
        return spec

    def _next_elsewhere(self) -> TrialSpec | None:
        """A trial that another driver had claimed, and that may be free now: that driver may have died.

        None without one, and until it is time to try all of them again.
        """
        if not self._due:
            pause = max(CHECK_SECONDS, CHECK_SECONDS_EACH * len(self._elsewhere))
            if time.monotonic() - self._last_look < pause:
                return None
            self._last_look = time.monotonic()
            self._due = list(self._elsewhere.values())
        return self._due.pop() if self._due else None

    def _wait(self) -> None:
        """Wait until trials end, at most COLLECT_SECONDS, and collect them. Their records are not written yet.

        While only other drivers run trials, wait CHECK_SECONDS for them, and say so the first time.
        """
        if self._running:
            self._is_waiting = False
            self._collected += self._executor.collect(COLLECT_SECONDS)
        else:
            if not self._is_waiting:
                self._is_waiting = True
                self._observer.say(f"waiting for records of trials that run elsewhere: {len(self._elsewhere)}")
            time.sleep(CHECK_SECONDS)
        self._observer.beat()

    def _keep(self) -> None:
        """Write the records of the collected trials, and give up the claims on paused ones, but not that on timing."""
        while self._collected:
            ended = self._collected[0]
            spec = self._running[ended.id]
            if isinstance(ended, PausedTrial):
                self._elsewhere[spec.id] = spec  # it is claimed again later, by this driver or another one
                if spec.stage != "timing":
                    self._claims.release(spec.id)
                self._observer.paused(spec)
            else:
                self._keep_record(spec, ended)
            self._collected.pop(0)
            del self._running[spec.id]

    def _keep_record(self, spec: TrialSpec, record: WholeRecord) -> None:
        """Write the record of an ended trial, and tell the queue and the observer. The first failure is remembered."""
        is_first = self._write(spec, record)
        if not is_first:  # another driver has completed the same trial: its record counts
            record = self.records.whole(spec) or record
        self._end(spec, record)
        self._observer.ended(spec, record)
        if record.status == "failed" and not self._failed:
            self._failed = self._label(spec)
        if record.error and record.error.type == NoTestSplit.__name__:  # every final trial would fail
            raise UsageError(f"{self._label(spec)}: {record.error.message}")

    def _write(self, spec: TrialSpec, record: WholeRecord) -> bool:
        """Write a record with the digest of its plan and the time. Returns False if the trial has a record already.

        The digest and the time show later whether the history in the directory is the true one.
        """
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        return self._store.write(spec, replace(record, plan=self._plan, written=now))

    def _end(self, spec: TrialSpec, record: Record) -> None:
        """Note that a claimed trial has a record. The claim on timing is kept for the next timing trial.

        After the last final trial of an arena the observer gets its first verdicts, if others are still to come.
        """
        if spec.stage != "timing":
            self._claims.complete(spec.id)
        self.records.add(record)
        self._queue.ended(spec)
        self._equal_trials.add(spec)
        if spec.stage == "final" and self._queue.has_ended(spec.arena.name) and not self.complete:
            self._observer.say(first_verdicts(self.study, self.records, spec.arena.name))

    def _pause(self) -> None:
        """Pause the running trials, write the records of those that have ended, and say what can be continued.

        The caller gives up the claims at the end of their `with` block.
        """
        self._collected += self._executor.pause()
        for ended in self._collected:
            spec = self._running[ended.id]
            if isinstance(ended, WholeRecord):
                self._write(spec, ended)
            elif ended.unsaved:
                self._observer.say(f"{self._label(spec)} could not be saved: {ended.unsaved}")
        ended_here = {each.id for each in self._collected if isinstance(each, WholeRecord)}
        stopped = [trial for trial in self._running if trial not in ended_here]
        number_saved = sum(self._store.checkpoint(trial).exists() for trial in stopped)
        if number_saved:
            self._observer.say(f"{plural(number_saved, 'running trial')} stopped with a checkpoint")
        number_begun = sum(self._store.program_folder(trial).exists() for trial in stopped)
        if number_begun:
            resumed = "a program that saves checkpoints of its own continues from its last one, others begin again"
            self._observer.say(f"{plural(number_begun, 'program')} stopped; {resumed}")
