"""A user's script, which mypy checks with the source: the names of `fairbench` have complete types."""

from typing import Any

import torch
from typing_extensions import assert_type

import fairbench as fb
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.api.catalog import ArenaEntry, OptimizerEntry, SuiteEntry


def use(rule: type[torch.optim.Optimizer]) -> None:
    """Every call of the documentation."""
    assert_type(fb.list_suites(), fb.Table[SuiteEntry])
    assert_type(fb.list_optimizers(), fb.Table[OptimizerEntry])
    assert_type(fb.list_arenas(), fb.Table[ArenaEntry])
    assert_type(fb.__version__, str)
    suite = fb.Suite.load("mini").replace(seeds=range(10)).with_optimizer(rule)
    assert_type(suite.plan(), fb.Estimate)
    study = fb.run(suite, "results/mine", workers=2)
    assert_type(study, fb.Study)
    assert_type(study.verdicts()[0], Comparison)
    assert_type(study.curves("gpt", "loss").to_dicts(), list[dict[str, Any]])
    assert_type(study.audit().ok, bool)
    assert_type(study.figure("learning_curves"), fb.Figure)
    assert_type(study.report(), fb.Page)
    assert_type(fb.open("results/mine"), fb.Study)
    assert_type(fb.compare(study, study), fb.Compared)
    assert_type(fb.check(rule), fb.Audit)
    assert_type(fb.verdicts("table.csv")[0], Comparison)
    fb.preview(rule)
