"""Trials on a Ray cluster: Ray finds each a node with room, the driver keeps the records; imported only for --ray."""

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

from fairbench.common.errors import OutOfMemory, UsageError
from fairbench.runner.executors.base import Report, failure, paused
from fairbench.runner.executors.local import CALL_LIMIT
from fairbench.runner.executors.ray.cluster import await_head, connected, ray
from fairbench.runner.executors.ray.node import (
    LISTEN,
    Board,
    Reply,
    Work,
    answer,
    call_there,
    differences,
    read_ground,
    run_there,
)
from fairbench.study.records import Record
from fairbench.study.trial_spec import TrialSpec
from fairbench.training.place import Checkpointing, Place

RETRIES = 3
"""How often a trial is taken up again after the worker or the node that ran it is lost."""
PAUSE_LIMIT = 150.0
"""Seconds in which running trials must have stopped: a cluster that takes machines away gives about three minutes."""
HARDWARE = ("device", "platform", "cuda", "cudnn", "tf32")
"""Facts of a node that the driver's machine need not share."""
NODE = "ray.io/node-id"
"""The label by which Ray knows a node."""


@dataclass(frozen=True)
class Task:
    """A trial that Ray runs, or soon will.

    Attributes:
        spec: the trial.
        limit: seconds that it may take.
        resumes: whether it can go on from a checkpoint.
        sharing: trials at a time on its GPU.
        reference: by which Ray knows it.
    """

    spec: TrialSpec
    limit: float
    resumes: bool
    sharing: int
    reference: Any = None


class RayExecutor:
    """Runs trials on a Ray cluster, as many at a time as it has room for; a node that joins gets some too.

    Args:
        address: the cluster's; "local" starts one on this machine, "auto" finds the one that runs here.
        places: where trials run on a node: on a core each, or as many on a GPU as there are places on the first one.
        report: told of the running trials.
        say: told what the user should know of the cluster.
        preload: modules that the trials will need.
        call_limit: seconds that a call may take.
        checkpointing: where running trials write their checkpoints, and how often; None for none.
        allow_mixed: whether nodes with other versions, revision or device get trials.
        oom: "retry" for trials to which a GPU that they share has no room to run once more with one of their own.
    """

    def __init__(
        self,
        address: str,
        places: Sequence[Place],
        report: Report,
        say: Callable[[str], None],
        preload: Sequence[str] = (),
        call_limit: float = CALL_LIMIT,
        checkpointing: Checkpointing | None = None,
        allow_mixed: bool = False,
        oom: str = "fail",
    ) -> None:
        self._address, self._report, self._say, self._call_limit = address, report, say, call_limit
        self._sharing = list(places).count(places[0])
        place = replace(places[0], device=places[0].kind)  # of those that Ray lets a task see: its only one
        kept = checkpointing and replace(checkpointing, folder=str(Path(checkpointing.folder).absolute()))
        self._work = Work(place, tuple(preload), str(Path.cwd()), kept)
        self._allow_mixed, self._oom = allow_mixed, oom
        self._running: dict[Future[Reply], Task] = {}
        self._unfit: dict[str, str] = {}
        self._blind: set[str] = set()
        self._head, self._home, self._slots = "", "", 0

    def __enter__(self) -> "RayExecutor":
        """Connect, and learn on what ground trials run: on that of the driver's own machine, where it can run them."""
        with ExitStack() as entered:
            entered.enter_context(connected(self._address))
            here = ray.get_runtime_context()
            self._home, self._head = here.get_node_id(), here.gcs_address
            self._board = ray.remote(num_cpus=0)(Board).options(scheduling_strategy=_on(self._home)).remote()
            self._count_slots()
            self._work = replace(self._work, mark=entered.enter_context(marked(self._work.checkpointing)))
            ground = self._common_ground()
            self._work = replace(self._work, ground=None if self._allow_mixed else ground)
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
        """What a function of a module returns on a node, in a process of its own there.

        Raises:
            UsageError: the function raised one, or did not come to its end, or no node could run it.
        """
        remote = self._remote(call_there, self._sharing).options(scheduling_strategy=_on(self._home, soft=True))
        try:
            reply = self._answer(remote.remote(self._work, self._call_limit, function, arguments).future())
        except ray.exceptions.RayError as error:
            raise UsageError(f"--ray {self._address}: {function.__name__} was lost with its nodes: {error}") from error
        self._home = reply["node"]  # where the next one meets the same ground
        if "usage" in reply:
            raise UsageError(reply["usage"])
        return reply["result"]

    def has_room(self) -> bool:
        """Whether the cluster has room for a further trial."""
        return len(self._running) < self._slots

    def submit(self, spec: TrialSpec, limit: float, resumes: bool = True) -> None:
        """Start a trial that may take so many seconds; `resumes` says whether it can go on from a checkpoint."""
        self._run(Task(spec, limit, resumes, self._sharing))

    def _run(self, task: Task) -> None:
        fit = {NODE: f"!in({','.join(self._unfit)})"} if self._unfit else {}
        work = replace(
            self._work,
            place=replace(self._work.place, alone=self._work.place.alone or task.sharing == 1),
            checkpointing=self._work.checkpointing if task.resumes else None,
        )
        # Ratios of what a step costs are those of one node.
        where = {"scheduling_strategy": _on(self._home)} if task.spec.stage == "timing" else {"label_selector": fit}
        remote = self._remote(run_there, task.sharing).options(**where)
        reference = remote.remote(work, task.spec, task.limit, self._board)
        self._running[reference.future()] = replace(task, reference=reference)

    def collect(self, patience: float = inf) -> list[Record]:
        """Pass on what the trials say until one or more have ended, for so many seconds at most: their records."""
        records: list[Record] = []
        until = time.monotonic() + patience
        while not records and self._running and (now := time.monotonic()) < until:
            done = wait(self._running, min(until - now, LISTEN), FIRST_COMPLETED).done
            await_head(self._head)
            for future in done:
                records += self._ended(future)
            self._listen()
            self._count_slots()
        return records

    def pause(self) -> list[Record]:
        """Have every trial write a checkpoint and stop: what `paused` says of each, or its record if it ended."""
        self._asked(self._board.pause.remote())
        records: list[Record] = []
        until = time.monotonic() + PAUSE_LIMIT
        while self._running and (left := until - time.monotonic()) > 0:
            records += self.collect(left)
        for task in self._running.values():
            ray.cancel(task.reference, force=True)
            records.append(paused(task.spec, f"its node said nothing for {PAUSE_LIMIT:.0f} s"))
        self._running.clear()
        return records

    def _remote(self, function: Callable[..., Reply], sharing: int) -> Any:
        """A function that Ray runs with what a trial takes of a node."""
        gpu = {"num_gpus": 1 / sharing, "max_calls": 1} if self._work.place.kind == "cuda" else {}
        return ray.remote(num_cpus=1, max_retries=RETRIES, **gpu)(function)

    def _answer(self, future: Future[Reply]) -> Reply:
        """The reply of a node.

        Raises:
            UsageError: a node could not even begin.
            RayError: it was lost, and so were those that were tried after it.
        """
        try:
            return future.result()
        except ray.exceptions.RayTaskError as error:
            advice = "every node needs the same psilogic[bench,ray] as the driver"
            raise UsageError(f"--ray {self._address}: a node cannot run fairbench; {advice}\n{error}") from error

    def _ended(self, future: Future[Reply]) -> list[Record]:
        """The record of a trial that Ray is done with; none where it has to run again."""
        task = self._running.pop(future)
        try:
            reply = self._answer(future)
        except ray.exceptions.RayError as error:
            lost = f"the worker or node that ran it was lost, and so were those that took it up again: {error}"
            return [failure(task.spec, "WorkerDied", lost, "")]
        if "unfit" in reply:
            self._leave_out(reply)
            self._run(task)
        elif self._oom == "retry" and task.sharing > 1 and ran_out_of_memory(reply["record"]):
            self._run(replace(task, sharing=1))
        else:
            return [reply["record"]]
        return []

    def _leave_out(self, reply: Reply) -> None:
        """Give no more trials to a node that is unfit for them."""
        if reply["node"] not in self._unfit:
            self._unfit[reply["node"]] = reply["host"]
            self._say(f"Ray node {reply['host']} gets no trials: {reply['unfit']}")
            self._count_slots()

    def _count_slots(self) -> None:
        """See how many trials have room on the nodes that are there now.

        Raises:
            UsageError: none has.
        """
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["NodeID"] not in self._unfit]
        on_cpus = [int(has.get("CPU", 0)) for has in nodes]
        on_gpus = [int(has.get("GPU", 0)) * self._sharing for has in nodes]
        cuda = self._work.place.kind == "cuda"
        self._slots = sum(map(min, on_cpus, on_gpus) if cuda else on_cpus)
        if not self._slots:
            kind = "a CPU core and a GPU" if cuda else "a CPU core"
            raise UsageError(
                f"--ray {self._address}: no node of the cluster that is fit for trials has {kind} for them"
            )

    def _listen(self) -> None:
        """Pass on what running trials have told the board."""
        steps, blind = self._asked(self._board.heard.remote())
        for task in self._running.values():
            if task.spec.id in steps:
                self._report(task.spec, *steps[task.spec.id])
        for host in blind - self._blind:
            self._say(f"Ray node {host} does not see {self._work.mark}: its trials write no checkpoints")
        self._blind |= blind

    def _asked(self, reference: Any) -> Any:
        """What the board answers.

        Raises:
            UsageError: it is lost, with the head of the cluster or by itself.
        """
        try:
            return answer(reference)
        except ray.exceptions.RayError as error:
            await_head(self._head)
            raise UsageError(
                f"--ray {self._address}: lost what trials report to; all records are kept, and the same command goes "
                f"on: {error}"
            ) from error

    def _common_ground(self) -> dict[str, str]:
        """Versions, device and revision of the first node, which are those of the driver as far as both have them.

        Raises:
            UsageError: they are not, and that is not allowed.
        """
        found: dict[str, str] = self.call(read_ground, self._work.place.device)
        expected = {name: fact for name, fact in read_ground("cpu").items() if name not in HARDWARE}
        if (wrong := differences(expected, found)) and not self._allow_mixed:
            advice = "install there what is here, or say --allow-mixed"
            raise UsageError(f"--ray {self._address}: its nodes differ from the driver; {advice}\n{wrong}")
        return found


@contextmanager
def marked(checkpointing: Checkpointing | None) -> Iterator[str]:
    """A file among the checkpoints, by which a node sees that it shares them; its path."""
    if checkpointing is None:
        yield ""
        return
    mark = Path(checkpointing.folder) / f".shared-{uuid.uuid4().hex}"
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    try:
        yield str(mark)
    finally:
        mark.unlink(missing_ok=True)


def ran_out_of_memory(record: Record) -> bool:
    """Whether a trial failed since its GPU had no room for it."""
    return bool(record["status"] == "failed" and record["error"]["type"] == OutOfMemory.__name__)


def _on(node: str, soft: bool = False) -> Any:
    """On that node; softly, on another one if it has no room."""
    return ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=soft)
