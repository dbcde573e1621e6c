"""Trials on a Ray cluster: Ray assigns each to a node, the driver keeps the records; imported only for --ray."""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.runner.executors.base import ReportProgress, failure, paused
from fairbench.runner.executors.local import CALL_LIMIT
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
from fairbench.study.environments import environment_differences
from fairbench.study.records import Record
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.place import Checkpointing, Place

RETRIES = 3
"""How often a trial is tried again after its worker or node was lost."""
PAUSE_LIMIT = 150.0
"""Seconds that running trials have to stop: a cluster that reclaims machines gives about three minutes."""
HARDWARE = ("device", "platform", "cuda", "cudnn", "tf32")
"""Facts in which nodes may differ from the driver's machine."""
NODE = "ray.io/node-id"
"""Ray's label for the id of a node."""


@dataclass(frozen=True)
class Task:
    """A trial that is submitted to Ray.

    Attributes:
        limit: seconds that it may take.
        resumes: whether it can resume from a checkpoint.
        reference: Ray's reference to its reply.
    """

    spec: TrialSpec
    limit: float
    resumes: bool
    reference: Any = None


class RayExecutor:
    """Runs trials on a Ray cluster, as many as its nodes have cores or GPUs for; nodes may join later.

    Args:
        address: of the cluster; "local" starts one on this machine, "auto" finds the one that runs here.
        places: their device is that of the trials; as many trials share a GPU as there are places on the first one.
        report: called with the progress of the trials.
        say: called with messages about the cluster.
        preload: modules that the trials will need.
        call_limit: seconds that a call may take.
        checkpointing: where trials write checkpoints, and how often; None for none.
        allow_mixed: whether nodes with another environment get trials.
    """

    def __init__(
        self,
        address: str,
        places: Sequence[Place],
        report: ReportProgress,
        say: Callable[[str], None],
        preload: Sequence[str] = (),
        call_limit: float = CALL_LIMIT,
        checkpointing: Checkpointing | None = None,
        allow_mixed: bool = False,
    ) -> None:
        self._address, self._report, self._say, self._call_limit = address, report, say, call_limit
        self._sharing = list(places).count(places[0])
        place = replace(places[0], device=places[0].kind)  # Ray shows a task only its own GPU
        kept = checkpointing and replace(checkpointing, folder=str(Path(checkpointing.folder).absolute()))
        self._work = Work(place, tuple(preload), str(Path.cwd()), kept)
        self._allow_mixed = allow_mixed
        self._running: dict[Future[Reply], Task] = {}
        self._rejected: set[str] = set()
        self._unshared: set[str] = set()
        self._head_address, self._home, self._slots = "", "", 0

    def __enter__(self) -> "RayExecutor":
        """Connect, and find the environment of the trials: that of the driver's node, if it can run them."""
        with ExitStack() as entered:
            entered.enter_context(connected(self._address))
            here = ray.get_runtime_context()
            self._home, self._head_address = here.get_node_id(), here.gcs_address
            self._actor = ray.remote(num_cpus=0)(ProgressActor).options(scheduling_strategy=_on(self._home)).remote()
            self._count_slots()
            self._work = replace(self._work, sentinel=entered.enter_context(sentinel_file(self._work.checkpointing)))
            environment = self._common_environment()
            self._work = replace(self._work, environment=None if self._allow_mixed else environment)
            self._entered = entered.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop what still runs, and leave the cluster."""
        for task in self._running.values():
            ray.cancel(task.reference, force=True)
        self._entered.__exit__(kind, error, trace)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a module's function, called in a process of its own on a node.

        Raises:
            UsageError: the function raised one, or did not return, or no node could run it.
        """
        remote = self._remote(call_on_node, self._sharing).options(scheduling_strategy=_on(self._home, soft=True))
        try:
            reply = self._answer(remote.remote(self._work, self._call_limit, function, arguments).future())
        except ray.exceptions.RayError as error:
            raise UsageError(f"--ray {self._address}: {function.__name__} was lost with its nodes: {error}") from error
        self._home = reply["node"]  # the next call runs in the same environment
        if "usage" in reply:
            raise UsageError(reply["usage"])
        return reply["result"]

    def has_room(self) -> bool:
        """Whether another trial would start at once."""
        return len(self._running) < self._slots

    def submit(self, spec: TrialSpec, limit: float, resumes: bool = True) -> None:
        """Start a trial with a time limit in seconds; a timing trial is submitted only while no other runs."""
        self._run(Task(spec, limit, resumes))

    def _run(self, task: Task) -> None:
        is_timed = task.spec.stage == "timing"
        fit = {NODE: f"!in({','.join(self._rejected)})"} if self._rejected else {}
        work = replace(
            self._work,
            place=replace(self._work.place, alone=self._work.place.alone or is_timed),
            checkpointing=self._work.checkpointing if task.resumes else None,
        )
        # Step times are compared with each other, so all are taken on one node.
        where = {"scheduling_strategy": _on(self._home)} if is_timed else {"label_selector": fit}
        remote = self._remote(run_on_node, 1 if is_timed else self._sharing).options(**where)
        reference = remote.remote(work, task.spec, task.limit, self._actor)
        self._running[reference.future()] = replace(task, reference=reference)

    def collect(self, patience: float = inf) -> list[Record]:
        """The records of trials that have ended, after waiting at most `patience` seconds."""
        records: list[Record] = []
        until = time.monotonic() + patience
        while not records and self._running and (now := time.monotonic()) < until:
            done = wait(self._running, min(until - now, EXCHANGE), FIRST_COMPLETED).done
            await_head(self._head_address)
            for future in done:
                records += self._ended(future)
            self._report_progress()
            self._count_slots()
        return records

    def pause(self) -> list[Record]:
        """Stop every trial with a checkpoint: for each its `paused` record, or its record if it ended."""
        self._answer_of_actor(self._actor.pause.remote())
        records: list[Record] = []
        until = time.monotonic() + PAUSE_LIMIT
        while self._running and (left := until - time.monotonic()) > 0:
            records += self.collect(left)
        for task in self._running.values():
            ray.cancel(task.reference, force=True)
            records.append(paused(task.spec, f"its node sent nothing for {PAUSE_LIMIT:.0f} s"))
        self._running.clear()
        return records

    def _remote(self, function: Callable[..., Reply], sharing: int) -> Any:
        """A function that Ray runs with the resources of a trial, one of `sharing` on a GPU."""
        gpu = {"num_gpus": 1 / sharing, "max_calls": 1} if self._work.place.kind == "cuda" else {}
        return ray.remote(num_cpus=1, max_retries=RETRIES, **gpu)(function)

    def _answer(self, future: Future[Reply]) -> Reply:
        """The reply of a node.

        Raises:
            UsageError: the node could not start fairbench.
            RayError: the node was lost, and so were those of the retries.
        """
        try:
            return future.result()
        except ray.exceptions.RayTaskError as error:
            advice = "every node needs the same psilogic[bench,ray] as the driver"
            raise UsageError(f"--ray {self._address}: a node cannot run fairbench; {advice}\n{error}") from error

    def _ended(self, future: Future[Reply]) -> list[Record]:
        """The record of a trial that Ray has ended; empty if it has to run again."""
        task = self._running.pop(future)
        try:
            reply = self._answer(future)
        except ray.exceptions.RayError as error:
            lost = f"its worker or node was lost, and so were those of the retries: {error}"
            return [failure(task.spec, "WorkerDied", lost, "")]
        if "rejected" in reply:
            self._reject(reply)
            self._run(task)
            return []
        return [reply["record"]]

    def _reject(self, reply: Reply) -> None:
        """Give no more trials to a node."""
        if reply["node"] not in self._rejected:
            self._rejected.add(reply["node"])
            self._say(f"Ray node {reply['host']} gets no trials: {reply['rejected']}")
            self._count_slots()

    def _count_slots(self) -> None:
        """Count the trials that the present nodes can run concurrently.

        Raises:
            UsageError: they can run none.
        """
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["NodeID"] not in self._rejected]
        on_cpus = [int(resources.get("CPU", 0)) for resources in nodes]
        on_gpus = [int(resources.get("GPU", 0)) * self._sharing for resources in nodes]
        cuda = self._work.place.kind == "cuda"
        self._slots = sum(map(min, on_cpus, on_gpus) if cuda else on_cpus)
        if not self._slots:
            kind = "a CPU core and a GPU" if cuda else "a CPU core"
            raise UsageError(f"--ray {self._address}: no usable node of the cluster has {kind} for trials")

    def _report_progress(self) -> None:
        """Pass on the progress that running trials have reported."""
        steps, unshared = self._answer_of_actor(self._actor.collect.remote())
        for task in self._running.values():
            if task.spec.id in steps:
                self._report(task.spec, *steps[task.spec.id])
        for host in unshared - self._unshared:
            self._say(f"Ray node {host} does not see {self._work.sentinel}: its trials write no checkpoints")
        self._unshared |= unshared

    def _answer_of_actor(self, reference: Any) -> Any:
        """The answer of the actor.

        Raises:
            UsageError: the actor is lost, with or without the head of the cluster.
        """
        try:
            return answer(reference)
        except ray.exceptions.RayError as error:
            await_head(self._head_address)
            raise UsageError(
                f"--ray {self._address}: the actor for progress is lost; all records are kept, and the same command "
                f"resumes: {error}"
            ) from error

    def _common_environment(self) -> dict[str, str]:
        """Versions, device and revision of the first node; apart from hardware, they are the driver's.

        Raises:
            UsageError: they differ, and that is not allowed.
        """
        environment: dict[str, str] = self.call(read_environment, self._work.place.device)
        here = {name: fact for name, fact in read_environment("cpu").items() if name not in HARDWARE}
        if (differing := environment_differences([environment], here)) and not self._allow_mixed:
            advice = "install the same versions there, or use --allow-mixed"
            raise UsageError(f"--ray {self._address}: its nodes differ from the driver; {advice}\n{differing}")
        return environment


@contextmanager
def sentinel_file(checkpointing: Checkpointing | None) -> Iterator[str]:
    """The path of a file among the checkpoints, which shows a node that it shares their folder; empty without them."""
    if checkpointing is None:
        yield ""
        return
    sentinel = Path(checkpointing.folder) / f".shared-{uuid.uuid4().hex}"
    sentinel.parent.mkdir(parents=True, exist_ok=True)
    sentinel.touch()
    try:
        yield str(sentinel)
    finally:
        sentinel.unlink(missing_ok=True)


def _on(node: str, soft: bool = False) -> Any:
    """The strategy that runs a task on this node; if soft, on another one when it is busy."""
    return ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=soft)
