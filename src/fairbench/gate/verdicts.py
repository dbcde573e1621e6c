"""What runs next in a step of a session, and the verdict with which the step ends."""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean, stdev
from typing import Any, Protocol

from fairbench.gate.rules import (
    CALIBRATION_RUNS,
    PAIRS,
    SCREENING_RUNS,
    InterimResult,
    has_ended,
    judge_pairs,
    level_of,
    needed,
    passes,
)
from fairbench.gate.session import Batch, Entry, Run, Session, Step

SEEDLESS = "every seed gives the same value: pass {seed} to the program, or give --seed-env"


def next_batch(session: Session) -> Batch | None:
    """The runs that come next in the step that has begun; None if its verdict is known."""
    step = session.step
    assert step is not None
    if step.unfinished:
        return None
    if step.kind == "try":
        return _next_of_try(session, step)
    wanted = {"calibration": CALIBRATION_RUNS, "certificate": PAIRS[0], "prune": PAIRS[-1]}
    if not step.runs:
        return Batch(step.arms, wanted[step.kind])
    if step.kind == "certificate" and not has_ended(_interim_result(session, step)):
        return Batch(step.arms, PAIRS[-1] - PAIRS[0])
    return None


def _next_of_try(session: Session, step: Step) -> Batch | None:
    """The next run of a try; None if it is dropped, or has had all its runs."""
    values = step.values("try")
    if len(values) > SCREENING_RUNS:
        return None
    if values and not passes(values, session.head_values, session.std, session.sign):
        return None
    return Batch(step.arms, 1)


def _interim_result(session: Session, step: Step) -> InterimResult:
    """What the certificate that has begun says with its pairs."""
    return judge_pairs(step.values("base"), step.values("head"), session.sign, level_of(session.certificates))


def end_of(session: Session) -> dict[str, Any]:
    """The entry that ends the step that has begun, with its verdict."""
    step = session.step
    assert step is not None
    ends = {"calibration": _end_of_calibration, "try": _end_of_try, "certificate": _end_of_certificate}
    return {"event": "end", **ends[step.kind](session, step)}


def _end_of_calibration(session: Session, step: Step) -> dict[str, Any]:
    """The verdict of a calibration: "calibrated", or "failed"."""
    if step.unfinished:
        return {"verdict": "failed", "reason": _reason(step.unfinished)}
    values = step.values("base")
    if len(set(values)) == 1:
        return {"verdict": "failed", "reason": SEEDLESS}
    return {"verdict": "calibrated", "mean": fmean(values), "std": stdev(values)}


def _end_of_try(session: Session, step: Step) -> dict[str, Any]:
    """The verdict of a try: "keep", "drop", or "failed" if the program failed, with what its values were compared with.

    The gain is that of the runs that decide: a third run of a keep does not count.
    """
    head = session.head_values
    facts: dict[str, Any] = {"head_mean": fmean(head), "needed": needed(head, session.std, session.sign)}
    unfinished = step.unfinished
    if unfinished:
        verdict = "failed" if unfinished.status == "failed" else "drop"
        return {"verdict": verdict, "reason": _reason(unfinished), **facts}
    facts["gain"] = session.sign * (fmean(step.values("try")[:SCREENING_RUNS]) - facts["head_mean"])
    if len(step.runs) > SCREENING_RUNS:
        return {"verdict": "keep", **facts}
    return {"verdict": "drop", **facts}


def _reason(unfinished: Run) -> str:
    """Why a step ends with a run that has not finished."""
    return f"a run {unfinished.status}"


def _end_of_certificate(session: Session, step: Step) -> dict[str, Any]:
    """The verdict of a certificate: "certified", "open", "back", or "failed" if the program failed."""
    number = session.certificates
    facts = {"certificate": number, "level": level_of(number)}
    unfinished = step.unfinished
    if unfinished:
        verdict = "back"
        if unfinished.status == "failed":
            verdict = "failed"
        return {"verdict": verdict, "reason": _reason(unfinished), **facts}
    found = _interim_result(session, step)
    verdict = "open"
    if found.certified:
        verdict = "certified"
    elif found.gain <= 0:
        verdict = "back"
    return {"verdict": verdict, **facts, **asdict(found)}


def most_runs_left(session: Session) -> int:
    """The most runs that the step that has begun still needs; between steps, those of the next one."""
    if session.step is None:
        if session.is_due:
            return 2 * PAIRS[-1]
        return SCREENING_RUNS + 1
    step = session.step
    wanted = {"calibration": CALIBRATION_RUNS, "try": SCREENING_RUNS + 1, "certificate": PAIRS[-1], "prune": PAIRS[-1]}
    return wanted[step.kind] * len(step.arms) - len(step.runs)


class Train(Protocol):
    """Trains each arm with each seed, and returns the runs."""

    def __call__(self, batch: Batch, seeds: Sequence[int]) -> Sequence[Run]: ...


class Book(Protocol):
    """A session whose entries are kept."""

    @property
    def session(self) -> Session:
        """The session after the last entry."""

    def next_seeds(self, count: int) -> list[int]:
        """The next seeds, which no run has had."""

    def append(self, entry: Entry) -> None:
        """Keep a further entry."""


def train_step(book: Book, train: Train) -> None:
    """Train the step that has begun until its verdict is known."""
    while batch := next_batch(book.session):
        runs = train(batch, book.next_seeds(batch.seeds))
        book.append({"event": "runs", "runs": [run._asdict() for run in runs]})


def finish_step(book: Book, train: Train) -> Entry:
    """Train the step that has begun, and end it. Returns the entry with its verdict."""
    train_step(book, train)
    end = end_of(book.session)
    book.append(end)
    return end
