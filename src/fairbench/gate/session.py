"""The state of a session, which follows from the entries of its ledger alone, and what runs next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, NamedTuple

from fairbench.gate.rules import is_due

Entry = Mapping[str, Any]
"""An entry of a ledger. Its event is "session", "begin", "runs" or "end"."""
FINISHED = "finished"


class Run(NamedTuple):
    """One training run.

    Attributes:
        arm: what ran: "base", "head", "try", or of a prune "stack" or "without COMMIT".
        seed: its seed.
        status: "finished", "diverged" or "failed".
        value: the metric; None unless it finished.
        seconds: its duration; 0 if it failed.
        steps: the training steps that it has reported, or 1.
        error: why it failed; empty if it did not.
    """

    arm: str
    seed: int
    status: str
    value: float | None
    seconds: float = 0.0
    steps: int = 1
    error: str = ""


class Batch(NamedTuple):
    """Runs that come next: every arm with each of some new seeds.

    Attributes:
        arms: the commit of each arm.
        seeds: the number of seeds.
    """

    arms: Mapping[str, str]
    seeds: int


class Keep(NamedTuple):
    """A commit that was kept, and the one that was head before."""

    commit: str
    onto: str


@dataclass(frozen=True)
class Step:
    """A step of the session that has begun.

    Attributes:
        kind: "calibration", "try", "certificate" or "prune".
        arms: the commit of each arm.
        runs: the runs that have ended.
    """

    kind: str
    arms: Mapping[str, str]
    runs: tuple[Run, ...] = ()

    def values(self, arm: str) -> list[float]:
        """The metric of the finished runs of an arm, in their order."""
        return [run.value for run in self.runs if run.arm == arm and run.value is not None]

    @property
    def unfinished(self) -> Run | None:
        """The first run that failed or diverged; None if there is none."""
        for run in self.runs:
            if run.status != FINISHED:
                return run
        return None


@dataclass(frozen=True)
class Session:
    """A session.

    Attributes:
        sign: 1 where higher values of the metric are better, otherwise -1.
        base: the last certified commit.
        head: the last commit that was kept.
        base_values, head_values: the metric of the runs of base and head with which a try is compared.
        std: the standard deviation over seeds; 0 before the calibration.
        seconds: the mean duration of a run of base.
        pending: the keeps since base.
        certified: the keeps in the certified stack.
        keeps: the number of keeps since the last certificate.
        tries: the number of tries after the first of them.
        certificates: the number of certificates that have begun.
        seeds: the number of seeds that were drawn.
        runs: the number of runs.
        step: the step that has begun; None between steps.
    """

    sign: int
    base: str
    head: str
    base_values: Sequence[float] = ()
    head_values: Sequence[float] = ()
    std: float = 0.0
    seconds: float = 0.0
    pending: tuple[Keep, ...] = ()
    certified: tuple[Keep, ...] = ()
    keeps: int = 0
    tries: int = 0
    certificates: int = 0
    seeds: int = 0
    runs: int = 0
    step: Step | None = None

    @property
    def is_due(self) -> bool:
        """Whether the stack is to be certified."""
        return is_due(self.keeps, self.tries)


def after(session: Session, entry: Entry) -> Session:
    """The session after an entry other than its first."""
    if entry["event"] == "begin":
        return _begun(session, entry)
    if entry["event"] == "runs":
        return _with_runs(session, [Run(**run) for run in entry["runs"]])
    return _ended(session, entry)


def _begun(session: Session, entry: Entry) -> Session:
    """The session after the beginning of a step."""
    step = Step(entry["kind"], entry["arms"])
    if step.kind == "certificate":
        return replace(session, step=step, certificates=session.certificates + 1)
    return replace(session, step=step)


def _with_runs(session: Session, runs: Sequence[Run]) -> Session:
    """The session after some runs of the step that has begun."""
    assert session.step is not None
    step = replace(session.step, runs=(*session.step.runs, *runs))
    drawn = {run.seed for run in runs}
    return replace(session, step=step, seeds=session.seeds + len(drawn), runs=session.runs + len(runs))


def _ended(session: Session, entry: Entry) -> Session:
    """The session after the end of a step."""
    step = session.step
    assert step is not None
    verdict = entry["verdict"]
    session = replace(session, step=None)
    if verdict == "calibrated":
        values = step.values("base")
        seconds = fmean(run.seconds for run in step.runs)
        return replace(session, base_values=values, head_values=values, std=entry["std"], seconds=seconds)
    if step.kind == "try":
        return _after_try(session, step, verdict)
    if step.kind == "certificate":
        return _after_certificate(session, step, verdict)
    return session


def _after_try(session: Session, step: Step, verdict: str) -> Session:
    """The session after a try. A commit that was kept is the new head."""
    if session.keeps:
        session = replace(session, tries=session.tries + 1)
    if verdict != "keep":
        return session
    commit = step.arms["try"]
    return replace(
        session,
        head=commit,
        head_values=step.values("try")[1:],
        keeps=session.keeps + 1,
        pending=(*session.pending, Keep(commit, onto=session.head)),
    )


def _after_certificate(session: Session, step: Step, verdict: str) -> Session:
    """The session after a certificate. Its runs count for the means of base and head."""
    session = replace(
        session,
        base_values=[*session.base_values, *step.values("base")],
        head_values=[*session.head_values, *step.values("head")],
        keeps=0,
        tries=0,
    )
    if verdict == "certified":
        return replace(
            session,
            base=session.head,
            base_values=session.head_values,
            certified=(*session.certified, *session.pending),
            pending=(),
        )
    if verdict == "open":
        return session
    return replace(session, head=session.base, head_values=session.base_values, pending=())
