"""The steps of a session as its ledger tells them, for the log and the page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairbench.gate.session import Entry, Run

SUBJECTS = {"calibration": "base", "try": "try", "certificate": "head", "prune": "stack"}
"""The arm that each kind of step is about."""


@dataclass
class PastStep:
    """A step of a session.

    Attributes:
        number: its number in the session, from 1.
        begin: the entry with which it began.
        runs: its runs.
        end: the entry with which it ended; empty if it has not ended.
    """

    number: int
    begin: Entry
    runs: list[Run] = field(default_factory=list)
    end: Entry = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """What it is: "calibration", "try", "certificate" or "prune"."""
        return str(self.begin["kind"])

    @property
    def commit(self) -> str:
        """The commit that it is about."""
        return str(self.begin["arms"][SUBJECTS[self.kind]])

    @property
    def subject(self) -> str:
        """The first line of the message of that commit."""
        return str(self.begin["subject"])

    @property
    def verdict(self) -> str:
        """Its verdict, or "not ended"."""
        return str(self.end.get("verdict", "not ended"))

    @property
    def values(self) -> dict[str, list[float]]:
        """The metric of the finished runs of each arm, in their order."""
        values: dict[str, list[float]] = {arm: [] for arm in self.begin["arms"]}
        for run in self.runs:
            if run.value is not None:
                values[run.arm].append(run.value)
        return values

    @property
    def seeds(self) -> list[int]:
        """The seeds of its runs."""
        return list(dict.fromkeys(run.seed for run in self.runs))

    def number_of(self, key: str) -> float | None:
        """A number of its verdict, such as "gain"; None without one."""
        return self.end.get(key)

    @property
    def gain(self) -> float | None:
        """The mean gain of a certificate; that of the runs that decided a try."""
        return self.number_of("gain")

    @property
    def ci_low(self) -> float | None:
        """The lower end of the interval of the gain."""
        return self.number_of("low")

    @property
    def ci_high(self) -> float | None:
        """The upper end of the interval of the gain."""
        return self.number_of("high")

    @property
    def p(self) -> float | None:
        """The p-value of a certificate."""
        return self.number_of("p")

    @property
    def level(self) -> float | None:
        """The level of a certificate."""
        return self.number_of("level")

    @property
    def value_texts(self) -> list[str]:
        """The metric of the runs of each arm; those of a certificate or a prune with the arm."""
        texts = []
        for arm, values in self.values.items():
            listed = " ".join(format(value, ".6g") for value in values)
            if len(self.values) > 1:
                listed = f"{arm}: {listed}"
            texts.append(listed)
        return texts

    @property
    def value_text(self) -> str:
        """The metric of all runs in one line."""
        return "; ".join(self.value_texts)

    def step_seconds(self, commit: str) -> float | None:
        """The mean duration of a training step of a commit; None if no run of it has finished here."""
        arms = [arm for arm, other in self.begin["arms"].items() if other == commit]
        timed = [run for run in self.runs if run.arm in arms and run.seconds]
        if not timed:
            return None
        return sum(run.seconds for run in timed) / sum(run.steps for run in timed)


def steps_of(entries: Iterable[Entry]) -> list[PastStep]:
    """The steps of a session, by the entries of its ledger."""
    steps: list[PastStep] = []
    for entry in entries:
        if entry["event"] == "begin":
            steps.append(PastStep(len(steps) + 1, entry))
        elif entry["event"] == "runs":
            steps[-1].runs += [Run(**run) for run in entry["runs"]]
        elif entry["event"] == "end":
            steps[-1].end = entry
    return steps


@dataclass(frozen=True)
class ChangeOfStack:
    """A change that a prune has removed alone from a stack.

    Attributes:
        stack: the commit of the stack.
        commit: the commit of the change.
        subject: the first line of the message of that commit.
        verdict: the verdict on the stack without it, in words.
    """

    stack: str
    commit: str
    subject: str
    verdict: str


def changes_of_stacks(steps: Iterable[PastStep]) -> list[ChangeOfStack]:
    """The changes of all prunes of a session. Where a stack was pruned twice, the last prune counts."""
    changes: dict[tuple[str, str], ChangeOfStack] = {}
    subjects: dict[str, str] = {}
    for step in steps:
        subjects[step.commit] = step.subject
        for commit, verdict in step.end.get("keeps", {}).items():
            changes[step.commit, commit] = ChangeOfStack(step.commit, commit, subjects[commit], verdict)
    return list(changes.values())


def step_seconds(steps: Sequence[PastStep], commit: str) -> float | None:
    """The duration of a training step of a commit when it was trained last; None if no run of it has finished."""
    for step in reversed(steps):
        seconds = step.step_seconds(commit)
        if seconds is not None:
            return seconds
    return None


def certified_of(steps: Iterable[PastStep]) -> list[PastStep]:
    """The certificates that were passed: the ladder."""
    return [step for step in steps if step.verdict == "certified"]


LOG = ("step", "kind", "commit", "verdict", "values", "gain", "low", "high", "p", "level", "subject")
"""The columns of the log."""


def log_row(step: PastStep) -> dict[str, Any]:
    """The row of a step in the log."""
    cells = (
        step.number,
        step.kind,
        step.commit,
        step.verdict,
        step.value_text,
        step.gain,
        step.ci_low,
        step.ci_high,
        step.p,
        step.level,
        step.subject,
    )
    return dict(zip(LOG, cells, strict=True))
