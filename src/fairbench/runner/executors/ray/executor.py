"""Trials on a Ray cluster: Ray assigns each to a node, the driver keeps the records; imported only for --ray."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from fairbench.common.errors import UsageError
from fairbench.runner.devices import RunOptions
from fairbench.runner.executors.executor import CALL_LIMIT, NO_CHANGES, PAUSE_LIMIT, Ended, PausedTrial
from fairbench.runner.executors.ray.cluster import await_head, connected, ray
from fairbench.runner.executors.ray.node import (
    EXCHANGE,
    ProgressActor,
    Reply,
    Work,
    answer,
    call_on_node,
    read_environment,
    run_on_node,
)
from fairbench.runner.observers import Observer
from fairbench.study.environments import environment_differences
from fairbench.study.record import failed
from fairbench.study.trial_spec import TrialSpec

RETRIES = 3
"""The number of times that a trial is tried again after its worker or node was lost."""
NODE_PAUSE_LIMIT = PAUSE_LIMIT + 30.0
"""Seconds that nodes have to stop their trials: a cluster that reclaims machines gives about three minutes."""
HARDWARE = ("device", "instruction set", "platform", "cuda", "cudnn", "tf32")
"""Facts in which nodes may differ from the driver's machine."""
NODE = "ray.io/node-id"
"""Ray's label for the id of a node."""


class _Submission(NamedTuple):
    """A submitted trial: what is needed to submit it again, and Ray's reference to its task."""

    spec: TrialSpec
    limit: float
    changes: Mapping[str, Any]
    reference: Any


class RayExecutor:
    """Runs trials on a Ray cluster, as many at a time as its nodes have cores or GPUs for. Nodes may join later.

    The methods do what the methods of `ProcessExecutor` do. Results are bitwise equal on the same CPU. Trials run on
    the kind of device of the first slot. As many trials share a GPU as there are slots that equal the first one.
    """

    def __init__(
        self, options: RunOptions, observer: Observer, preload: Sequence[str] = (), call_limit: float = CALL_LIMIT
    ) -> None:
        assert options.ray is not None
        self._address = options.ray
        self._observer = observer
        self._call_limit = call_limit
        first = options.slots[0]
        self._sharing = list(options.slots).count(first)
        self._cores = first.cores
        self._gpus = len(first.gpus.split(","))
        checkpoints = first.checkpoints and str(Path(first.checkpoints).absolute())
        slot = replace(first, device=first.kind, gpus="", checkpoints=checkpoints)  # Ray shows a task only its own GPUs
        self._work = Work(slot, tuple(preload), str(Path.cwd()))
        self._allow_mixed = options.allow_mixed
        self._running: dict[Future[Reply], _Submission] = {}
        self._rejected: set[str] = set()  # ids of the nodes that get no trials
        self._unshared: set[str] = set()  # hosts that do not see the folder of checkpoints
        self._head_address = ""
        self._home = ""  # id of the node for calls and timing trials
        self._slots = 0

    def __enter__(self) -> "RayExecutor":
        """Connect to the cluster, and find the environment that its nodes must have.

        It is the environment of the driver's node, if that node can run trials.
        """
        with ExitStack() as entered:
            entered.enter_context(connected(self._address))
            here = ray.get_runtime_context()
            self._home = here.get_node_id()
            self._head_address = here.gcs_address
            actor = ray.remote(num_cpus=0)(ProgressActor)
            self._actor = actor.options(scheduling_strategy=_on(self._home)).remote()
            self._count_slots()
            if self._work.slot.checkpoints:
                # a node that sees this file shares the folder of checkpoints with the driver
                sentinel = Path(self._work.slot.checkpoints) / f".shared-{uuid.uuid4().hex}"
                sentinel.parent.mkdir(parents=True, exist_ok=True)
                sentinel.touch()
                entered.callback(sentinel.unlink, missing_ok=True)
                self._work = replace(self._work, sentinel=str(sentinel))
            self._work = replace(self._work, environment=self._common_environment())
            self._entered = entered.pop_all()  # an error before this line has closed everything
        return self

    def __exit__(self, *error: Any) -> None:
        for submission in self._running.values():
            ray.cancel(submission.reference, force=True)
        self._entered.__exit__(*error)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        strategy = _on(self._home, soft=True)
        remote = self._remote(call_on_node, self._sharing).options(scheduling_strategy=strategy)
        try:
            reference = remote.remote(self._work, self._call_limit, function, arguments)
            reply = self._answer(reference.future())
        except ray.exceptions.RayError as error:
            raise UsageError(f"--ray {self._address}: {function.__name__} was lost with its nodes: {error}") from error
        self._home = reply["node"]  # the next call runs in the same environment
        if "usage" in reply:
            raise reply["usage"]
        return reply["result"]

    def has_free_slot(self) -> bool:
        return len(self._running) < self._slots

    def submit(self, spec: TrialSpec, limit: float, changes: Mapping[str, Any] = NO_CHANGES) -> None:
        slot = replace(self._work.slot, **changes)
        if spec.stage == "timing":  # step times are compared with each other, so all are taken on one node
            slot = replace(slot, alone=True)
            remote = self._remote(run_on_node, sharing=1).options(scheduling_strategy=_on(self._home))
        else:
            selector = {}
            if self._rejected:
                selector[NODE] = f"!in({','.join(self._rejected)})"
            remote = self._remote(run_on_node, self._sharing).options(label_selector=selector)
        work = replace(self._work, slot=slot)
        reference = remote.remote(work, spec, limit, self._actor)
        self._running[reference.future()] = _Submission(spec, limit, changes, reference)

    def collect(self, patience: float = inf) -> list[Ended]:
        records: list[Ended] = []
        until = time.monotonic() + patience
        while not records and self._running:
            left = until - time.monotonic()
            if left <= 0:
                break
            done = wait(self._running, min(left, EXCHANGE), FIRST_COMPLETED).done
            await_head(self._head_address)
            for future in done:
                records += self._ended(future)
            self._report_progress()
            self._count_slots()
        return records

    def pause(self) -> list[Ended]:
        self._answer_of_actor(self._actor.pause.remote())
        records: list[Ended] = []
        until = time.monotonic() + NODE_PAUSE_LIMIT
        while self._running and time.monotonic() < until:
            records += self.collect(until - time.monotonic())
        for submission in self._running.values():
            ray.cancel(submission.reference, force=True)
            unsaved = f"its node sent nothing for {NODE_PAUSE_LIMIT:.0f} s"
            records.append(PausedTrial(submission.spec.id, unsaved))
        self._running.clear()
        return records

    def _remote(self, function: Callable[..., Reply], sharing: int) -> Any:
        """A function that Ray runs with the resources of a trial, where `sharing` trials share a GPU."""
        resources: dict[str, float] = {"num_cpus": self._cores, "max_retries": RETRIES}
        if self._work.slot.kind == "cuda":
            resources["num_gpus"] = self._gpus / sharing
            resources["max_calls"] = 1
        return ray.remote(**resources)(function)

    def _answer(self, future: Future[Reply]) -> Reply:
        """The reply of a node.

        Raises:
            UsageError: the node cannot start fairbench.
            RayError: the task and all its retries were lost.
        """
        try:
            return future.result()
        except ray.exceptions.RayTaskError as error:
            advice = "every node needs this package with the extras [bench,ray], as the driver has it"
            raise UsageError(f"--ray {self._address}: a node cannot run fairbench; {advice}\n{error}") from error

    def _ended(self, future: Future[Reply]) -> list[Ended]:
        """The outcome of a trial that Ray has ended, in a list. The list is empty if the trial was submitted again."""
        submission = self._running.pop(future)
        try:
            reply = self._answer(future)
        except ray.exceptions.RayError as error:
            lost = f"its worker or node was lost, and so were those of the retries: {error}"
            return [failed(submission.spec, "WorkerDied", lost, "")]
        if "rejected" not in reply:
            return [reply["record"]]
        if reply["node"] not in self._rejected:
            self._rejected.add(reply["node"])
            self._observer.say(f"Ray node {reply['host']} gets no trials: {reply['rejected']}")
            self._count_slots()
        self.submit(submission.spec, submission.limit, submission.changes)
        return []

    def _count_slots(self) -> None:
        """Count the trials that the present nodes can run at the same time. Raises `UsageError` if there is none."""
        has_gpus = self._work.slot.kind == "cuda"
        self._slots = 0
        for node in ray.nodes():
            if not node["Alive"] or node["NodeID"] in self._rejected:
                continue
            resources = node["Resources"]
            slots = int(resources.get("CPU", 0)) // self._cores
            if has_gpus:
                slots_on_gpus = int(resources.get("GPU", 0)) // self._gpus * self._sharing
                slots = min(slots, slots_on_gpus)
            self._slots += slots
        if not self._slots:
            kind = "a CPU core and a GPU" if has_gpus else "a CPU core"
            raise UsageError(f"--ray {self._address}: no usable node of the cluster has {kind} for trials")

    def _report_progress(self) -> None:
        """Tell the observer the progress of running trials, and name hosts that do not see the checkpoints."""
        steps, unshared = self._answer_of_actor(self._actor.collect.remote())
        for submission in self._running.values():
            spec = submission.spec
            if spec.id in steps:
                step, loss = steps[spec.id]
                self._observer.running(spec, step, loss)
        for host in unshared - self._unshared:
            self._observer.say(f"Ray node {host} does not see {self._work.sentinel}: its trials write no checkpoints")
        self._unshared |= unshared

    def _answer_of_actor(self, reference: Any) -> Any:
        """The answer of the actor for progress. Raises `UsageError` if the actor is lost, with or without the head."""
        try:
            return answer(reference)
        except ray.exceptions.RayError as error:
            await_head(self._head_address)
            raise UsageError(
                f"--ray {self._address}: the actor for progress is lost; all records are kept, and the same command "
                f"resumes: {error}"
            ) from error

    def _common_environment(self) -> dict[str, str] | None:
        """The versions, the device and the revision of the first node, which every node must have; None for any."""
        if self._allow_mixed:
            return None
        environment: dict[str, str] = self.call(read_environment, self._work.slot.device)
        here = {name: fact for name, fact in read_environment("cpu").items() if name not in HARDWARE}
        differing = environment_differences([environment], here)
        if differing:
            advice = "install the same versions there, or use --allow-mixed"
            raise UsageError(f"--ray {self._address}: its nodes differ from the driver; {advice}\n{differing}")
        return environment


def _on(node: str, soft: bool = False) -> Any:
    """The strategy that runs a task on a node. If `soft` is True, the task may run elsewhere when the node is busy."""
    return ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=soft)
