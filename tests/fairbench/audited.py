"""What the audit says of a study, and a bench on which small studies really run."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fabricated import history
from tiny import TINY, here, write_tiny

from fairbench.analysis.analyse import analyse
from fairbench.common.checks import Flag
from fairbench.runner.executors.base import failure
from fairbench.runner.preflight import run_preflight
from fairbench.study.history import History
from fairbench.study.plan import Study, arms
from fairbench.study.records import Record
from fairbench.study.schedule import Schedule
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.loader import load_suite
from fairbench.training.place import Place
from fairbench.training.trial import trial


def found(the_study: Study, records: Callable[[TrialSpec], Record | None], plans: History | None = None) -> list[Flag]:
    plans = plans or history(the_study)
    return list(analyse(plans, records).flags)


def names(flags: Sequence[Flag]) -> set[str]:
    return {flag.name for flag in flags}


def evidence(flags: Sequence[Flag], name: str) -> str:
    (flag,) = [flag for flag in flags if flag.name == name]
    return flag.evidence


def specs(the_study: Study, records: Callable[[TrialSpec], Record | None]) -> list[TrialSpec]:
    """Every trial of a study."""
    return [spec for arm in arms(the_study, records) for spec in (*arm.sweep, *arm.final)]


class Bench:
    """Trials that really ran, in this process; one that several studies share ran once."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.records = folder, dict[str, Record]()
        self.tiny = load_suite(str(write_tiny(folder, TINY.replace("steps = 40", "steps = 12"))))

    def __call__(self, spec: TrialSpec) -> Record | None:
        return self.records.get(spec.id)

    def run(self, **changed: Any) -> Study:
        """The study of the tiny suite with other entries, every trial of it on record."""
        place = Place(data_root=str(self.folder), alone=False)
        the_study = run_preflight(replace(self.tiny, **changed), place, forgetful).study
        schedule = Schedule(the_study, self)
        while spec := schedule.next():
            self.records[spec.id] = _record(spec, place)
            schedule.ended(spec)
        return the_study


def forgetful(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function in this process; what it does to torch is forgotten, as if it had had one of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "randn", torch.randn)
        return here(function, *arguments)


def _record(spec: TrialSpec, place: Place) -> Record:
    try:
        record: Record = forgetful(trial, spec, place)
    except ArithmeticError as error:
        record = failure(spec, type(error).__name__, str(error), "")
    return record
