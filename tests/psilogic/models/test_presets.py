"""The presets: their numbers, the priority of arguments, and that they stay torch optimizers."""

import copy
import pickle
from functools import cache

import pytest
import torch
from torch import nn
from trajectories import gradients, train

from psilogic import PsiLogic, PsiLogicGPT, PsiLogicNLP, PsiLogicViT

PRESETS = (PsiLogicNLP, PsiLogicViT, PsiLogicGPT)
FIELDS = ("gamma", "quantum_decay", "tau_scale", "max_cancel", "agc_clip", "grad_centralize", "weight_decay")
NUMBERS = {
    PsiLogicNLP: (0.03, 2e-4, 2.0, 0.05, 0.01, True, 1e-4),
    PsiLogicViT: (0.04, 0.0, 2.5, 0.04, 0.02, True, 1e-4),
    PsiLogicGPT: (0.02, 0.0, 3.0, 0.03, 0.0, False, 0.1),
}
GAMMAS = {PsiLogicNLP: {0.01, 0.03}, PsiLogicViT: {0.005, 0.02, 0.03}, PsiLogicGPT: {0.005, 0.02, 0.01}}
# A value for each option that no preset has.
OTHER = {
    "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.05, "gamma": 0.07, "p_ext": 2.0, "max_cancel": 0.01,
    "adaptive_tau": False, "tau_scale": 1.5, "chaos_tau": 0.25, "chaos_warmup": 7, "total_steps": 900,
    "gamma_T_max": 800, "quantum_decay": 1e-3, "agc_clip": 0.5, "agc_norm": "tensor", "chaos_signal": "relative",
    "chaos_scope": "group", "max_grad_norm": 1.0, "maximize": True, "foreach": False,
}  # fmt: skip


@cache
def module() -> nn.Module:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.Embedding(20, 8), layer, nn.LayerNorm(8), nn.Linear(8, 20))


def decays(group: dict) -> bool:
    return not group["name"].endswith("no_decay")


@pytest.mark.parametrize("preset", PRESETS)
def test_parameters_get_the_numbers_of_the_preset_in_one_group(preset):
    (group,) = preset(module().parameters()).param_groups
    assert tuple(group[field] for field in FIELDS) == NUMBERS[preset]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_module_gets_groups_with_gammas_of_their_own(preset):
    groups = preset(module(), lr=0.01).param_groups
    number = dict(zip(FIELDS, NUMBERS[preset], strict=True))
    assert {group["gamma"] for group in groups} == GAMMAS[preset]
    for group in groups:
        assert group["weight_decay"] == (number["weight_decay"] if decays(group) else 0.0)
        assert all(group[field] == number[field] for field in FIELDS if field not in ("gamma", "weight_decay"))
        assert group["lr"] == 0.01
    assert {id(p) for group in groups for p in group["params"]} == {id(p) for p in module().parameters()}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("option", [*OTHER, "grad_centralize"])
def test_arguments_replace_the_presets_values_in_all_groups(preset, option):
    value = OTHER.get(option, not NUMBERS[preset][FIELDS.index("grad_centralize")])
    for group in preset(module(), **{option: value}).param_groups:
        assert group[option] == (0.0 if option == "weight_decay" and not decays(group) else value)
    assert preset(module().parameters(), **{option: value}).param_groups[0][option] == value
    if option in ("gamma", "weight_decay", "quantum_decay", "agc_clip"):
        assert {group[option] for group in preset(module(), **{option: 0.0}).param_groups} == {0.0}


@pytest.mark.parametrize("preset", PRESETS)
def test_values_of_a_group_have_priority(preset):
    first, *rest = module().parameters()
    special = {"params": [first], "gamma": 0.5, "weight_decay": 0.25, "agc_clip": 0.125}
    groups = preset([special, {"params": rest}], gamma=0.07, agc_clip=0.5).param_groups
    assert [group["gamma"] for group in groups] == [0.5, 0.07]
    assert [group["weight_decay"] for group in groups] == [0.25, NUMBERS[preset][-1]]
    assert [group["agc_clip"] for group in groups] == [0.125, 0.5]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_steps_are_those_of_psilogic_with_the_same_groups_also_after_a_copy(preset, copied):
    left, right = copy.deepcopy(module()), copy.deepcopy(module())
    ours = preset(left, lr=0.01, chaos_warmup=0)
    options = dict(zip(FIELDS, NUMBERS[preset], strict=True))
    pairs = dict(zip(left.parameters(), right.parameters(), strict=True))
    keys = ("gamma", "weight_decay")
    groups = [{"params": [pairs[p] for p in g["params"]]} | {k: g[k] for k in keys} for g in ours.param_groups]
    theirs = PsiLogic(groups, lr=0.01, chaos_warmup=0, **options)
    for t, grads in enumerate(gradients(6, [p.shape for p in left.parameters()], torch.float32)):
        if t == 3:
            left, ours = copied((left, ours))
            assert type(ours) is preset
        train(ours, list(left.parameters()), [grads])
        train(theirs, list(right.parameters()), [grads])
        torch.testing.assert_close([*left.parameters()], [*right.parameters()], rtol=0, atol=0)
    assert not torch.equal(left[0].weight, module()[0].weight)


def test_a_group_that_comes_later_gets_the_presets_numbers():
    optimizer = PsiLogicGPT(module(), lr=0.01)
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2, 2))], "max_cancel": 0.5})
    group = optimizer.param_groups[-1]
    assert (group["gamma"], group["tau_scale"], group["max_cancel"], group["weight_decay"]) == (0.02, 3.0, 0.5, 0.1)
