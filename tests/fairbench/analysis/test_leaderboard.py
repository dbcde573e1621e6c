"""The leaderboard: ranks, verdicts seen from each optimizer, and times, by hand."""

from types import SimpleNamespace

import pytest
from fabricated import Records, analysed, finals, given, study

from fairbench.analysis.comparison.leaderboard import leaderboard
from fairbench.analysis.cost import costs
from fairbench.suites.schema import Compare

SEEDS = (1, 2, 3, 4)
# accuracy in vit, where high is better; the same numbers are the loss of gpt, where low is better
SCORES = {
    "PsiLogic": [0.5, 0.51, 0.52, 0.5], "AdamW": [0.9, 0.92, 0.91, 0.9], "Lion": [0.5, 0.512, 0.518, 0.5],
    "SGD": [0.7, "diverged", 0.71, 0.7], "Adam": [0.7, 0.71, 0.7, 0.7],
}  # fmt: skip


def of(arenas=("gpt", "vit"), optimizers=("AdamW", "Lion", "PsiLogic", "SGD")):
    the_study = study(arenas, optimizers, SEEDS, margin=0.1, compare=Compare())
    return analysed(the_study, **{name: SCORES[name] for name in optimizers})


def standings(analyses, timed=()):
    return leaderboard(given(analyses, {costs: timed}))


@pytest.fixture(scope="module")
def judgement():
    return of()


def test_the_verdicts_are_those_on_each_optimizer_against_the_reference(judgement):
    found = {x.optimizer: x for x in standings(judgement)}
    adamw, lion, sgd = found["AdamW"], found["Lion"], found["SGD"]
    assert (adamw.better, adamw.worse, adamw.equivalent) == (1, 1, 0)  # a high number is good in vit and bad in gpt
    assert (lion.better, lion.worse, lion.equivalent, lion.inconclusive) == (0, 0, 2, 0)
    assert (sgd.better, sgd.worse, sgd.equivalent, sgd.inconclusive, sgd.undecided) == (0, 0, 0, 0, 2)
    assert (found["PsiLogic"].better, found["PsiLogic"].undecided) == (None, None)
    the_study = judgement.results.study
    low_loss = finals(arena="gpt", optimizer="AdamW", scores=[0.1, 0.12, 0.11, 0.1])
    records = Records(the_study, low_loss, **SCORES)
    adamw = {x.optimizer: x for x in standings(analysed(the_study, records))}["AdamW"]
    assert (adamw.better, adamw.worse) == (2, 0)  # low loss, high accuracy


def test_without_a_comparison_with_the_reference_there_is_no_count():
    the_study = study(("gpt", "vit"), seeds=SEEDS, reference="AdamW")
    counts = {x.optimizer: (x.better, x.worse) for x in standings(analysed(the_study, **SCORES))}
    assert counts == {"PsiLogic": (1, 1), "AdamW": (None, None), "Lion": (None, None)}


def test_the_best_mean_rank_is_first_and_diverged_arms_are_last(judgement):
    found = standings(judgement)
    # Lion and PsiLogic share the best mean of gpt, AdamW is third there and first in vit, SGD is last in both
    assert [(x.optimizer, x.mean_rank) for x in found][-1] == ("SGD", 4)
    assert {x.optimizer: x.mean_rank for x in found} == {"Lion": 2, "PsiLogic": 2, "AdamW": 2, "SGD": 4}
    assert {x.groups for x in found} == {"a"}  # two arenas separate no optimizers


def test_times_are_ratios_to_the_reference_and_medians_over_arenas(judgement):
    times = {("gpt", "PsiLogic"): (2.0, 10.0), ("vit", "PsiLogic"): (4.0, 10.0)}
    times |= {("gpt", "Lion"): (1.0, 9.0), ("vit", "Lion"): (6.0, 12.0), ("vit", "AdamW"): (5.0, 11.0)}
    timed = [SimpleNamespace(arena=a, optimizer=o, step_ms=s, train_ms=t) for (a, o), (s, t) in times.items()]
    found = {x.optimizer: x for x in standings(judgement, timed)}
    assert (found["Lion"].step_ratio, found["Lion"].train_ratio) == pytest.approx((1.0, 1.05))
    assert (found["AdamW"].step_ratio, found["AdamW"].train_ratio) == pytest.approx((1.25, 1.1))
    assert (found["SGD"].step_ratio, found["PsiLogic"].step_ratio) == (None, 1.0)


def test_state_is_what_the_registry_knows(judgement):
    found = {x.optimizer: x.state for x in standings(judgement)}
    assert found["AdamW"] == 2
    assert found["SGD"] == 1
    assert found["PsiLogic"] is None  # the fabricated study has it from a module that has none


def test_two_optimizers_or_one_arena_have_no_leaderboard():
    assert of(arenas=("gpt",)).of(leaderboard) == []
    assert of(optimizers=("AdamW", "PsiLogic")).of(leaderboard) == []
