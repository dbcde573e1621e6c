"""Searches in studies: what is planned is what runs, and the report shows each search correctly."""

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import ANY

import pytest
from fabricated import Records, analysed, edited, flags_of, history, study, with_suite
from pages import printed
from test_forecast import rehearsed
from tiny import study_of

from fairbench.analysis.audit import audit
from fairbench.analysis.budget import budgets, equality
from fairbench.analysis.forecast import forecast
from fairbench.analysis.results import collect
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.report.console import plan_view
from fairbench.report.figures.canvas import figure_options
from fairbench.report.figures.lr_sensitivity import draw_lr_sensitivity
from fairbench.report.figures.style import styles_of
from fairbench.report.sections.provenance import optimizer_table
from fairbench.report.sections.rates import RATES
from fairbench.report.sections.trial_tables import final_table, search_table
from fairbench.runner.progress.watch import arm_statuses, status_table
from fairbench.study.plan import ResolvedSuite, arms, timing_trials
from fairbench.study.trial_queue import TrialQueue

pytestmark = pytest.mark.xdist_group("searches")

THREE = ("AdamW", "Lion", "PsiLogic")
DECAYS = {"weight_decay": [0, 0.01, 0.1]}


def searching(sweep=None, optimizers=THREE, arenas=("vit",), settings=1, seeds=(1, 2, 3), **resolved):
    """The fabricated study with a changed sweep; `resolved` has fields of optimizers by their names."""
    the_study = study(arenas, optimizers, seeds, settings=settings)
    known = {}
    for name, optimizer in the_study.optimizers.items():
        known[name] = replace(optimizer, **resolved.get(name, {}))
    if sweep:
        the_study = with_suite(the_study, sweep=replace(the_study.suite.sweep, **sweep))
    return replace(the_study, optimizers=known)


class Scored(Records):
    """Records whose accuracy is a function of the setting, in the sweep and, if given, in full; NaN is a divergence."""

    def __init__(self, the_study, score, full=None, **scores):
        super().__init__(the_study, **scores)
        self.score = score
        self.full = full

    def outcome(self, spec):
        score = self.full
        if spec.stage == "sweep":
            score = self.score
        if score is None:
            return super().outcome(spec)
        value = score(spec.lr, spec.optimizer.options)
        if math.isnan(value):
            return "diverged"
        return value


def near(best):
    """A score that falls with the distance of the rate from the best one."""

    def score(lr, options):
        return 1 - abs(math.log(lr / best)) / 100

    return score


def rate_table(results):
    """The table of selected rates."""
    analyses = SimpleNamespace(results=results, suite=results.study.suite)
    return RATES.outputs[-1].table_view(analyses)


def texts_of(table):
    """The texts of a table's cells."""
    return [[str(cell.text) for cell in row] for row in table.rows]


def run(the_study, score, full=None):
    """Run the study by its schedule; returns its arms by optimizer, and the trials in their order."""
    everything, records, order = Scored(the_study, score, full), {}, []
    queue = TrialQueue(the_study, lambda spec: records.get(spec.id))
    while spec := queue.next():
        records[spec.id] = everything(spec)
        order.append(spec)
        queue.ended(spec)
        if len(order) % 5 == 0:  # interrupted: the schedule is made again from the records
            queue = TrialQueue(the_study, lambda spec: records.get(spec.id))
    progress = queue.progress()
    assert (progress.done, progress.trials) == (len(records), len(records))
    return {arm.optimizer: arm for arm in arms(the_study, lambda spec: records.get(spec.id))}, order


def test_the_reported_length_selects():
    """The sweep locates 1e-3; with the reported length AdamW's best rate lies far beyond the first neighbors."""
    own = {"AdamW": {"options": {"own": True}}}
    the_study = searching({"seeds": [0, 10], "points": 5}, optimizers=("AdamW", "PsiLogic"), settings=3, **own)

    def full(lr, options):
        return near(0.1 if options.get("own") else 1e-3)(lr, options)

    found, order = run(the_study, near(1e-3), full)
    adamw, psilogic = found["AdamW"], found["PsiLogic"]
    assert (adamw.located.lr, adamw.selected.lr, psilogic.selected.lr) == (1e-3, 0.0316228, 1e-3)
    assert len(adamw.others) + len(adamw.final) == 5 * 2 + 2
    assert len(psilogic.others) + len(psilogic.final) == 3 * 2 + 2
    (f,) = forecast(rehearsed(the_study), lambda spec: None)
    assert (f.sweep_trials, f.final_trials, f.more_final_trials) == (20, 16, 8)
    assert [spec.stage for spec in order].count("final") == 20

    analyses = analysed(the_study, Scored(the_study, near(1e-3), full))
    flags = {flag.name: (flag.severity, flag.evidence) for flag in analyses.of(audit)}
    assert flags["rate at the edge"] == ("warn", ANY)  # the highest that was trained at the reported length
    assert "selected by one search" not in flags
    rows = texts_of(rate_table(analyses.results))
    assert [row[2:4] for row in rows] == [["0.001", "0.0316"], ["0.001", "0.001"]]
    assert [(x.final_trials, x.final_steps) for x in budgets(analyses)] == [(12, 120), (8, 80)]
    table = search_table(analyses.results).rows
    assert {(row.optimizer, row.lr) for row in table if row.selected} == {("AdamW", 0.0316228), ("PsiLogic", 1e-3)}
    assert len({(row.lr, row.seed) for row in table if row.stage == "final" and row.optimizer == "PsiLogic"}) == 8
    assert len(final_table(analyses.results).rows) == 2 * 2 * 3  # of the selected settings only
    figure = drawn(the_study, Scored(the_study, near(1e-3), full))
    assert "AdamW, rate 0.0316: 0.9885, selected." in " ".join(figure.parts[0].said)
    sentences = [sentence for *_, sentence in figure.parts[0].points]
    assert "AdamW, rate 0.00316: 0.9655, 2 seeds" in sentences
    assert "PsiLogic, rate 0.001: 1.000, 3 seeds, selected" in sentences
    assert "PsiLogic, rate 0.01: 0.9770, in the sweep" in sentences


@pytest.mark.parametrize(
    ("gap", "other", "fragile"), [(0.0, 0.5, True), (0.2, 0.5, False), (0.0, 0.9, False), (0.0, None, False)]
)
def test_a_verdict_holds_with_every_setting_that_validation_cannot_separate(gap, other, fragile):
    """PsiLogic is better at its selected rate; the next one has another test value, and `gap` on validation."""
    the_study = searching(optimizers=("AdamW", "PsiLogic"), settings=3, seeds=(1, 2, 3, 4, 5))

    class Close(Records):
        def __call__(self, spec):
            if spec.stage != "final" or spec.optimizer.name == "AdamW":
                return super().__call__(spec)
            noise = 0.002 * (spec.seed % 3)
            if spec.lr == 1e-3:
                val = 0.8 + noise
                test = 0.7
            elif spec.lr > 1e-3:
                val = 0.8 + noise - (gap + 1e-3 * (spec.seed % 2))
                test = other
            else:
                val = 0.8 + noise - 0.5
                test = other
            values = {"loss": 1.5}
            if test is not None:
                values["accuracy"] = test + noise
            return edited(self.record(spec, val), "result.final.test", values)

    scores = {"AdamW": [0.5, 0.501, 0.502, 0.501, 0.5]}
    (c,) = analysed(the_study, Close(the_study, **scores)).comparisons
    assert c.statement == ("inconclusive (depends on the setting)" if fragile else "better")


def test_rates_are_the_grids_times_the_scale():
    the_study = searching({"budget": 4}, Lion={"lr_scale": 0.3})
    found, _ = run(the_study, near(6e-4))
    assert [x.lr for x in the_study.search("Lion").first()] == [3e-5, 3e-4, 3e-3]
    assert {spec.lr for spec in found["AdamW"].sweep} == {1e-5, 1e-4, 1e-3, 1e-2}  # beyond the better end
    assert {spec.lr for spec in found["Lion"].sweep} == {3e-5, 3e-4, 3e-3, 3e-2}
    found, _ = run(the_study, near(1.0))
    assert {spec.lr for spec in found["Lion"].sweep} == {3e-5, 3e-4, 3e-3, 3e-2}  # beyond its own edge
    results = collect(the_study, Scored(the_study, near(1.0)))
    added = {(row.optimizer, row.lr) for row in search_table(results) if row.added}
    assert added == {("AdamW", 0.1), ("Lion", 3e-2), ("PsiLogic", 0.1)}
    caption = rate_table(results).caption
    tried = "3 rates from 0.0001 to 0.01, times the optimizer's lr_scale, then rates beyond the end nearer to the best"
    assert tried in caption


@pytest.fixture(scope="module")
def untuned():
    return searching({"extra": DECAYS}, AdamW={"lr": 0.5, "options": {"weight_decay": 0.3}}, Lion={"lr": 1.0})


def test_an_untuned_optimizer_runs_final_trials_only(untuned):
    found, _ = run(untuned, near(1e-3))
    assert [len(found[name].sweep) for name in THREE] == [0, 0, 9]
    assert [len(found[name].final) for name in THREE] == [3, 3, 3]
    assert {(spec.lr, spec.weight_decay) for spec in found["AdamW"].final} == {(0.5, 0.3)}
    assert {spec.weight_decay for spec in found["PsiLogic"].final} == {0.0}
    (f,) = forecast(rehearsed(untuned), lambda spec: None)
    assert (f.sweep_trials, f.final_trials) == (9, 9)


def test_an_untuned_optimizer_is_marked(untuned):
    records = Scored(untuned, near(1e-3), PsiLogic=[0.9, 0.91, 0.92])
    analyses = analysed(untuned, records)
    assert [c.statement for c in analyses.comparisons] == ["better (AdamW untuned)", "better (Lion untuned)"]
    flags = {flag.name: flag.evidence for flag in analyses.of(audit)}
    assert flags["untuned"] == "AdamW (lr 0.5), Lion (lr 1): final trials only."
    assert not {"rate at the edge", "unequal treatment", "incomplete"} & flags.keys()
    assert "Untuned, without any search: AdamW, Lion." in equality(budgets(analyses))
    assert [(x.search, x.settings) for x in budgets(analyses)][:2] == [("untuned, at 0.5", 0), ("untuned, at 1", 0)]
    rows = texts_of(rate_table(analyses.results))
    assert rows[0] == ["vit", "AdamW", "0.5", "0.5", "–", "untuned: none was searched", "1", "0.5", "0.5"]
    plan = plan_view(untuned, forecast(rehearsed(untuned), records), 2, history(untuned), Path("out"))
    shown = printed(status_table(arm_statuses(untuned, records)), plan)
    assert "untuned, without sweep trials: AdamW, Lion" in shown
    assert "3 optimizers, each 9 sweep trials of 10 steps and 3 final ones of 10" in shown
    cells = next(line.split()[:5] for line in shown.splitlines() if " AdamW " in line)
    assert cells == ["vit", "AdamW", "untuned", "3/3", "0.5"]


def test_a_study_without_any_search():
    the_study = searching(optimizers=("AdamW", "PsiLogic"), AdamW={"lr": 1.0}, PsiLogic={"lr": 1.0})
    records = Scored(the_study, near(1.0))
    results = collect(the_study, records)
    assert {row.stage for row in search_table(results).rows} == {"final"}
    assert rate_table(results).rows
    assert drawn(the_study, records) is None
    (f,) = forecast(rehearsed(the_study), lambda spec: None)
    assert (f.sweep_trials, f.final_trials) == (0, 6)
    plan_view(the_study, [f], 1, history(the_study), Path("out"))


def drawn(the_study, records):
    analyses = analysed(the_study, records)
    with figure_options():
        return draw_lr_sensitivity(analyses, styles_of(analyses.suite))


def test_an_untuned_optimizer_has_one_point_in_the_figure_of_rates():
    the_study = searching({"extra": DECAYS}, AdamW={"lr": 1.0}, Lion={"lr_scale": 0.1})
    records = Scored(the_study, near(1e-3), PsiLogic=[0.9, 0.91, 0.92])
    assert len(drawn(the_study, records).parts[0].points) == 2 * 9 + 3
    caption = rate_table(collect(the_study, records)).caption
    assert "3 rates from 0.0001 to 0.01, times the optimizer's lr_scale, each with weight_decay 0, 0.01, 0.1" in caption


def test_an_unequal_budget_is_reported():
    """Wherever the best lies each search has its budget; it is unequal while one of them is incomplete."""
    the_study = searching({"budget": 4}, Lion={"options": {"own": True}})

    def score(lr, options):
        best = 1.0 if options.get("own") else 1e-4
        return near(best)(lr, options)

    higher = Scored(the_study, score)
    equal = budgets(analysed(the_study, higher))
    assert equality(equal).startswith("The budget was equal")
    assert [budget.search for budget in equal] == ["1e-05 to 0.01", "0.0001 to 0.1", "1e-05 to 0.01"]
    assert [budget.settings for budget in equal] == [4, 4, 4]
    assert [budget.sweep_trials for budget in equal] == [4, 4, 4]

    def without_the_highest(spec):
        if spec.lr == 0.1:
            return None
        return higher(spec)

    unequal = analysed(the_study, without_the_highest)
    said = "The budget of the searches was not equal, in settings: vit: AdamW 4, Lion 3, PsiLogic 4."
    assert equality(budgets(unequal)) == said


@pytest.mark.parametrize("best", [0.0, 0.01, 0.1])
def test_a_selected_value_at_the_end_is_a_note(best):
    the_study = searching({"extra": DECAYS}, optimizers=("AdamW", "PsiLogic"))

    def score(lr, options):
        return near(1e-3)(lr, options) - abs(options["weight_decay"] - best)

    flags = flags_of(the_study, Scored(the_study, score))
    if best == 0.01:
        assert "searched value at the end" not in flags
    else:
        expected = f"vit AdamW (weight_decay {best:g}); vit PsiLogic (weight_decay {best:g})"
        assert flags["searched value at the end"] == expected
    assert "coupled decay" not in flags


def test_another_hyperparameter_has_a_column_and_a_part_in_the_figure():
    the_study = searching({"extra": {"momentum": [0.5, 0.9, 0.99]}}, optimizers=("AdamW", "PsiLogic"))

    def score(lr, options):
        return near(1e-3)(lr, options) - abs(options["momentum"] - 0.9)

    records = Scored(the_study, score)
    results = collect(the_study, records)
    table = search_table(results)
    assert table.columns[:6] == ("arena", "optimizer", "lr", "weight_decay", "momentum", "seed")
    selected = [[*row.values()][:6] for row in table.to_dicts() if row["selected"] and row["metric"] == "accuracy"]
    assert selected == [["vit", x, 1e-3, None, 0.9, seed] for x in ("AdamW", "PsiLogic") for seed in range(4)]
    assert len(table.rows) == 2 * 2 * (9 + 3)
    assert [(row[4].text, row[4].value) for row in rate_table(results).rows] == [("0.9", 0.9)] * 2
    sensitivity = drawn(the_study, records)
    sentences = [sentence for *_, sentence in sensitivity.parts[0].points]
    assert len(sentences) == 2 * (9 + 1)
    assert "AdamW, rate 0.001, momentum 0.9: 0.5000, 3 seeds, selected" in sentences
    assert "A line for each value of momentum." in sensitivity.caption


def test_timing_trials_use_the_searched_or_the_fixed_setting(tiny_suite):
    sweep = replace(tiny_suite.sweep, extra=DECAYS)
    optimizers = {"AdamW": OptimizerPlan(lr=0.5, options={"weight_decay": 0.3})}
    optimizers["PsiLogic"] = OptimizerPlan(lr_scale=0.1)
    the_study = study_of(replace(tiny_suite, sweep=sweep, optimizers=optimizers))
    assert ResolvedSuite.from_json(json.loads(json.dumps(the_study.to_json())), "here") == the_study
    assert [the_study.tuned(name) for name in optimizers] == [False, True]
    trials = {spec.optimizer.name: spec for spec in timing_trials(the_study)}
    found = {name: (spec.lr, spec.weight_decay) for name, spec in trials.items()}
    assert found == {"AdamW": (0.5, 0.3), "PsiLogic": (1e-3, 0.0)}


def test_the_label_of_a_trial_has_the_searched_hyperparameter():
    spec = arms(searching({"extra": DECAYS}), lambda spec: None)[0].sweep[1]
    assert spec.label() == "vit AdamW lr=0.0001 sweep seed 0"
    assert spec.label(["momentum", "weight_decay"]) == "vit AdamW lr=0.0001 weight_decay=0.01 sweep seed 0"


def test_settings_of_fairbench_and_of_the_suite_have_two_columns():
    the_study = study(("vit",), ("SGD", "PsiLogic"))
    plans = {"SGD": OptimizerPlan(options={"momentum": 0.5}), "PsiLogic": OptimizerPlan("own:PsiLogic")}
    sgd = replace(the_study.optimizers["SGD"], options={"momentum": 0.5, "nesterov": True, "dampening": 0})
    the_study = replace(with_suite(the_study, optimizers=plans), optimizers={**the_study.optimizers, "SGD": sgd})
    table = optimizer_table(analysed(the_study, Scored(the_study, near(1e-3))))
    assert [[cell.text for cell in row][2:] for row in table.rows] == [
        ["momentum = 0.5", "nesterov = True"],
        ["nothing", "nothing"],
    ]
