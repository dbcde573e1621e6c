"""What a command of a session shows: as text, as JSON, and by its exit code."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fairbench.common.formatting import number, p_value, percent, plural, short_hash
from fairbench.gate.opened import Gate
from fairbench.gate.page import write_page
from fairbench.gate.repository import commit_of, is_working_tree
from fairbench.gate.rules import ALPHA, SCREENING_RUNS, detectable_gain, level_of, level_spent
from fairbench.gate.session import Session
from fairbench.gate.steps import PastStep, changes_of_stacks, step_seconds
from fairbench.gate.verdicts import most_runs_left
from fairbench.runner.git import WORKING_TREE

EXIT_CODES = {"keep": 0, "calibrated": 0, "certified": 0, "pruned": 0, "failed": 3}
"""The exit code of a command by its verdict; 1 for every other one."""
SLOWER = 1.02
"""A step that takes at least such a multiple of head's time is said to be slower."""
CONTINUED_BY = {
    "calibration": "fairbench gate init",
    "try": "fairbench gate try",
    "certificate": "fairbench gate certify",
    "prune": "fairbench gate prune",
}
"""The command that continues a step."""


@dataclass(frozen=True)
class Shown:
    """The session after a command.

    Attributes:
        values: what `--json` prints.
        text: what a terminal shows.
        exit_code: the exit code of the command.
    """

    values: dict[str, Any]
    text: str
    exit_code: int

    def to_json(self) -> dict[str, Any]:
        """The values of all keys."""
        return self.values

    def __str__(self) -> str:
        return self.text


def shown(gate: Gate, step: PastStep | None = None) -> Shown:
    """The session after a step. The page is written again.

    Args:
        gate: the session.
        step: the step; None for the last one.
    """
    steps = gate.steps
    if step is None:
        step = steps[-1]
    values = _values(gate, steps, step)
    values["page"] = str(write_page(gate.ledger.folder, gate.ledger.facts, gate.session, steps))
    exit_code = EXIT_CODES.get(step.verdict, 1)
    return Shown(values, "\n".join(_lines(gate, steps, step, values)), exit_code)


def _values(gate: Gate, steps: Sequence[PastStep], step: PastStep) -> dict[str, Any]:
    """What `--json` prints of a step and the session, but the page."""
    session = gate.session
    spent = level_spent(session.certificates)
    next_certificate = session.certificates + 1
    interval = None
    if step.ci_low is not None:
        interval = [step.ci_low, step.ci_high]
    seconds = {
        "base": step_seconds(steps, session.base),
        "head": step_seconds(steps, session.head),
        "commit": step_seconds(steps, step.commit),
    }
    return {
        "verdict": step.verdict,
        "commit": step.commit,
        "base": session.base,
        "head": session.head,
        "arms": dict(step.begin["arms"]),
        "values": step.values,
        "head_mean": step.number_of("head_mean"),
        "needed": step.number_of("needed"),
        "gain": step.gain,
        "interval": interval,
        "confidence": step.number_of("confidence"),
        "p": step.p,
        "level": step.level,
        "level_next": level_of(next_certificate),
        "level_spent": spent,
        "level_left": ALPHA - spent,
        "seeds": step.seeds,
        "runs": session.runs,
        "runs_left": most_runs_left(session),
        "detectable": detectable_gain(session.std, next_certificate),
        "step_seconds": seconds,
        "keeps": dict(step.end.get("keeps", {})),
        "next": _next(gate, steps),
        "ledger": str(gate.ledger.path),
    }


def _next(gate: Gate, steps: Sequence[PastStep]) -> str:
    """The command that comes next."""
    session = gate.session
    last = steps[-1]
    if session.step is not None or not session.std:
        return CONTINUED_BY[last.kind]
    if session.is_due:
        return "fairbench gate certify"
    if _is_at_dropped(gate, steps):
        if is_working_tree(gate.repository, session.head):
            return f"git restore --source={session.head} --staged --worktree :/"
        return f"git reset --hard {session.head}"
    return "fairbench gate try"


def _is_at_dropped(gate: Gate, steps: Sequence[PastStep]) -> bool:
    """Whether the checkout is at a try that was not kept. It is not, if the last try is the session's head."""
    tried = [step.commit for step in steps if step.kind == "try"]
    if not tried or tried[-1] == gate.session.head:
        return False
    revision = WORKING_TREE if is_working_tree(gate.repository, tried[-1]) else "HEAD"
    here = commit_of(gate.repository, revision)
    return here in tried and here != gate.session.head


def _lines(gate: Gate, steps: Sequence[PastStep], step: PastStep, values: dict[str, Any]) -> list[str]:
    """The lines of a terminal."""
    session = gate.session
    lines = [f"{step.verdict}: {step.kind} of {short_hash(step.commit)} {step.subject}".rstrip()]
    for text in step.value_texts:
        if not step.runs:
            break  # the step was interrupted before its first runs had ended
        lines.append(f"{gate.ledger.facts['metric']}: {text}{_compared_with(session, step)}")
    if step.end.get("reason"):
        lines.append(f"reason: {step.end['reason']}")
    if step.level is not None and step.gain is not None:
        lines.append(_gain_line(step))
    for change in changes_of_stacks(steps):
        if change.commit in values["keeps"] and change.stack == step.commit:
            lines.append(f"without {short_hash(change.commit)} {change.subject}: {change.verdict}")
    lines += _speed_lines(values["step_seconds"])
    left = percent(values["level_left"])
    pending = plural(len(session.pending), "keep")
    lines.append(f"base {short_hash(session.base)}, head {short_hash(session.head)}, {pending} pending")
    runs = f"{plural(session.runs, 'run')} so far"
    waiting = gate.ended_runs
    if waiting:
        runs += f", and {waiting} of the {step.kind} that was interrupted"
    lines.append(f"{runs}; level left {left} of {percent(ALPHA)}")
    if session.std:
        seen = number(values["detectable"], 2)
        lines.append(f"sd over seeds {number(session.std, 2)}; the next certificate detects a gain of {seen}")
    lines.append(f"page: {values['page']}")
    lines.append(f"next: {values['next']}")
    return lines


def _compared_with(session: Session, step: PastStep) -> str:
    """What the values of a try were compared with; empty for other steps, and before the verdict."""
    head_mean = step.number_of("head_mean")
    needed = step.number_of("needed")
    if head_mean is None or needed is None:
        return ""
    deciding = step.values["try"][:SCREENING_RUNS]
    text = ""
    if len(deciding) > 1:
        text = f", mean of the first {len(deciding)} {fmean(deciding):.6g}"
    side = "above" if session.sign > 0 else "below"
    return f"{text}, head's mean {head_mean:.6g} (needs {side} {needed:.6g})"


def _gain_line(step: PastStep) -> str:
    """The gain of a certificate, with what decided it."""
    line = f"gain {number(step.gain, 3)}"
    if step.ci_low is not None:
        confidence = percent(step.number_of("confidence"))
        line += f", {confidence} interval from {number(step.ci_low, 3)} to {number(step.ci_high, 3)}"
    return f"{line}, p {p_value(step.p)}, level {percent(step.level)}"


def _speed_lines(seconds: dict[str, float | None]) -> list[str]:
    """A line if a training step of the commit takes longer than one of head."""
    ours = seconds["commit"]
    theirs = seconds["head"]
    if not ours or not theirs or ours < SLOWER * theirs:
        return []
    return [f"a training step takes {percent(ours / theirs - 1)} longer than one of head"]
