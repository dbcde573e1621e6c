"""The cost of arms in a study that really ran: what the observation of a mechanism takes is no part of it."""

import sys
from dataclasses import replace
from types import SimpleNamespace

from fabricated import analysed
from tiny import TINY, here, write_tiny

from fairbench.analysis.cost import costs
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.runner.preflight import run_preflight
from fairbench.study.plan import arms
from fairbench.study.planned_trial import timing_trials
from fairbench.suites.loader import load_suite
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.trial import trial

OBSERVED = """

class Observed(torch.optim.SGD):
    '''Its observer takes 1000 seconds in each step.'''

    def mechanism(self, named_parameters):
        self.register_step_post_hook(lambda *_: SECONDS.append(1000.0))
        return Observer()


class Observer:
    def quantities(self):
        return {}


SECONDS = []
"""


def test_a_slow_observer_appears_in_no_time(tmp_path, monkeypatch):
    suite_file = write_tiny(tmp_path, TINY.replace("steps = 40", "steps = 12"))
    with (tmp_path / "own_optimizers.py").open("a") as module:
        module.write(OBSERVED)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_optimizers", raising=False)
    monkeypatch.setattr("fairbench.study.planned_trial.TIMING_TRIALS", 1)
    fixed = {"AdamW": OptimizerPlan(lr=0.01), "Observed": OptimizerPlan("own_optimizers:Observed", lr=0.01)}
    suite = replace(load_suite(str(suite_file)), optimizers=fixed, reference="Observed")
    slot = DeviceSlot(data_root=str(tmp_path))
    study = run_preflight(suite, slot, here).study
    observer = sys.modules["own_optimizers"]

    def now():
        return sum(observer.SECONDS)

    monkeypatch.setattr("fairbench.training.phase_timer.time", SimpleNamespace(perf_counter=now))
    final_trials = [spec for arm in arms(study, lambda spec: None) for spec in arm.final]
    records = {spec.id: trial(spec, slot) for spec in [*final_trials, *timing_trials(study)]}

    observed = [record.cost.seconds.step for record in records.values() if record.stage == "final"]
    assert sorted(set(observed)) == [0.0, 12_000.0]
    found = analysed(study, lambda spec: records.get(spec.id)).of(costs)
    assert [(cost.optimizer, cost.trials) for cost in found] == [("AdamW", 1), ("Observed", 1)]
    assert {cost.train_ms for cost in found} == {0.0}
