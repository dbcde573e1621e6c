"""Budget and treatment of each optimizer: trials, steps, weight decay, clipping."""

from dataclasses import replace

import pytest
from fabricated import analysed, study

from fairbench.analysis.budget import budgets
from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan, ResolvedOptimizer


def shares(resolved=None, plans=None, **scores):
    """The budgets of a study in vit; some of its optimizers and their plans are as the test says."""
    the_study = study(("vit",), ("AdamW", "PsiLogic"))
    optimizers = dict(the_study.optimizers)
    optimizers.update(resolved or {})
    planned = dict(the_study.suite.optimizers)
    planned.update(plans or {})
    suite = replace(the_study.suite, optimizers=planned)
    changed = replace(the_study, suite=suite, optimizers=optimizers)
    return budgets(analysed(changed, **scores))


def test_trials_and_steps_are_those_with_a_record():
    adamw, psilogic = shares(PsiLogic=[0.9, "diverged", "failed"], AdamW=[0.5, None, 0.5])
    assert adamw.optimizer == "AdamW"
    assert (adamw.sweep_trials, adamw.sweep_steps) == (3, 30)
    assert (adamw.final_trials, adamw.final_steps) == (2, 20)
    assert psilogic.optimizer == "PsiLogic"
    assert (psilogic.sweep_trials, psilogic.sweep_steps) == (3, 30)
    assert (psilogic.final_trials, psilogic.final_steps) == (3, 15)  # it diverged after 5 steps of 10


def of(name, factory="", **options):
    """What the budgets says of an optimizer with these options, by the bench's own way of reading them."""
    plan = OptimizerPlan(factory, options)
    found = shares(resolved={name: resolve_optimizer(name, plan)}, plans={name: plan})
    (row,) = [row for row in found if row.optimizer == name]
    return row


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
    in_arenas = {"vit": {"weight_decay": 0.3}, "gpt": {"weight_decay": 0.2}}
    plan = OptimizerPlan("", {"weight_decay": 0.1}, in_arenas)
    resolved = ResolvedOptimizer("AdamW", "torch.optim:AdamW", {"weight_decay": 0.1}, in_arenas, "", "", {})
    found = shares({"AdamW": resolved}, {"AdamW": plan})[0]
    assert (found.options, found.decay) == ("weight_decay = 0.3", "0.3, decoupled")
