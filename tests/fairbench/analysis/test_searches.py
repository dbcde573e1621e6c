"""Searches in studies: what is planned is what runs, and the report shows each search correctly."""

import math
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import pytest
from fabricated import Records, analysed, edited, flags_of, rehearsed, study, with_suite

from fairbench.analysis.audit import audit
from fairbench.analysis.budget import budgets, equality
from fairbench.analysis.forecast import forecast
from fairbench.analysis.results import collect
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.report.figures.drawing import figure_options
from fairbench.report.figures.lr_sensitivity import draw_lr_sensitivity
from fairbench.report.figures.style import styles_of
from fairbench.report.sections.provenance import optimizer_table
from fairbench.report.sections.rates import RATES
from fairbench.report.sections.trial_tables import final_table, search_table
from fairbench.study.plan import arms
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


def texts_of(row):
    """The texts of a row's cells."""
    return [str(cell.text) for cell in row]


def rates_of(trials):
    """The rates of some trials."""
    return {spec.lr for spec in trials}


def sentences_of(figure):
    """What the figure says of each point in its first panel."""
    return [sentence for *_, sentence in figure.parts[0].points]


def run(the_study, score, full=None):
    """Run the study by its schedule; returns its arms by optimizer, and the trials in their order."""
    everything = Scored(the_study, score, full)
    records = {}
    order = []

    def lookup(spec):
        return records.get(spec.id)

    queue = TrialQueue(the_study, lookup)
    while spec := queue.next():
        records[spec.id] = everything(spec)
        order.append(spec)
        queue.ended(spec)
        if len(order) % 5 == 0:  # interrupted: the schedule is made again from the records
            queue = TrialQueue(the_study, lookup)
    progress = queue.progress()
    assert (progress.done, progress.trials) == (len(records), len(records))
    by_optimizer = {arm.optimizer: arm for arm in arms(the_study, lookup)}
    return by_optimizer, order


def nothing(spec):
    return None


def test_the_reported_length_selects():
    """The sweep locates 1e-3; with the reported length AdamW's best rate lies far beyond the first neighbors."""
    own = {"AdamW": {"options": {"own": True}}}
    the_study = searching({"seeds": [0, 10], "points": 5}, optimizers=("AdamW", "PsiLogic"), settings=3, **own)

    def full(lr, options):
        best = 0.1 if options.get("own") else 1.1e-3
        return near(best)(lr, options)

    found, order = run(the_study, near(1e-3), full)
    adamw = found["AdamW"]
    assert (adamw.located.lr, adamw.selected.lr) == (1e-3, 0.0316228)
    assert len(adamw.others) + len(adamw.final) == 5 * 2 + 2
    psilogic = found["PsiLogic"]
    assert psilogic.selected.lr == 1e-3
    assert len(psilogic.others) + len(psilogic.final) == 4 * 2 + 2  # 1e-3, its neighbors, and the one of the second
    (vit,) = forecast(rehearsed(the_study), nothing)
    assert (vit.sweep_trials, vit.final_trials, vit.more_final_trials) == (20, 20, 4)
    assert [spec.stage for spec in order].count("final") == 22

    analyses = analysed(the_study, Scored(the_study, near(1e-3), full))
    flags = {flag.name: flag for flag in analyses.of(audit)}
    assert flags["rate at the edge"].severity == "warn"  # the highest that was trained at the reported length
    assert "selected by one search" not in flags
    of_adamw, of_psilogic = rate_table(analyses.results).rows
    assert texts_of(of_adamw)[2:4] == ["0.001", "0.0316"]
    assert texts_of(of_psilogic)[2:4] == ["0.001", "0.001"]
    spent_on_adamw, spent_on_psilogic = budgets(analyses)
    assert (spent_on_adamw.final_trials, spent_on_adamw.final_steps) == (12, 120)
    assert (spent_on_psilogic.final_trials, spent_on_psilogic.final_steps) == (10, 100)
    selected = set()
    final_trials_of_psilogic = set()
    for row in search_table(analyses.results).rows:
        if row.selected:
            selected.add((row.optimizer, row.lr))
        if row.stage == "final" and row.optimizer == "PsiLogic":
            final_trials_of_psilogic.add((row.lr, row.seed))
    assert selected == {("AdamW", 0.0316228), ("PsiLogic", 1e-3)}
    assert len(final_trials_of_psilogic) == 10
    assert len(final_table(analyses.results).rows) == 2 * 2 * 3  # of the selected settings only
    figure = drawn(the_study, Scored(the_study, near(1e-3), full))
    assert "AdamW, rate 0.0316: 0.9885, selected." in " ".join(figure.parts[0].said)
    sentences = sentences_of(figure)
    assert "AdamW, rate 0.00316: 0.9655, 2 seeds" in sentences
    assert "PsiLogic, rate 0.001: 0.9990, 3 seeds, selected" in sentences
    assert "PsiLogic, rate 0.0001: 0.9770, in the sweep" in sentences


@pytest.mark.parametrize(
    ("gap", "other", "fragile"), [(0.0, 0.5, True), (0.2, 0.5, False), (0.0, 0.9, False), (0.0, None, False)]
)
def test_a_verdict_holds_with_every_setting_that_validation_cannot_separate(gap, other, fragile):
    """PsiLogic is better at its selected rate; the next one has another test value, and `gap` on validation."""
    the_study = searching(optimizers=("AdamW", "PsiLogic"), settings=3, seeds=(1, 2, 3, 4, 5))

    class Close(Records):
        def __call__(self, spec):
            if spec.stage != "final":
                return super().__call__(spec)
            if spec.optimizer.name == "AdamW":
                worse = 0.0 if spec.lr == 1e-3 else 0.01
                return self.record(spec, self.outcome(spec) - worse)
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

    records = Close(the_study, AdamW=[0.5, 0.501, 0.502, 0.501, 0.5])
    (comparison,) = analysed(the_study, records).comparisons
    expected = "inconclusive (depends on the setting)" if fragile else "better"
    assert comparison.statement == expected


def test_rates_are_the_grids_times_the_scale():
    the_study = searching({"budget": 4}, Lion={"lr_scale": 0.3})
    found, _ = run(the_study, near(6e-4))
    first_settings = the_study.search("Lion").first()
    assert [setting.lr for setting in first_settings] == [3e-5, 3e-4, 3e-3]
    assert rates_of(found["AdamW"].sweep) == {1e-5, 1e-4, 1e-3, 1e-2}  # beyond the better end
    assert rates_of(found["Lion"].sweep) == {3e-5, 3e-4, 3e-3, 3e-2}
    found, _ = run(the_study, near(1.0))
    assert rates_of(found["Lion"].sweep) == {3e-5, 3e-4, 3e-3, 3e-2}  # beyond its own edge
    results = collect(the_study, Scored(the_study, near(1.0)))
    added = [row for row in search_table(results) if row.added]
    assert {(row.optimizer, row.lr) for row in added} == {("AdamW", 0.1), ("Lion", 3e-2), ("PsiLogic", 0.1)}
    caption = rate_table(results).caption
    tried = "3 rates from 0.0001 to 0.01, times the optimizer's lr_scale, then rates beyond the end nearer to the best"
    assert tried in caption


def drawn(the_study, records):
    analyses = analysed(the_study, records)
    with figure_options():
        return draw_lr_sensitivity(analyses, styles_of(analyses.suite))


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
    selected = []
    for row in table.to_dicts():
        if row["selected"] and row["metric"] == "accuracy":
            selected.append(row)
            assert (row["arena"], row["lr"], row["weight_decay"], row["momentum"]) == ("vit", 1e-3, None, 0.9)
    trials = [(row["optimizer"], row["seed"]) for row in selected]
    assert trials == [*product(("AdamW", "PsiLogic"), range(4))]
    assert len(table.rows) == 2 * 2 * (9 + 3)
    momentums = [row[4] for row in rate_table(results).rows]
    assert [momentum.text for momentum in momentums] == ["0.9", "0.9"]
    assert [momentum.value for momentum in momentums] == [0.9, 0.9]
    sensitivity = drawn(the_study, records)
    sentences = sentences_of(sensitivity)
    assert len(sentences) == 2 * (9 + 1)
    assert "AdamW, rate 0.001, momentum 0.9: 0.5000, 3 seeds, selected" in sentences
    assert "A line for each value of momentum." in sensitivity.caption


def test_the_label_of_a_trial_has_the_searched_hyperparameter():
    first_arm = arms(searching({"extra": DECAYS}), nothing)[0]
    spec = first_arm.sweep[1]
    assert spec.label() == "vit AdamW lr=0.0001 sweep seed 0"
    assert spec.label(["momentum", "weight_decay"]) == "vit AdamW lr=0.0001 weight_decay=0.01 sweep seed 0"


def test_settings_of_fairbench_and_of_the_suite_have_two_columns():
    the_study = study(("vit",), ("SGD", "PsiLogic"))
    plans = {"SGD": OptimizerPlan(options={"momentum": 0.5}), "PsiLogic": OptimizerPlan("own:PsiLogic")}
    resolved = dict(the_study.optimizers)
    resolved["SGD"] = replace(resolved["SGD"], options={"momentum": 0.5, "nesterov": True, "dampening": 0})
    the_study = replace(with_suite(the_study, optimizers=plans), optimizers=resolved)
    table = optimizer_table(analysed(the_study, Scored(the_study, near(1e-3))))
    sgd, psilogic = table.rows
    assert texts_of(sgd)[2:] == ["momentum = 0.5", "nesterov = True"]
    assert texts_of(psilogic)[2:] == ["nothing", "nothing"]
