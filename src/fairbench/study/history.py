"""The plans that an output directory has seen: what was declared, when, and how much could be known by then."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

from fairbench.common.errors import UsageError
from fairbench.common.files import write_atomically
from fairbench.common.hashing import digest
from fairbench.runner.coordination.liveness import EXPIRY
from fairbench.runner.coordination.status import Word
from fairbench.study.plan import Study
from fairbench.study.records import Store
from fairbench.suites.schema import Suite

FILE = "config.json"
TOUCHES_NO_VERDICT = ("description", "trial_timeout", "checkpoint_every")
"""What of a suite may be changed at any time."""
ABSENT = "nothing"
"""Stands where a plan has no such entry."""


@dataclass(frozen=True)
class Plan:
    """A study as it was declared.

    Attributes:
        study: the study.
        declared: when, in UTC, ISO 8601.
        final_trials: how many final trials had a record by then, of this plan or of any other.
    """

    study: Study
    declared: str
    final_trials: int


@dataclass(frozen=True)
class Change:
    """An entry that is not the same in two plans.

    Attributes:
        path: where it stands, "suite.alpha".
        before: its value in the first plan.
        after: its value in the second.
    """

    path: str
    before: Any
    after: Any

    def __str__(self) -> str:
        """The change in words."""
        return f"{self.path}: {self.before} -> {self.after}"


@dataclass(frozen=True)
class History:
    """The plans of an output directory.

    Attributes:
        plans: the plans, the oldest first; the last one is in force.
        frozen: digest of the plan that may not be changed; empty while any may.
    """

    plans: tuple[Plan, ...] = ()
    frozen: str = ""

    @property
    def study(self) -> Study:
        """The study of the plan in force."""
        return self.plans[-1].study

    @property
    def declared(self) -> Plan | None:
        """The last plan that was made before any final trial had a record; None if there is none on record."""
        return next((plan for plan in reversed(self.plans) if plan.final_trials == 0), None)

    @property
    def late(self) -> list[tuple[Plan, list[Change]]]:
        """The plans that were made after the first final trial, each with what it changed."""
        pairs = pairwise(self.plans)
        return [(new, changes(promise(old.study), promise(new.study))) for old, new in pairs if new.final_trials]

    def declare(self, study: Study, now: str, final_trials: int) -> "History":
        """The history with a study in force: a new plan, or the old one if nothing changes that verdicts depend on.

        The old one keeps its environment, whichever of several machines declares it again; records have their own.

        Raises:
            UsageError: the plan is frozen, and the study is another one.
        """
        if self.plans and not (differing := changes(promise(self.study), promise(study))):
            same = replace(study, environment=self.study.environment)
            return replace(self, plans=(*self.plans[:-1], replace(self.plans[-1], study=same)))
        if self.frozen:
            listed = "".join(f"\n  {change}" for change in differing)
            raise UsageError(
                f"the plan of this directory is frozen, but this run would change{listed}\n"
                "run it as it was frozen, or choose another --output-dir"
            )
        return replace(self, plans=(*self.plans, Plan(study, now, final_trials)))

    def freeze(self, final_trials: int) -> "History":
        """The history with the plan in force for good.

        Args:
            final_trials: how many final trials have a record by now.

        Raises:
            UsageError: there are some, and the plan is not frozen yet.
        """
        if final_trials and not self.frozen:
            raise UsageError(f"{final_trials} final trials have a record already; freeze a plan before the first one")
        return replace(self, frozen=digest(promise(self.study)))

    def to_json(self) -> dict[str, Any]:
        """The history as plain JSON values."""
        plans = [{**vars(plan), "study": plan.study.to_json()} for plan in self.plans]
        return {"frozen": self.frozen, "plans": plans}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: str) -> "History":
        """The history that `to_json` wrote; errors call it `where`."""
        plans = [Plan(**{**plan, "study": Study.from_json(plan["study"], where)}) for plan in value["plans"]]
        history = cls(tuple(plans), value["frozen"])
        if not plans or (history.frozen and history.frozen != digest(promise(history.study))):
            raise ValueError("its plan is not the one that was frozen" if plans else "it has no plan")
        return history


def promise(study: Study) -> dict[str, Any]:
    """What of a study its verdicts depend on, as plain JSON values: not its description, nor the machine."""
    value: dict[str, Any] = json.loads(json.dumps(study.to_json()))
    suite = {key: item for key, item in value["suite"].items() if key not in TOUCHES_NO_VERDICT}
    arenas = {name: {**arena, "starts": None} for name, arena in value["arenas"].items()}  # they follow from the code
    return {"suite": suite, "device": value["device"], "arenas": arenas, "optimizers": value["optimizers"]}


def changes(old: Any, new: Any, path: str = "") -> list[Change]:
    """What differs between two trees of plain JSON values, entry by entry."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = dict.fromkeys([*old, *new])
        deeper = (changes(old.get(key, ABSENT), new.get(key, ABSENT), f"{path}.{key}".lstrip(".")) for key in keys)
        return [change for each in deeper for change in each]
    return [] if old == new else [Change(path, _brief(old), _brief(new))]


def _brief(value: Any) -> Any:
    """A value as a change shows it; of a whole table only that it is there."""
    return "a table" if isinstance(value, dict) else value


def read_history(directory: Path) -> History:
    """The history of an output directory; empty if there is none yet.

    Raises:
        UsageError: the file is damaged.
    """
    path = directory / FILE
    try:
        return History.from_json(json.loads(path.read_text()), str(path))
    except FileNotFoundError:
        return History()
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        reason = f"damaged {path} ({type(error).__name__}: {error})"
        raise UsageError(f"{reason}; move it away and run the same suite again: finished trials are kept") from error


def write_history(directory: Path, history: History) -> None:
    """Write the history of an output directory."""
    write_atomically(directory / FILE, json.dumps(history.to_json(), indent=1) + "\n")


def declared(study: Study, store: Store, others: Sequence[Word], freeze: bool = False) -> History:
    """The history of a directory with a study in force; nothing is written.

    Args:
        study: the study.
        store: its records.
        others: who runs trials there.
        freeze: whether nobody may change the plan from now on.

    Raises:
        UsageError: the directory holds another suite, or another plan that is frozen or run by somebody; or it shall be
            frozen and has final trials.
    """
    directory = store.directory
    history = read_history(directory)
    check_directory(study.suite, directory, history)
    if history.plans and others and (differing := changes(promise(history.study), promise(study))):
        listed = "".join(f"\n  {change}" for change in differing)
        raise UsageError(
            f"{_named(others)} runs the plan of {directory}, which this run would change{listed}\n"
            "wait until it has ended, or choose another --output-dir; "
            f"if it was lost with its machine, that is known after {EXPIRY:.0f} s"
        )
    final_trials = store.final_trials()
    history = history.declare(study, now(), final_trials)
    return history.freeze(final_trials) if freeze else history


def put_in_force(history: History, directory: Path) -> None:
    """Write a history into its directory, unless it stands there."""
    if read_history(directory) != history:
        write_history(directory, history)


def check_directory(suite: Suite, directory: Path, history: History) -> None:
    """Refuse to mix two suites in one output directory.

    Raises:
        UsageError: the directory holds another suite's study.
    """
    if history.plans and (held := history.study.suite.name) != suite.name:
        raise UsageError(f"{directory} holds suite {held!r}, not {suite.name!r}; choose another --output-dir")


def _named(others: Sequence[Word]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return f"the driver {others[0].who}{more}"


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
