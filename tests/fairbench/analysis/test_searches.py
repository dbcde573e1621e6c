"""Searches in studies: what is planned is what runs, and the report shows each search correctly."""

import io
import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import ANY

import pytest
from fabricated import Records, finals, flags_of, history, study
from rich.console import Console
from test_forecast import rehearsed
from tiny import study_of

from fairbench.analysis.analyses import Analyses
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
from fairbench.report.sections.trials import search_table
from fairbench.report.study import write_report
from fairbench.runner.progress.watch import arm_statuses, status_table
from fairbench.study.plan import ResolvedSuite, arms, timing_trials
from fairbench.study.schedule import Schedule
from fairbench.suites.schema import Suite

pytestmark = pytest.mark.xdist_group("searches")

THREE = ("AdamW", "Lion", "PsiLogic")
DECAYS = {"weight_decay": [0, 0.01, 0.1]}


def searching(sweep=None, optimizers=THREE, arenas=("vit",), **resolved):
    """The fabricated study with a changed sweep; `resolved` has fields of optimizers by their names."""
    the_study = study(arenas, optimizers)
    suite = replace(the_study.suite, sweep=replace(the_study.suite.sweep, **(sweep or {})))
    known = {name: replace(x, **resolved.get(name, {})) for name, x in the_study.optimizers.items()}
    return replace(the_study, suite=suite, optimizers=known)


class Scored(Records):
    """Records whose accuracy in a search is a function of the setting; NaN is a divergence."""

    def __init__(self, the_study, score, confirmed=None, **scores):
        super().__init__(finals(the_study, **scores))
        self.score, self.confirmed = score, confirmed or score

    def __call__(self, spec):
        if spec.stage not in ("sweep", "confirm"):
            return super().__call__(spec)
        score = self.score if spec.stage == "sweep" else self.confirmed
        value = score(spec.lr, spec.optimizer.options)
        return self.record(spec, "diverged" if math.isnan(value) else value)


def near(best):
    return lambda lr, options: 1 - abs(math.log(lr / best)) / 100


def rate_table(results):
    """The table of selected rates."""
    analyses = SimpleNamespace(results=results, suite=results.study.suite)
    return RATES.outputs[-1].table_view(analyses)


def run(the_study, score, confirmed=None):
    """Run the study by its schedule; returns its arms by optimizer, and the trials in their order."""
    everything, records, order = Scored(the_study, score, confirmed), {}, []
    schedule = Schedule(the_study, lambda spec: records.get(spec.id))
    while spec := schedule.next():
        records[spec.id] = everything(spec)
        order.append(spec)
        schedule.ended(spec)
        if len(order) % 5 == 0:  # interrupted: the schedule is made again from the records
            schedule = Schedule(the_study, lambda spec: records.get(spec.id))
    outlook = schedule.outlook()
    assert (outlook.done, outlook.trials) == (len(records), len(records))
    return {arm.optimizer: arm for arm in arms(the_study, lambda spec: records.get(spec.id))}, order


TRIED = [
    ({}, 3),
    ({"extra": DECAYS}, 9),
    ({"seeds": [0, 10]}, 3),
    ({"budget": 5}, 5),
    ({"budget": 5, "extra": DECAYS}, 15),
]


@pytest.mark.parametrize(("sweep", "settings"), TRIED)
def test_every_optimizer_tries_as_many_settings(sweep, settings) -> None:
    """The best is inside each grid; the plan, the forecast and the run agree."""
    the_study = searching(sweep, Lion={"lr_scale": 0.3})
    found, order = run(the_study, near(6e-4))
    for arm in found.values():
        assert len({(spec.lr, spec.weight_decay) for spec in arm.sweep}) == settings
        assert len(arm.sweep) == settings * len(the_study.suite.sweep.seeds)
    scaled = [0.3 * setting.lr for setting in the_study.search("AdamW").first()]
    assert [setting.lr for setting in the_study.search("Lion").first()] == pytest.approx(scaled, rel=1e-5)
    (f,) = forecast(rehearsed(the_study), lambda spec: None)
    assert f.sweep_trials == len([spec for spec in order if spec.stage == "sweep"])


def confirming(**sweep):
    """A study of AdamW and PsiLogic whose final trials are twice as long as those of its sweep."""
    own = {"AdamW": {"options": {"own": True}}}
    the_study = searching({"confirm": 1, **sweep}, optimizers=("AdamW", "PsiLogic"), **own)
    longer = {name: replace(plan, steps=2 * plan.sweep_steps) for name, plan in the_study.suite.arenas.items()}
    return replace(the_study, suite=replace(the_study.suite, arenas=longer))


def test_the_reported_length_selects() -> None:
    """The sweep selects 1e-3; with the reported length AdamW's best rate lies far beyond the first neighbors."""
    the_study = confirming(seeds=[0, 10], points=5)
    steps = the_study.suite.arenas["vit"].steps

    def full(lr, options):
        return near(0.1 if options.get("own") else 1e-3)(lr, options)

    found, order = run(the_study, near(1e-3), full)
    adamw, psilogic = found["AdamW"], found["PsiLogic"]
    assert [(spec.lr, spec.seed) for spec in adamw.confirm] == [
        (lr, seed) for lr in (0.000316228, 1e-3, 0.00316228, 1e-2, 0.0316228) for seed in (0, 10)
    ]
    assert {spec.lr for spec in psilogic.confirm} == {0.000316228, 1e-3, 0.00316228}
    assert (adamw.searched.rates, adamw.selected.rates, psilogic.selected.rates) == ([1e-3], [0.0316228], [1e-3])
    assert {(spec.training.steps, spec.training.evaluations) for spec in adamw.confirm} == {(steps, 1)}
    assert {spec.lr for spec in adamw.final} == {0.0316228}
    stages = [spec.stage for spec in order]
    assert stages.index("confirm") > max(i for i, stage in enumerate(stages) if stage == "sweep")
    (f,) = forecast(rehearsed(the_study), lambda spec: None)
    assert (f.sweep_trials, f.confirm_trials, f.more_confirm_trials) == (20, 12, 8)
    assert stages.count("confirm") == 16

    records = Scored(the_study, near(1e-3), full, PsiLogic=[0.9, 0.91, 0.92])
    analyses = Analyses(history(the_study), records)
    flags = {flag.name: (flag.severity, flag.evidence) for flag in analyses.of(audit)}
    assert flags["searched shorter than reported"] == (
        *("note", "the reported length moved vit AdamW 0.001 to 0.0316 (1 of 2 arms)."),
    )
    assert flags["rate at the edge"] == ("warn", ANY)  # the highest of those that were confirmed
    rows = [[str(cell.text) for cell in row] for row in rate_table(analyses.results).rows]
    assert [row[2:4] for row in rows] == [["0.001", "0.0316"], ["0.001", "0.001"]]
    assert [(x.confirm_trials, x.confirm_steps) for x in budgets(analyses)] == [(10, 100), (6, 60)]
    assert {row.stage for row in search_table(analyses.results).rows} == {"sweep", "confirm"}
    figure = drawn(the_study, records)
    assert figure.parts[0].summary.count("AdamW, rate 0.001 was selected by the sweep.") == 1
    assert "An arrow leads from the rate that the sweep selected" in figure.caption


def test_a_search_that_diverges_at_the_reported_length_selects_nothing() -> None:
    found, order = run(confirming(), near(1e-3), lambda lr, options: math.nan)
    assert all(arm.diverged and arm.searched and not arm.selected for arm in found.values())
    assert [spec for spec in order if spec.stage == "final"] == []
    flags = flags_of(searching(), Scored(searching(), near(1e-3)))
    assert flags.get("searched shorter than reported") is None  # the fabricated sweep is as long as the final trials


def test_rates_are_the_grids_times_the_scale() -> None:
    the_study = searching({"budget": 4}, Lion={"lr_scale": 0.3})
    found, _ = run(the_study, near(6e-4))
    assert [x.lr for x in the_study.search("Lion").first()] == [3e-5, 3e-4, 3e-3]
    assert {spec.lr for spec in found["AdamW"].sweep} == {1e-4, 3.16228e-4, 1e-3, 1e-2}  # between the two best
    assert {spec.lr for spec in found["Lion"].sweep} == {3e-5, 3e-4, 9.48683e-4, 3e-3}
    found, _ = run(the_study, near(1.0))
    assert {spec.lr for spec in found["Lion"].sweep} == {3e-5, 3e-4, 3e-3, 3e-2}  # beyond its own edge
    results = collect(the_study, Scored(the_study, near(1.0)))
    added = {(row.optimizer, row.lr) for row in search_table(results) if row.added}
    assert added == {("AdamW", 0.1), ("Lion", 3e-2), ("PsiLogic", 0.1)}
    caption = rate_table(results).caption
    assert "3 rates from 0.0001 to 0.01, times the optimizer's lr_scale, then rates beyond the best" in caption


@pytest.fixture(scope="module")
def untuned() -> ResolvedSuite:
    return searching({"extra": DECAYS}, AdamW={"lr": 0.5, "options": {"weight_decay": 0.3}}, Lion={"lr": 1.0})


def test_an_untuned_optimizer_runs_final_trials_only(untuned: ResolvedSuite) -> None:
    found, _ = run(untuned, near(1e-3))
    assert [(len(found[name].sweep), len(found[name].final)) for name in THREE] == [(0, 3), (0, 3), (9, 3)]
    assert {(spec.lr, spec.weight_decay) for spec in found["AdamW"].final} == {(0.5, 0.3)}
    assert {spec.weight_decay for spec in found["PsiLogic"].final} == {0.0}
    (f,) = forecast(rehearsed(untuned), lambda spec: None)
    assert (f.sweep_trials, f.final_trials) == (9, 9)


def test_an_untuned_optimizer_is_marked(untuned: ResolvedSuite) -> None:
    plans, records = history(untuned), Scored(untuned, near(1e-3), PsiLogic=[0.9, 0.91, 0.92])
    analyses = Analyses(plans, records)
    assert [c.statement for c in analyses.comparisons] == ["better (AdamW untuned)", "better (Lion untuned)"]
    flags = {flag.name: flag.evidence for flag in analyses.of(audit)}
    assert flags["untuned"] == "AdamW (lr 0.5), Lion (lr 1): final trials only."
    assert not {"rate at the edge", "unequal treatment", "incomplete"} & flags.keys()
    assert "Untuned, without any search: AdamW, Lion." in equality(budgets(analyses))
    assert [(x.search, x.settings) for x in budgets(analyses)][:2] == [("untuned, at 0.5", 0), ("untuned, at 1", 0)]
    rows = [[str(cell.text) for cell in row] for row in rate_table(analyses.results).rows]
    assert rows[0] == ["vit", "AdamW", "0.5", "–", "untuned: none was searched", "0", "–", "–"]
    console = Console(file=io.StringIO(), width=300)
    console.print(status_table(arm_statuses(untuned, records)))
    console.print(plan_view(untuned, forecast(rehearsed(untuned), records), 2, plans, Path("out")))
    shown = console.file.getvalue()
    assert "untuned, without sweep trials: AdamW, Lion" in shown
    assert "3 optimizers, each 9 sweep trials of 10 steps and 3 final ones of 10" in shown
    assert next(line.split()[:5] for line in shown.splitlines() if " AdamW " in line) == [
        *("vit", "AdamW", "untuned", "0.5", "3/3")
    ]


def test_a_study_without_any_search() -> None:
    the_study = searching(optimizers=("AdamW", "PsiLogic"), AdamW={"lr": 1.0}, PsiLogic={"lr": 1.0})
    records = Scored(the_study, near(1.0))
    results = collect(the_study, records)
    assert not search_table(results).rows
    assert rate_table(results).rows
    assert drawn(the_study, records) is None
    (f,) = forecast(rehearsed(the_study), lambda spec: None)
    assert (f.sweep_trials, f.final_trials) == (0, 6)
    plan_view(the_study, [f], 1, history(the_study), Path("out"))


def drawn(the_study, records):
    analyses = Analyses(history(the_study), records)
    with figure_options():
        return draw_lr_sensitivity(analyses, styles_of(analyses.suite))


def test_a_search_with_an_untuned_optimizer_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairbench.report.study.draw_figures", lambda *_: [])
    the_study = searching({"extra": DECAYS}, AdamW={"lr": 1.0}, Lion={"lr_scale": 0.1})
    records = Scored(the_study, near(1e-3), PsiLogic=[0.9, 0.91, 0.92])
    page = write_report(history(the_study), records, tmp_path).page.read_text()
    assert "better (AdamW untuned)" in page
    assert "Untuned, without any search: AdamW." in page
    assert "The budget was equal: in each arena every search had the same number of settings." in page
    assert len(drawn(the_study, records).parts[0].points) == 2 * 9
    caption = rate_table(collect(the_study, records)).caption
    assert "3 rates from 0.0001 to 0.01, times the optimizer's lr_scale, each with weight_decay 0, 0.01, 0.1" in caption


def test_an_unequal_budget_is_reported() -> None:
    """Wherever the best lies each search has its budget; it is unequal while one of them is incomplete."""
    the_study = searching({"budget": 4}, Lion={"options": {"own": True}})
    higher = Scored(the_study, lambda lr, options: near(1.0 if options.get("own") else 1e-3)(lr, options))
    equal = budgets(Analyses(history(the_study), higher))
    assert equality(equal).startswith("The budget was equal")
    assert [(x.search, x.settings, x.sweep_trials) for x in equal] == [
        *(("0.0001 to 0.01", 4, 4), ("0.0001 to 0.1", 4, 4), ("0.0001 to 0.01", 4, 4))
    ]
    unequal = Analyses(history(the_study), lambda spec: None if spec.lr == 0.1 else higher(spec))
    assert equality(budgets(unequal)) == (
        "The budget of the searches was not equal, in settings: vit: AdamW 4, Lion 3, PsiLogic 4."
    )


def test_a_repeated_search_is_reported() -> None:
    """Three searches, of which one selects another rate for its final seed."""
    the_study = searching({"budget": 4, "seeds": [10, 11, 12], "repeated": True}, optimizers=("AdamW", "PsiLogic"))

    class OfEachSeed(Scored):
        def __call__(self, spec):
            self.score = near(1e-2 if (spec.seed, spec.optimizer.name) == (11, "AdamW") else 1e-3)
            return super().__call__(spec)

    records = OfEachSeed(the_study, near(1e-3), PsiLogic=[0.9, 0.91, 0.92])
    analyses = Analyses(history(the_study), records)
    adamw = analyses.results.arm("vit", "AdamW")
    assert [(run.seed, run.lr) for run in adamw.final] == [(1, 1e-3), (2, 1e-2), (3, 1e-3)]
    assert [row[2].text for row in rate_table(analyses.results).rows] == ["0.001 (2), 0.01 (1)", "0.001"]
    assert "until each search has 4; repeated for every final seed" in rate_table(analyses.results).caption
    rows = search_table(analyses.results).rows
    selected = {(row.seed, row.lr) for row in rows if row.optimizer == "AdamW" and row.selected}
    assert selected == {(10, 1e-3), (11, 1e-2), (12, 1e-3)}
    assert {row.lr for row in rows if row.optimizer == "AdamW" and row.added} == {
        3.16228e-4,
        0.1,
    }  # in one search inside
    chosen = {sentence for *_, sentence in drawn(the_study, records).parts[0].points if sentence.endswith("selected")}
    assert chosen == {
        "AdamW, rate 0.001: 0.9923, selected",
        "AdamW, rate 0.01: 0.9846, selected",
        "PsiLogic, rate 0.001: 1.000, selected",
    }


@pytest.mark.parametrize("chance", [True, False])
def test_chance_in_the_search_is_a_warning_of_a_verdict(chance: bool) -> None:
    """A lead of 0.005, where final seeds differ by 0.01: a warning if PsiLogic is better, otherwise a note."""
    the_study = searching({"seeds": [0, 10]}, optimizers=("AdamW", "PsiLogic"))
    ours = [0.9, 0.92, 0.91] if chance else [0.5, 0.51, 0.52]
    scored = Scored(the_study, near(1e-3), PsiLogic=ours, AdamW=[0.5, 0.51, 0.52])
    scored.score = lambda lr, options: {1e-3: 0.5, 1e-4: 0.495}.get(lr, 0.1)
    flags = [flag for flag in Analyses(history(the_study), scored).of(audit) if flag.name == "selected by chance"]
    lead = "(leads by 0.005, error 0.0071)"  # 0.01 over the root of two sweep seeds
    assert [(x.severity, x.evidence) for x in flags] == [
        ("warn" if chance else "note", f"vit AdamW {lead}, vit PsiLogic {lead}")
    ]


@pytest.mark.parametrize("best", [0.0, 0.01, 0.1])
def test_a_selected_value_at_the_end_is_a_note(best: float) -> None:
    the_study = searching({"extra": DECAYS}, optimizers=("AdamW", "PsiLogic"))
    plans = history(the_study)
    records = Scored(the_study, lambda lr, x: near(1e-3)(lr, x) - abs(x["weight_decay"] - best))
    flags = {flag.name: flag.evidence for flag in Analyses(plans, records).of(audit)}
    expected = f"vit AdamW (weight_decay {best:g}), vit PsiLogic (weight_decay {best:g})."
    assert flags.get("searched value at the end", "") == ("" if best == 0.01 else expected)
    assert "coupled decay" not in flags


def test_another_hyperparameter_has_a_column_and_a_part_in_the_figure() -> None:
    the_study = searching({"extra": {"momentum": [0.5, 0.9, 0.99]}}, optimizers=("AdamW", "PsiLogic"))
    records = Scored(the_study, lambda lr, x: near(1e-3)(lr, x) - abs(x["momentum"] - 0.9))
    results = collect(the_study, records)
    table = search_table(results)
    assert table.columns[:6] == ("arena", "optimizer", "lr", "weight_decay", "momentum", "seed")
    selected = [[*row.values()][:6] for row in table.to_dicts() if row["selected"] and row["metric"] == "accuracy"]
    assert selected == [["vit", name, 1e-3, None, 0.9, 0] for name in ("AdamW", "PsiLogic")]
    assert len(table.rows) == 2 * 2 * 9
    assert [(row[3].text, row[3].value) for row in rate_table(results).rows] == [("0.9", 0.9)] * 2
    sensitivity = drawn(the_study, records)
    sentences = [sentence for *_, sentence in sensitivity.parts[0].points]
    assert len(sentences) == 2 * 9
    assert "AdamW, rate 0.001, momentum 0.9: 1.000, selected" in sentences
    assert "Thin lines have the other values of momentum." in sensitivity.caption


def test_timing_trials_use_the_searched_or_the_fixed_setting(tiny_suite: Suite) -> None:
    sweep = replace(tiny_suite.sweep, extra=DECAYS)
    optimizers = {
        "AdamW": OptimizerPlan(lr=0.5, options={"weight_decay": 0.3}),
        "PsiLogic": OptimizerPlan(lr_scale=0.1),
    }
    the_study = study_of(replace(tiny_suite, sweep=sweep, optimizers=optimizers))
    assert ResolvedSuite.from_json(json.loads(json.dumps(the_study.to_json())), "here") == the_study
    assert [the_study.tuned(name) for name in optimizers] == [False, True]
    trials = {spec.optimizer.name: spec for spec in timing_trials(the_study)}
    found = {name: (spec.lr, spec.weight_decay) for name, spec in trials.items()}
    assert found == {"AdamW": (0.5, 0.3), "PsiLogic": (1e-3, 0.0)}


def test_the_label_of_a_trial_has_the_searched_hyperparameter() -> None:
    spec = arms(searching({"extra": DECAYS}), lambda spec: None)[0].sweep[1]
    assert spec.label() == "vit AdamW lr=0.0001 sweep seed 0"
    assert spec.label(["momentum", "weight_decay"]) == "vit AdamW lr=0.0001 weight_decay=0.01 sweep seed 0"


def test_settings_of_fairbench_and_of_the_suite_have_two_columns() -> None:
    the_study = study(("vit",), ("SGD", "PsiLogic"))
    plans = {"SGD": OptimizerPlan(options={"momentum": 0.5}), "PsiLogic": OptimizerPlan("own:PsiLogic")}
    sgd = replace(the_study.optimizers["SGD"], options={"momentum": 0.5, "nesterov": True, "dampening": 0})
    suite = replace(the_study.suite, optimizers=plans)
    the_study = replace(the_study, suite=suite, optimizers={**the_study.optimizers, "SGD": sgd})
    table = optimizer_table(Analyses(history(the_study), Scored(the_study, near(1e-3))))
    assert [[cell.text for cell in row][2:] for row in table.rows] == [
        ["momentum = 0.5", "nesterov = True"],
        ["nothing", "nothing"],
    ]
