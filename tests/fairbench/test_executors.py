"""Executors: equal results everywhere; what goes wrong stays in its trial."""

from pathlib import Path
from typing import Any

import pytest

from fairbench.executors import Executor
from fairbench.executors.processes import ProcessExecutor
from fairbench.executors.serial import SerialExecutor
from fairbench.plan import Study, arms, missing
from fairbench.spec import TrialSpec
from fairbench.suite import OptimizerPlan, Suite

pytestmark = pytest.mark.xdist_group("libraries")  # one worker imports what studies need, and one server of processes

PRELOAD = ["fairbench.trial", "fairbench.arenas.vit"]


def run_all(executor: Executor, suite: Suite) -> tuple[Study, dict[str, dict[str, Any]]]:
    """Run the trials of the sweep; the records by label."""
    records = {}
    with executor:
        study = executor.resolve(suite, "cpu")
        waiting: list[TrialSpec] = list(missing(arms(study, lambda spec: None), lambda spec: None))
        labels = {spec.id: spec.label for spec in waiting}
        while len(records) < len(labels):
            while waiting and executor.has_room():
                executor.submit(waiting.pop(0))
            for record in executor.collect():
                records[labels[record["id"]]] = record
    return study, records


def own(suite: Suite, *names: str) -> Suite:
    """The suite with own optimizers in the place of its own."""
    plans = {name: OptimizerPlan(factory=f"own_optimizers:{name}") for name in names}
    return Suite(**{**vars(suite), "optimizers": plans, "reference": names[0]})


def test_processes_and_this_process_give_bitwise_equal_results(tiny_suite: Suite) -> None:
    told: list[int] = []
    _, serial = run_all(SerialExecutor(lambda spec, step, loss: told.append(step)), tiny_suite)
    _, parallel = run_all(ProcessExecutor(2, lambda spec, step, loss: told.append(step), PRELOAD), tiny_suite)
    assert serial.keys() == parallel.keys()
    for label, record in serial.items():
        for part in ("id", "spec", "status", "result", "error", "environment"):
            assert record[part] == parallel[label][part]
    assert sorted(told) == sorted([5, 10] * 8)


def test_failures_stay_in_their_trial(tiny_suite: Suite, tiny_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tiny_file.parent)
    monkeypatch.syspath_prepend(tiny_file.parent)
    suite = own(tiny_suite, "Signs", "Raises", "Dies")
    _, records = run_all(ProcessExecutor(2, lambda spec, step, loss: None, PRELOAD), suite)
    outcome = {label.replace(" sweep seed 0", ""): record["status"] for label, record in records.items()}
    assert outcome == {
        "vit Signs lr=0.001": "finished", "vit Signs lr=0.01": "finished",
        "vit Raises lr=0.001": "finished", "vit Raises lr=0.01": "failed",
        "vit Dies lr=0.001": "finished", "vit Dies lr=0.01": "failed",
    }  # fmt: skip
    raised = records["vit Raises lr=0.01 sweep seed 0"]["error"]
    assert (raised["type"], raised["message"]) == ("ArithmeticError", "this optimizer cannot go on")
    assert "own_optimizers.py" in raised["traceback"]
    assert "killed" in records["vit Dies lr=0.01 sweep seed 0"]["error"]["message"]


def test_an_idle_worker_that_died_is_replaced(tiny_suite: Suite) -> None:
    with ProcessExecutor(1, lambda spec, step, loss: None, PRELOAD) as executor:
        study = executor.resolve(tiny_suite, "cpu")
        spec = next(missing(arms(study, lambda spec: None), lambda spec: None))
        executor._workers[0].process.kill()
        executor._workers[0].process.join()
        executor.submit(spec)
        assert [record["status"] for record in executor.collect()] == ["finished"]
