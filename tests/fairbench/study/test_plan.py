"""Planning: the same search for everyone, from the records alone."""

import inspect
import math
from dataclasses import replace
from itertools import product

import pytest
from fabricated import Records, edited

from fairbench.optimizers.spec import ResolvedOptimizer
from fairbench.study.plan import arms
from fairbench.study.resolved_suite import ResolvedArena, ResolvedSuite
from fairbench.study.trial_queue import TrialQueue
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.loader import load_suite, parse_suite


@pytest.fixture
def study():
    """The arena gpt of `mini` with one optimizer: nothing heavy is loaded. Three rates are added to five."""
    content = load_suite("mini").to_json()
    content["sweep"] |= {"budget": 8}
    content["final"] |= {"settings": 1, "seeds": [1, 2, 3, 4, 5]}
    content["arenas"] = {"gpt": content["arenas"]["gpt"]}
    content["optimizers"] = {"PsiLogic": content["optimizers"]["PsiLogic"]}
    content |= {"reference": "PsiLogic", "compare": {}}
    suite = parse_suite(content, "test")
    optimizer = ResolvedOptimizer(
        name="PsiLogic",
        factory="psilogic:PsiLogic",
        options={"lr": 1e-3},
        arenas={},
        horizon="total_steps",
        groups="",
        code={"psilogic.optimizer": "0"},
    )
    arena = ResolvedArena(fingerprint="data", code={"torch": "2"}, starts={})
    return ResolvedSuite(
        suite=suite, device="cpu", arenas={"gpt": arena}, optimizers={"PsiLogic": optimizer}, environment={}
    )


def complete(study, val_loss, status=""):
    """Run the study: the validation loss is a function of the rate, or of rate and seed."""
    records = {}
    takes_seed = len(inspect.signature(val_loss).parameters) > 1

    def lookup(spec):
        return records.get(spec.id)

    queue = TrialQueue(study, lookup)
    while spec := queue.next():
        loss = val_loss(spec.lr, spec.seed) if takes_seed else val_loss(spec.lr)
        outcome = status or loss
        if math.isnan(loss):
            outcome = "diverged"
        record = Records().record(spec, outcome)
        if record.status == "finished":
            metrics = dict.fromkeys(("loss", "perplexity", "bits_per_byte"), loss)
            record = edited(record, "result.final", {"val": metrics, "test": {"loss": -spec.lr}})
        records[spec.id] = record
        queue.ended(spec)
    (arm,) = arms(study, lookup)
    return arm, records


def distance(best):
    """A loss that is lowest at the best rate."""
    return lambda lr: abs(math.log(lr / best))


def grid(arm):
    return [spec.lr for spec in arm.sweep]


def test_the_grid_is_log_spaced_and_the_best_inside_is_selected(study):
    """Rates are added beyond the nearer end, of equally near ones the better: above, below, and above again."""
    arm, _ = complete(study, distance(1.1e-3))
    assert grid(arm) == [3.16228e-5, 1e-4, 3.16228e-4, 1e-3, 3.16228e-3, 1e-2, 3.16228e-2, 1e-1]
    assert arm.selected.lr == 1e-3
    assert [spec.seed for spec in arm.final] == [1, 2, 3, 4, 5]
    assert {(spec.lr, spec.stage) for spec in arm.final} == {(1e-3, "final")}
    assert {spec.seed for spec in arm.sweep} == {0}


def test_selection_reads_the_validation_split_only(study):
    arm, records = complete(study, distance(1e-3))

    def better_on_test(spec):
        record = records.get(spec.id)
        if record is None:
            return None
        return edited(record, "result.final.test", {"loss": -1e9})

    (again,) = arms(study, better_on_test)
    assert again == arm


def test_a_diverged_trial_ranks_last(study):
    def loss(lr):
        return math.nan if lr > 5e-4 else 100 - lr

    arm, _ = complete(study, loss)
    assert arm.selected.lr == 3.16228e-4


def test_when_everything_diverges_the_grid_goes_down_and_no_final_trial_is_run(study):
    arm, records = complete(study, lambda lr: math.nan)
    assert min(grid(arm)) == 3.16228e-6
    assert arm.diverged
    assert arm.selected is None
    assert not arm.final
    assert len(records) == 8
    view = TrialQueue(study, lambda spec: records.get(spec.id)).progress()
    assert (view.done, view.trials, view.steps_left["gpt"]) == (8, 8, 0)


def test_of_equal_rates_the_lowest_wins(study):
    def loss(lr):
        return 0.0 if 6e-4 < lr < 5e-3 else 1.0

    arm, _ = complete(study, loss)
    assert arm.selected.lr == 1e-3


def test_an_incomplete_sweep_selects_nothing(study):
    arm, records = complete(study, distance(1e-3), status="failed")
    assert not arm.selected
    assert not arm.final
    view = TrialQueue(study, lambda spec: records.get(spec.id)).progress()
    plan = study.suite.arenas["gpt"]
    left = 3 * plan.sweep_steps + 5 * plan.steps
    assert (view.done, view.trials, view.steps_left["gpt"]) == (5, 5 + 3 + 5, left)


def test_the_horizon_follows_the_stage(study):
    arm, _ = complete(study, distance(1e-3))
    plan = study.suite.arenas["gpt"]
    assert {spec.optimizer.options["total_steps"] for spec in arm.sweep} == {plan.sweep_steps}
    assert {spec.optimizer.options["total_steps"] for spec in arm.final} == {plan.steps}


RATES = 3.16228e-4, 1e-3, 3.16228e-3, 1e-2, 3.16228e-2
WORKED = {
    # the sweep locates 1e-3 (seed 0); 1e-3 and 3.16228e-3 are the best by the seeds 1 and 2, the latter by all
    1e-3: [1, 1, 3, 5, 5, 5],
    3.16228e-3: [2, 2, 3, 1, 1, 1],
    3.16228e-4: [3, 4, 4, 0, 0, 0],
}


@pytest.fixture
def three(study):
    """The study with a short search, and three settings at the reported length."""
    suite = study.suite
    sweep = replace(suite.sweep, budget=0)
    final = replace(suite.final, settings=3)
    return replace(study, suite=replace(suite, sweep=sweep, final=final))


def with_final(study, **changed):
    """The study with other entries of `final`."""
    suite = study.suite
    return replace(study, suite=replace(suite, final=replace(suite.final, **changed)))


def tried(arm):
    """The final trials as rates and seeds."""
    return {(spec.lr, spec.seed) for spec in (*arm.others, *arm.final)}


def test_the_best_two_continue_and_the_best_mean_over_all_seeds_is_reported(three):
    def loss(lr, seed):
        if lr not in WORKED:
            return 9
        return WORKED[lr][seed]

    arm, records = complete(three, loss)
    rates = {*WORKED, 1e-2}  # the upper neighbor of the second best
    first_seeds = {*product(rates, (1, 2))}
    other_seeds = {*product(RATES[1:3], (3, 4, 5))}
    assert tried(arm) == first_seeds | other_seeds
    assert arm.located.lr == 1e-3
    assert arm.selected.lr == 3.16228e-3  # 19/5 and 8/5; 3.16228e-4, whose seeds 3 to 5 would be best, is out
    assert {spec.lr for spec in arm.final} == {3.16228e-3}
    assert [spec.seed for spec in arm.final] == [1, 2, 3, 4, 5]
    assert {spec.stage for spec in (*arm.others, *arm.final)} == {"final"}
    assert len(records) == 5 + 4 * 2 + 2 * 3
    del records[arm.others[0].id]  # nothing is selected while a trial is missing
    (partial,) = arms(three, lambda spec: records.get(spec.id))
    assert partial.selected is None
    assert partial.final == ()
    assert not partial.diverged
    assert partial.located.lr == 1e-3


def test_a_setting_that_diverges_later_is_not_reported_if_another_does_not(three):
    def loss(lr, seed):
        if lr == 1e-3 and seed >= 4:
            return math.nan
        return distance(1e-3)(lr)

    arm, _ = complete(three, loss)
    assert arm.selected.lr != 1e-3

    def loss_of_both(lr, seed):
        if seed == 3 or (seed == 4 and lr == 1e-3):
            return math.nan
        return distance(1e-3)(lr)

    both, _ = complete(three, loss_of_both)
    assert both.selected.lr != 1e-3  # with fewer diverged seeds
    assert not both.diverged


def test_seeds_below_the_halving_and_a_single_setting(three):
    arm, _ = complete(with_final(three, seeds=[7]), distance(1.1e-3))
    assert tried(arm) == {(lr, 7) for lr in RATES[:4]}
    alone = with_final(three, settings=1)
    arm, records = complete(alone, distance(1e-3))
    sweep = {spec.id: records[spec.id] for spec in arm.sweep}
    queue = TrialQueue(alone, lambda spec: sweep.get(spec.id))
    assert [queue.next().seed for _ in range(5)] == [1, 2, 3, 4, 5]  # all of them can run at once


def test_options_of_an_arena_replace_the_optimizers_own(study):
    resolved = replace(study.optimizers["PsiLogic"], options={"gamma": 1, "p_ext": 2}, arenas={"gpt": {"gamma": 3}})
    assert resolved.spec("gpt", {"lr": 0.1}, 7).options == {"gamma": 3, "p_ext": 2, "lr": 0.1, "total_steps": 7}
    assert resolved.spec("vit", {"lr": 0.1, "weight_decay": 0.5}, 7).options["gamma"] == 1
    assert resolved.spec("vit", {"lr": 0.1, "weight_decay": 0.5}, 7).options["weight_decay"] == 0.5


def test_everything_that_determines_a_trial_changes_its_id(study):
    arm, _ = complete(study, distance(1e-3))
    spec = arm.final[0]
    ids = {spec.id}
    for path in ("arena.fingerprint", "arena.code.torch", "optimizer.code.helper", "training.steps", "stage", "seed"):
        value = spec.as_stored
        *parents, key = path.split(".")
        part = value
        for parent in parents:
            part = part[parent]
        is_number = isinstance(part.get(key), int)
        part[key] = 77 if is_number else "other"
        ids.add(TrialSpec.from_json(value).id)
    assert len(ids) == 7
    assert TrialSpec.from_json(spec.to_json()).id == spec.id


@pytest.mark.parametrize("part", ["optimizers", "arenas"])
def test_a_plan_without_a_part_of_its_suite_is_damaged(study, part):
    plan = study.to_json()
    assert ResolvedSuite.from_json(plan, "test") == study
    with pytest.raises(ValueError, match="its optimizers or arenas are not those of its suite"):
        ResolvedSuite.from_json({**plan, part: {}}, "test")
