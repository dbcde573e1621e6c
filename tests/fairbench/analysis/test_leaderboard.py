"""The leaderboard: ranks, verdicts seen from each optimizer, and times, by hand."""

from types import SimpleNamespace

import pytest
from fabricated import Records, analysed, finals, given, study

from fairbench.analysis.comparison.leaderboard import leaderboard
from fairbench.analysis.cost import costs
from fairbench.suites.compare import Compare

SEEDS = (1, 2, 3, 4)
# accuracy in vit, where high is better; the same numbers are the loss of gpt, where low is better
SCORES = {
    "PsiLogic": [0.5, 0.51, 0.52, 0.5],
    "AdamW": [0.9, 0.92, 0.91, 0.9],
    "Lion": [0.5, 0.512, 0.518, 0.5],
    "SGD": [0.7, "diverged", 0.71, 0.7],
    "Adam": [0.7, 0.71, 0.7, 0.7],
}


def judged(arenas=("gpt", "vit"), optimizers=("AdamW", "Lion", "PsiLogic", "SGD")):
    """The analyses of a study with these scores."""
    the_study = study(arenas, optimizers, SEEDS, margin=0.1, compare=Compare())
    scores = {name: SCORES[name] for name in optimizers}
    return analysed(the_study, **scores)


def standings(analyses, timed=()):
    """The leaderboard by optimizer, with these costs."""
    rows = leaderboard(given(analyses, {costs: timed}))
    return {row.optimizer: row for row in rows}


@pytest.fixture(scope="module")
def judgement():
    return judged()


def test_the_verdicts_are_those_on_each_optimizer_against_the_reference(judgement):
    found = standings(judgement)
    adamw = found["AdamW"]
    assert (adamw.better, adamw.worse, adamw.equivalent) == (1, 1, 0)  # a high number is good in vit and bad in gpt
    lion = found["Lion"]
    assert (lion.better, lion.worse, lion.equivalent, lion.inconclusive) == (0, 0, 2, 0)
    sgd = found["SGD"]
    assert (sgd.better, sgd.worse, sgd.equivalent, sgd.inconclusive, sgd.undecided) == (0, 0, 0, 0, 2)
    assert found["PsiLogic"].better is None
    assert found["PsiLogic"].undecided is None


def test_a_low_loss_and_a_high_accuracy_are_better(judgement):
    the_study = judgement.results.study
    low_loss = finals(arena="gpt", optimizer="AdamW", scores=[0.1, 0.12, 0.11, 0.1])
    records = Records(the_study, low_loss, **SCORES)
    adamw = standings(analysed(the_study, records))["AdamW"]
    assert (adamw.better, adamw.worse) == (2, 0)


def test_without_a_comparison_with_the_reference_there_is_no_count():
    the_study = study(("gpt", "vit"), seeds=SEEDS, reference="AdamW")
    found = standings(analysed(the_study, **SCORES))
    assert (found["PsiLogic"].better, found["PsiLogic"].worse) == (1, 1)
    assert (found["AdamW"].better, found["AdamW"].worse) == (None, None)
    assert (found["Lion"].better, found["Lion"].worse) == (None, None)


def test_the_best_mean_rank_is_first_and_diverged_arms_are_last(judgement):
    found = standings(judgement)
    # Lion and PsiLogic share the best mean of gpt, AdamW is third there and first in vit, SGD is last in both
    assert [*found][-1] == "SGD"
    ranks = {name: standing.mean_rank for name, standing in found.items()}
    assert ranks == {"Lion": 2, "PsiLogic": 2, "AdamW": 2, "SGD": 4}
    assert {standing.groups for standing in found.values()} == {"a"}  # two arenas separate no optimizers


def test_times_are_ratios_to_the_reference_and_medians_over_arenas(judgement):
    timed = [
        SimpleNamespace(arena="gpt", optimizer="PsiLogic", step_ms=2.0, train_ms=10.0),
        SimpleNamespace(arena="vit", optimizer="PsiLogic", step_ms=4.0, train_ms=10.0),
        SimpleNamespace(arena="gpt", optimizer="Lion", step_ms=1.0, train_ms=9.0),
        SimpleNamespace(arena="vit", optimizer="Lion", step_ms=6.0, train_ms=12.0),
        SimpleNamespace(arena="vit", optimizer="AdamW", step_ms=5.0, train_ms=11.0),
    ]
    found = standings(judgement, timed)
    assert found["Lion"].step_ratio == pytest.approx(1.0)
    assert found["Lion"].train_ratio == pytest.approx(1.05)
    assert found["AdamW"].step_ratio == pytest.approx(1.25)
    assert found["AdamW"].train_ratio == pytest.approx(1.1)
    assert found["SGD"].step_ratio is None
    assert found["PsiLogic"].step_ratio == 1.0


def test_state_is_what_the_registry_knows(judgement):
    found = standings(judgement)
    assert found["AdamW"].state == 2  # numbers for each parameter
    assert found["SGD"].state == 1
    assert found["PsiLogic"].state is None  # in the fabricated study its factory is not in the registry


def test_two_optimizers_or_one_arena_have_no_leaderboard():
    assert judged(arenas=("gpt",)).of(leaderboard) == []
    assert judged(optimizers=("AdamW", "PsiLogic")).of(leaderboard) == []
