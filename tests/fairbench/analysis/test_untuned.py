"""Optimizers at a fixed learning rate, without any search: they run final trials only, and are marked."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fabricated import analysed, history, rehearsed
from pages import printed
from test_searches import DECAYS, Scored, drawn, near, nothing, rate_table, run, searching, texts_of
from tiny import study_of

from fairbench.analysis.audit import audit
from fairbench.analysis.budget import budgets, equality
from fairbench.analysis.forecast import forecast
from fairbench.analysis.results import collect
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.report.plan_view import plan_view
from fairbench.report.sections.trial_tables import search_table
from fairbench.runner.progress.watch import arm_statuses, status_table
from fairbench.study.planned_trial import timing_trials
from fairbench.study.resolved_suite import ResolvedSuite

pytestmark = pytest.mark.xdist_group("searches")


@pytest.fixture(scope="module")
def untuned():
    fixed = {"AdamW": {"lr": 0.5, "options": {"weight_decay": 0.3}}, "Lion": {"lr": 1.0}}
    return searching({"extra": DECAYS}, seeds=(1, 2, 3, 4), **fixed)


def test_an_untuned_optimizer_runs_final_trials_only(untuned):
    found, _ = run(untuned, near(1e-3))
    assert len(found["PsiLogic"].sweep) == 9
    for name in ("AdamW", "Lion"):
        assert not found[name].sweep
    for arm in found.values():
        assert len(arm.final) == 4
    for spec in found["AdamW"].final:
        assert (spec.lr, spec.weight_decay) == (0.5, 0.3)
    for spec in found["PsiLogic"].final:
        assert spec.weight_decay == 0.0
    (vit,) = forecast(rehearsed(untuned), nothing)
    assert (vit.sweep_trials, vit.final_trials) == (9, 12)


@pytest.fixture(scope="module")
def records(untuned):
    """Records of the study with untuned optimizers, in which PsiLogic is best."""
    return Scored(untuned, near(1e-3), PsiLogic=[0.9, 0.91, 0.92, 0.9])


@pytest.fixture(scope="module")
def analyses(untuned, records):
    return analysed(untuned, records)


def test_an_untuned_optimizer_is_marked_in_verdicts_and_audit(analyses):
    for c, name in zip(analyses.comparisons, ("AdamW", "Lion"), strict=True):
        assert c.statement == f"better (at learning rates that only short trials selected; {name} untuned)"
    flags = {flag.name: flag.evidence for flag in analyses.of(audit)}
    assert flags["untuned"] == "AdamW (lr 0.5), Lion (lr 1): final trials only."
    assert not {"rate at the edge", "unequal treatment", "incomplete"} & flags.keys()


def test_an_untuned_optimizer_has_no_budget_for_a_search(analyses):
    spent = budgets(analyses)
    assert "Untuned, without any search: AdamW, Lion." in equality(spent)
    adamw, lion, _ = spent
    assert (adamw.search, adamw.settings) == ("untuned, at 0.5", 0)
    assert (lion.search, lion.settings) == ("untuned, at 1", 0)
    of_adamw = texts_of(rate_table(analyses.results).rows[0])
    assert of_adamw == ["vit", "AdamW", "0.5", "0.5", "–", "untuned: none was searched", "1", "0.5", "0.5"]


def test_the_plan_and_the_status_name_untuned_optimizers(untuned, records):
    plan = plan_view(untuned, forecast(rehearsed(untuned), records), 2, history(untuned), Path("out"))
    shown = printed(status_table(arm_statuses(untuned, records)), plan)
    assert "untuned, without sweep trials: AdamW, Lion" in shown
    assert "3 optimizers, each 9 sweep trials of 10 steps and 4 final ones of 10" in shown
    line = next(line for line in shown.splitlines() if " AdamW " in line)
    assert line.split()[:5] == ["vit", "AdamW", "untuned", "4/4", "0.5"]


def test_a_study_without_any_search():
    the_study = searching(optimizers=("AdamW", "PsiLogic"), AdamW={"lr": 1.0}, PsiLogic={"lr": 1.0})
    records = Scored(the_study, near(1.0))
    results = collect(the_study, records)
    assert {row.stage for row in search_table(results).rows} == {"final"}
    assert rate_table(results).rows
    assert drawn(the_study, records) is None
    (vit,) = forecast(rehearsed(the_study), nothing)
    assert (vit.sweep_trials, vit.final_trials) == (0, 6)
    plan_view(the_study, [vit], 1, history(the_study), Path("out"))


def test_an_untuned_optimizer_has_one_point_in_the_figure_of_rates():
    the_study = searching({"extra": DECAYS}, AdamW={"lr": 1.0}, Lion={"lr_scale": 0.1})
    records = Scored(the_study, near(1e-3), PsiLogic=[0.9, 0.91, 0.92])
    in_sweeps = 2 * 9  # PsiLogic and Lion
    selected = 3  # one of each optimizer, AdamW's the only one that it has
    assert len(drawn(the_study, records).parts[0].points) == in_sweeps + selected
    caption = rate_table(collect(the_study, records)).caption
    assert "3 rates from 0.0001 to 0.01, times the optimizer's lr_scale, each with weight_decay 0, 0.01, 0.1" in caption


def test_timing_trials_use_the_searched_or_the_fixed_setting(tiny_suite):
    sweep = replace(tiny_suite.sweep, extra=DECAYS)
    optimizers = {
        "AdamW": OptimizerPlan(lr=0.5, options={"weight_decay": 0.3}),
        "PsiLogic": OptimizerPlan(lr_scale=0.1),
    }
    the_study = study_of(replace(tiny_suite, sweep=sweep, optimizers=optimizers))
    written = json.dumps(the_study.to_json())
    assert ResolvedSuite.from_json(json.loads(written), "here") == the_study
    assert not the_study.tuned("AdamW")
    assert the_study.tuned("PsiLogic")
    settings = {spec.optimizer.name: (spec.lr, spec.weight_decay) for spec in timing_trials(the_study)}
    assert settings == {"AdamW": (0.5, 0.3), "PsiLogic": (1e-3, 0.0)}
