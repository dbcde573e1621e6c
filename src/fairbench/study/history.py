"""The plans of an output directory: what was declared, when, and how many final results existed by then."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict

from fairbench.common.coercion import build
from fairbench.common.errors import UsageError
from fairbench.common.files import stamp, write_atomically
from fairbench.common.hashing import digest, without_defaults
from fairbench.common.reading import Damaged, read_json, read_text
from fairbench.study.folder import CONFIG
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.suites.schema import Suite

TOUCHES_NO_VERDICT = ("description", "trial_timeout", "checkpoint_every", "first_steps")
"""Keys of a suite that may be changed at any time."""
ABSENT = "nothing"
"""Shown in place of an entry that one of two plans does not have."""


@dataclass(frozen=True, repr=False)
class DeclaredPlan:
    """A study as it was declared at a time (UTC, ISO 8601).

    `final_trials` is the number of final trials, of any plan, that had a record at that time.
    """

    study: ResolvedSuite
    declared: str
    final_trials: int

    def __repr__(self) -> str:
        return f"<DeclaredPlan of {self.study.suite.name}, declared {self.declared}>"


class _StoredPlan(TypedDict):
    study: dict[str, Any]
    declared: str
    final_trials: int


class _StoredHistory(TypedDict):
    plans: list[_StoredPlan]
    frozen: str


@dataclass(frozen=True)
class Change:
    """An entry that differs between two plans. Its path has the form "suite.alpha"."""

    path: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.path}: {self.before} -> {self.after}"


@dataclass(frozen=True)
class History:
    """The plans of an output directory. The last one is in force. `frozen` is the digest of a plan that must stay."""

    plans: tuple[DeclaredPlan, ...] = ()
    frozen: str = ""

    @property
    def study(self) -> ResolvedSuite:
        """The study of the plan in force."""
        return self.plans[-1].study

    @property
    def declared(self) -> DeclaredPlan | None:
        """The last plan that was declared before any final trial had a record; None without one."""
        for plan in reversed(self.plans):
            if plan.final_trials == 0:
                return plan
        return None

    @property
    def late(self) -> list[tuple[DeclaredPlan, list[Change]]]:
        """The plans that were declared after the first final trial, each with its changes from the plan before."""
        late = []
        for old, new in pairwise(self.plans):
            if new.final_trials:
                late.append((new, changes(locked_settings(old.study), locked_settings(new.study))))
        return late

    def changes_by(self, study: ResolvedSuite) -> list[Change]:
        """What a study changes in the plan in force; empty without a plan."""
        if not self.plans:
            return []
        return changes(locked_settings(self.study), locked_settings(study))

    def declare(self, study: ResolvedSuite, now: str, final_trials: int) -> "History":
        """The history with a study in force: as a new plan, or as the old plan if no verdict depends on the changes.

        The old plan keeps its environment when a different machine declares it again, since each record has the
        environment of its trial, and the revisions of its programs, since a commit may change other files. Raises
        `UsageError` if the plan is frozen, and the study changes it.
        """
        differing = self.changes_by(study)
        if self.plans and not differing:
            earlier_study = self.study
            same = replace(
                study, environment=earlier_study.environment, program_revisions=earlier_study.program_revisions
            )
            *earlier, last = self.plans
            return replace(self, plans=(*earlier, replace(last, study=same)))
        if self.frozen:
            raise UsageError(
                f"the plan of this directory is frozen, but this run would change{listed(differing, study.suite)}\n"
                "run it as it was frozen, or choose another --output-dir"
            )
        new = DeclaredPlan(study, declared=now, final_trials=final_trials)
        return replace(self, plans=(*self.plans, new))

    def freeze(self, final_trials: int) -> "History":
        """The history with the current plan frozen. Raises `UsageError` if a final trial has a record already."""
        if final_trials and not self.frozen:
            raise UsageError(f"{final_trials} final trials have a record already; freeze a plan before the first one")
        return replace(self, frozen=plan_digest(self.study))

    def to_json(self) -> dict[str, Any]:
        """The history as plain JSON values, which `from_json` reads."""
        plans = [{**vars(plan), "study": plan.study.to_json()} for plan in self.plans]
        return {"frozen": self.frozen, "plans": plans}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: str) -> "History":
        """Read the history that `to_json` wrote. Error messages name it `where`. Raises ValueError for other values."""
        stored = build(_StoredHistory, value, ())
        plans = []
        for plan in stored["plans"]:
            study = ResolvedSuite.from_json(plan["study"], where)
            parts: dict[str, Any] = {**plan, "study": study}
            plans.append(DeclaredPlan(**parts))
        for declared_plan in plans:
            if datetime.fromisoformat(declared_plan.declared).year < 2000:
                raise ValueError(f"a plan was declared in {declared_plan.declared}")
        if not plans:
            raise ValueError("it has no plan")
        history = cls(tuple(plans), stored["frozen"])
        if history.frozen and history.frozen != plan_digest(history.study):
            raise ValueError("its plan is not the one that was frozen")
        return history


def locked_settings(study: ResolvedSuite) -> dict[str, Any]:
    """The parts of a study that its verdicts depend on, as plain JSON values."""
    return _locked(study.to_json())


def plan_digest(study: ResolvedSuite) -> str:
    """The name of a plan in records: sha256 of its locked settings without defaults, so that it survives a new key."""
    return digest(_locked(without_defaults(study)))


def _locked(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The locked settings in the plain values of a study, which are copied."""
    study: dict[str, Any] = json.loads(json.dumps(plain))
    suite = {key: item for key, item in study["suite"].items() if key not in TOUCHES_NO_VERDICT}
    arenas = study["arenas"]
    for arena in arenas.values():
        # both follow from the other settings of the arena
        arena["starts"] = None
        arena.pop("shared", None)
    return {"suite": suite, "device": study["device"], "arenas": arenas, "optimizers": study["optimizers"]}


def changes(old: Any, new: Any, path: str = "") -> list[Change]:
    """The entries that differ between two trees of plain JSON values, both of which are found at `path`."""
    if isinstance(old, dict) and isinstance(new, dict):
        differing = []
        for key in dict.fromkeys([*old, *new]):
            inner_path = f"{path}.{key}".lstrip(".")
            differing += changes(old.get(key, ABSENT), new.get(key, ABSENT), inner_path)
        return differing
    if old == new:
        return []
    return [Change(path, _shown(old), _shown(new))]


def _shown(value: Any) -> Any:
    """A value as messages show it. A whole table would be too long."""
    return "a table" if isinstance(value, dict) else value


def listed(differing: list[Change], suite: Suite) -> str:
    """Changes as a text with a line for each, in the words of a suite."""
    return suite.wording.text("".join(f"\n  {change}" for change in differing))


def read_history(directory: Path) -> History:
    """Read the history of an output directory; it is empty if the directory has none."""
    if directory.is_file():
        raise UsageError(f"{directory} is a file, not the directory of a study; give another path")
    path = directory / CONFIG
    try:
        state = tuple(stamp(path.stat()))
    except OSError:  # the file is absent, or reading it gives the reason
        state = ()
    read = _parsed(path, state)
    if isinstance(read, Damaged):
        remedy = "move it away and run the same suite again: finished trials are kept"
        raise UsageError(read.text("configuration", remedy))
    return read or History()


@lru_cache(maxsize=1)
def _parsed(path: Path, state: tuple[int, ...]) -> History | Damaged | None:
    """The history in a file, parsed once for each state of the file, since many parts of a run ask for it."""
    return read_json(path, lambda value: History.from_json(value, str(path)))


def write_history(directory: Path, history: History) -> None:
    """Write the history of an output directory, unless its file has that content already."""
    path = directory / CONFIG
    text = json.dumps(history.to_json(), indent=1) + "\n"
    if read_text(path) != text:
        write_atomically(path, text)
