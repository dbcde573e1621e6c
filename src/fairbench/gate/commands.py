"""The commands of a session: they begin its steps, train them and end them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairbench.api.study import open as open_study
from fairbench.common.errors import UsageError
from fairbench.common.files import remove
from fairbench.common.formatting import short_hash
from fairbench.common.terminal import say
from fairbench.gate.ledger import ABANDONED, Ledger
from fairbench.gate.opened import STUDIES, Gate, changing, locked, read_gate, session_folders
from fairbench.gate.removal import without
from fairbench.gate.repository import (
    check_patterns,
    check_protected,
    commit_of,
    common_folder,
    keep_commit,
    protected_files,
    subject_of,
    tree_of,
)
from fairbench.gate.shown import CONTINUED_BY, Shown, shown
from fairbench.gate.steps import PastStep
from fairbench.gate.verdicts import finish_step, train_step
from fairbench.runner.git import Repository

MAY_GO = ("equivalent", "identical values", "better")
"""The verdicts on a stack without a change, with which the change may go."""
EDITED_AGAIN = "cannot be removed alone: later changes edit the same lines"
VOLATILE = ("nonce", "earlier")
"""The parts of a first entry that are new for each session."""


def init(declared: Mapping[str, Any], patterns: Sequence[str], new: bool, quiet: bool) -> Shown:
    """Begin a session, and calibrate it. An interrupted calibration is continued.

    Args:
        declared: the settings, the metric and its direction, the steps and the metric of the test split.
        patterns: patterns of protected files.
        new: whether a session follows another one of this repository. A session without a calibration has tried
            nothing: one with other options takes its place.
        quiet: whether no progress is shown.

    Raises:
        UsageError: the repository has a session already, or a pattern matches no file.
    """
    repository = Repository.here()
    folder = common_folder(repository)
    with locked(folder):
        folders = session_folders(folder)
        facts = _first_entry(repository, declared, patterns, earlier=len(folders))
        gate = None
        if folders and not new:
            last = read_gate(repository, completes=True)
            gate = _continued(last, facts)
            if gate is None:
                _discard(last)
                folders = folders[:-1]
                facts["earlier"] = len(folders)
        if gate is None:
            ledger = Ledger(folder / str(len(folders) + 1))
            ledger.append(facts)
            gate = Gate(repository, ledger)
            keep_commit(repository, gate.name, facts["base"])
        if gate.session.step is None:
            _begin(gate, "calibration", {"base": gate.session.base}, gate.session.base)
        finish_step(gate.ledger, gate.trainer(quiet))
        return shown(gate)


def _first_entry(
    repository: Repository, declared: Mapping[str, Any], patterns: Sequence[str], earlier: int
) -> dict[str, Any]:
    """The first entry of a session that begins now."""
    base = commit_of(repository, "")
    check_patterns(repository, base, patterns)
    return {
        "event": "session",
        **declared,
        "base": base,
        "folder": repository.prefix,
        "patterns": list(patterns),
        "protected": protected_files(repository, base, patterns),
        "nonce": os.urandom(16).hex(),
        "earlier": earlier,
    }


def _continued(gate: Gate, facts: Mapping[str, Any]) -> Gate | None:
    """The last session, if its calibration is continued; None if another one takes its place."""
    if gate.session.std:
        raise UsageError(
            f"{gate.ledger.folder} is the session of this repository; fairbench gate status shows it, and "
            "fairbench gate init --new begins another one"
        )
    known = gate.ledger.facts
    is_same = all(known[key] == value for key, value in facts.items() if key not in VOLATILE)
    if is_same and gate.session.step is not None:
        return gate
    return None


def _discard(gate: Gate) -> None:
    """Remove a session that has no calibration, and say so.

    The ledger goes first: without it the folder is no session, wherever a crash ends this.
    """
    reason = "has no finished calibration, so that it counts nothing"
    say(f"session {gate.name} {reason}: a new one takes its place", is_error=True)
    gate.ledger.path.unlink()
    remove(gate.ledger.folder)


def try_commit(revision: str, quiet: bool) -> Shown:
    """Train a commit or the working tree, and keep or drop it. An interrupted try of the same commit is continued.

    A commit is tried once. Another try of it shows its verdict, unless the program failed.

    Args:
        revision: the revision; empty for HEAD, or the working tree if a tracked file differs.
        quiet: whether no progress is shown.

    Raises:
        UsageError: another step was interrupted, the commit changes a protected file, or it is the same as head.
    """
    with changing() as gate:
        commit = commit_of(gate.repository, revision)
        step = gate.session.step
        if step is not None and step.kind == "try" and step.arms["try"] != commit:
            gate.ledger.append({"event": "end", "verdict": ABANDONED})
        _check_no_other(gate, "try")
        if gate.session.step is None:
            earlier = _verdict_on(gate, commit)
            if earlier is not None:
                return shown(gate, earlier)
            _check_try(gate, commit)
            keep_commit(gate.repository, gate.name, commit)
            _begin(gate, "try", {"try": commit}, commit)
        finish_step(gate.ledger, gate.trainer(quiet))
        return shown(gate)


def _verdict_on(gate: Gate, commit: str) -> PastStep | None:
    """The try that has kept or dropped a commit; None without one."""
    for step in gate.steps:
        if step.kind == "try" and step.commit == commit and step.verdict in ("keep", "drop"):
            return step
    return None


def _check_try(gate: Gate, commit: str) -> None:
    """Raise `UsageError` if a commit cannot be tried."""
    check_protected(gate.repository, commit, gate.ledger.facts)
    if tree_of(gate.repository, commit) == tree_of(gate.repository, gate.session.head):
        raise UsageError(f"{short_hash(commit)} has the same files as head; commit a change, or name another commit")


def certify(quiet: bool) -> Shown:
    """Compare head with base, both trained now with fresh seeds. An interrupted certificate is continued.

    If nothing was kept since the last certificate, that one is shown again.

    Args:
        quiet: whether no progress is shown.

    Raises:
        UsageError: another step was interrupted, or nothing was kept since base.
    """
    with changing() as gate:
        _check_no_other(gate, "certificate")
        session = gate.session
        if session.step is None:
            last = gate.steps[-1]
            if not session.pending and last.kind == "certificate":
                return shown(gate, last)
            if not session.pending:
                raise UsageError(
                    "nothing was kept since base, so there is nothing to certify; fairbench gate try first"
                )
            _begin(gate, "certificate", {"base": session.base, "head": session.head}, session.head)
        finish_step(gate.ledger, gate.trainer(quiet, certifies=True))
        return shown(gate)


def prune(margin: float, quiet: bool) -> Shown:
    """Remove each change alone from the certified stack, and say which may go. An interrupted prune is continued.

    Args:
        margin: the largest difference of the metric that does not matter.
        quiet: whether no progress is shown.

    Raises:
        UsageError: another step was interrupted, nothing is certified, or no change can be removed alone.
    """
    with changing() as gate:
        _check_no_other(gate, "prune")
        if gate.session.step is None:
            _begin_prune(gate, margin)
        step = gate.steps[-1]
        if step.begin["margin"] != margin:
            raise UsageError(f"--margin {margin:g}: the interrupted prune has {step.begin['margin']:g}; give that one")
        train_step(gate.ledger, gate.trainer(quiet, margin=margin))
        step = gate.steps[-1]
        keeps = {**_verdicts(gate, step), **dict.fromkeys(step.begin["edited_again"], EDITED_AGAIN)}
        gate.ledger.append({"event": "end", "verdict": "pruned", "keeps": keeps})
        return shown(gate)


def _begin_prune(gate: Gate, margin: float) -> None:
    """Begin a prune: an arm for the stack, and one without each change that can be removed alone."""
    session = gate.session
    if not session.certified:
        raise UsageError("no stack is certified, so there is nothing to prune; fairbench gate certify first")
    arms = {"stack": session.base}
    edited_again = []
    for keep in session.certified:
        commit = without(gate.repository, session.base, keep)
        if commit is None:
            edited_again.append(keep.commit)
            continue
        keep_commit(gate.repository, gate.name, commit)
        arms[_arm_without(keep.commit)] = commit
    if len(arms) == 1:
        raise UsageError("no change can be removed alone from the stack: each is changed again by a later one")
    _begin(gate, "prune", arms, session.base, margin=margin, edited_again=edited_again)


def _arm_without(commit: str) -> str:
    """The name of the stack without a change."""
    return f"without {short_hash(commit)}"


def _verdicts(gate: Gate, step: PastStep) -> dict[str, str]:
    """The verdict on the stack without each change that was removed alone, by the verdicts of the study."""
    found = {}
    study = open_study(gate.ledger.folder / STUDIES / str(step.seeds[0]))
    for comparison in study.verdicts():
        for keep in gate.session.certified:
            if comparison.optimizer == _arm_without(keep.commit):
                verdict = str(comparison.verdict)
                if verdict in MAY_GO:
                    verdict += ", so it may go"
                found[keep.commit] = verdict
    return found


def _check_no_other(gate: Gate, kind: str) -> None:
    """Raise `UsageError` if a step of another kind was interrupted."""
    step = gate.session.step
    if step is not None and step.kind != kind:
        raise UsageError(f"a {step.kind} was interrupted; {CONTINUED_BY[step.kind]} continues it")


def _begin(gate: Gate, kind: str, arms: Mapping[str, str], commit: str, **facts: Any) -> None:
    """Begin a step. `commit` is the one that it is about."""
    subject = subject_of(gate.repository, commit)
    gate.ledger.append({"event": "begin", "kind": kind, "arms": dict(arms), "subject": subject, **facts})


def status() -> Shown:
    """The session after its last step. Nothing is changed."""
    return replace(shown(read_gate(Repository.here(), completes=False)), exit_code=0)


def steps() -> list[PastStep]:
    """The steps of the session. Nothing is changed."""
    return read_gate(Repository.here(), completes=False).steps
