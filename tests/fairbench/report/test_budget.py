"""What each arm got: counted by hand, and as the optimizers themselves take their options."""

from dataclasses import replace

import pytest
from fabricated import Records, finals, study

from fairbench.analysis.results import collect
from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan, ResolvedOptimizer
from fairbench.report.tables.budget import Budget, budgets

pytestmark = pytest.mark.xdist_group("libraries")  # one worker imports what studies need


def shares(resolved=None, plans=None, **scores):
    """The budgets of a study in vit; some of its optimizers and their plans are as the test says."""
    the_study = study(("vit",), ("AdamW", "PsiLogic"))
    optimizers = {**the_study.optimizers, **(resolved or {})}
    suite = replace(the_study.suite, optimizers={**the_study.suite.optimizers, **(plans or {})})
    changed = replace(the_study, suite=suite, optimizers=optimizers)
    return budgets(collect(changed, Records(finals(changed, **scores))))


def test_trials_and_steps_are_those_with_a_record():
    found = shares(PsiLogic=[0.9, "diverged", "failed"], AdamW=[0.5, None, 0.5])
    counts = [(x.optimizer, x.sweep_trials, x.sweep_steps, x.final_trials, x.final_steps) for x in found]
    assert counts == [("AdamW", 3, 30, 2, 20), ("PsiLogic", 3, 30, 3, 15)]  # it diverged after 5 steps of 10


def of(name, factory="", **options):
    """What the budgets says of an optimizer with these options, by the bench's own way of reading them."""
    plan = OptimizerPlan(factory, options)
    return next(x for x in shares({name: resolve_optimizer(name, plan)}, {name: plan}) if x.optimizer == name)


@pytest.mark.parametrize(
    ("factory", "options", "decay"),
    [
        ("torch.optim:AdamW", {}, "0.01, decoupled"),
        ("torch.optim:Adam", {"weight_decay": 0.1}, "0.1, coupled"),
        ("torch.optim:Adam", {"weight_decay": 0.1, "decoupled_weight_decay": True}, "0.1, decoupled"),
        ("torch.optim:Adam", {}, "0"),
        ("torch.optim:Adagrad", {"weight_decay": 0.1}, "0.1"),
        ("torch.optim:LBFGS", {}, "–"),
        ("pytorch_optimizer:Lion", {"weight_decay": 0.1}, "0.1, decoupled"),
        ("pytorch_optimizer:Lion", {"weight_decay": 0.1, "weight_decouple": False}, "0.1, coupled"),
        ("psilogic:PsiLogic", {}, "0.0001, decoupled"),
        ("psilogic:PsiLogicViT", {}, "by the preset"),
        ("psilogic:PsiLogicViT", {"weight_decay": 0.1}, "0.1, decoupled"),
    ],
)
def test_weight_decay(factory, options, decay):
    assert of("AdamW", factory, **options).decay == decay


@pytest.mark.parametrize(
    ("factory", "options", "treatment"),
    [
        ("torch.optim:AdamW", {}, ("norm 1", "none", "none")),
        ("psilogic:PsiLogic", {"max_grad_norm": 2.5}, ("norm 1, its own 2.5", "none", "none")),
        ("psilogic:PsiLogic", {"grad_centralize": True, "agc_clip": 0.02}, ("norm 1", "on", "0.02")),
        ("psilogic:PsiLogicNLP", {}, ("norm 1", "by the preset", "by the preset")),
        ("psilogic:PsiLogicNLP", {"grad_centralize": False}, ("norm 1", "none", "by the preset")),
    ],
)
def test_treatment(factory, options, treatment):
    found = of("AdamW", factory, **options)
    assert (found.clipping, found.centralization, found.adaptive_clipping) == treatment
    assert found.groups == "one for all"


def test_options_of_the_arena_win_and_are_named():
    plan = OptimizerPlan("", {"weight_decay": 0.1}, {"vit": {"weight_decay": 0.3}, "gpt": {"weight_decay": 0.2}})
    resolved = ResolvedOptimizer("AdamW", "torch.optim:AdamW", {"weight_decay": 0.1}, plan.arenas, False, "", {})
    found = shares({"AdamW": resolved}, {"AdamW": plan})[0]
    assert isinstance(found, Budget)
    assert (found.options, found.decay) == ("weight_decay = 0.3", "0.3, decoupled")
