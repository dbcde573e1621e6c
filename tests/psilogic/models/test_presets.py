"""The presets: their numbers, the priority of arguments, and that they stay torch optimizers."""

import copy
import pickle
from functools import cache

import pytest
import torch
from torch import nn
from trajectories import gradients, train

from psilogic import PsiLogic, PsiLogicGPT, PsiLogicNLP, PsiLogicViT

NUMBERS = {
    PsiLogicNLP: {
        "gamma": 0.03,
        "quantum_decay": 2e-4,
        "tau_scale": 2.0,
        "max_cancel": 0.05,
        "agc_clip": 0.01,
        "grad_centralize": True,
        "weight_decay": 1e-4,
    },
    PsiLogicViT: {
        "gamma": 0.04,
        "quantum_decay": 0.0,
        "tau_scale": 2.5,
        "max_cancel": 0.04,
        "agc_clip": 0.02,
        "grad_centralize": True,
        "weight_decay": 1e-4,
    },
    PsiLogicGPT: {
        "gamma": 0.02,
        "quantum_decay": 0.0,
        "tau_scale": 3.0,
        "max_cancel": 0.03,
        "agc_clip": 0.0,
        "grad_centralize": False,
        "weight_decay": 0.1,
    },
}
"""The hyperparameters of each preset."""
PRESETS = tuple(NUMBERS)
GAMMAS = {PsiLogicNLP: {0.01, 0.03}, PsiLogicViT: {0.005, 0.02, 0.03}, PsiLogicGPT: {0.005, 0.02, 0.01}}
"""The gammas of the groups that each preset makes of a module."""
OTHER = {
    "betas": (0.8, 0.95),
    "eps": 1e-6,
    "weight_decay": 0.05,
    "gamma": 0.07,
    "p_ext": 2.0,
    "max_cancel": 0.01,
    "adaptive_tau": False,
    "tau_scale": 1.5,
    "chaos_tau": 0.25,
    "chaos_warmup": 7,
    "total_steps": 900,
    "gamma_T_max": 800,
    "quantum_decay": 1e-3,
    "agc_clip": 0.5,
    "agc_norm": "tensor",
    "chaos_signal": "relative",
    "chaos_scope": "group",
    "max_grad_norm": 1.0,
    "maximize": True,
    "foreach": False,
}
"""A value for each option that no preset has."""


@cache
def module() -> nn.Module:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.Embedding(20, 8), layer, nn.LayerNorm(8), nn.Linear(8, 20))


def pickled(value):
    return pickle.loads(pickle.dumps(value))


def decays(group: dict) -> bool:
    return not group["name"].endswith("no_decay")


@pytest.mark.parametrize("preset", PRESETS)
def test_parameters_get_the_numbers_of_the_preset_in_one_group(preset):
    (group,) = preset(module().parameters()).param_groups
    assert NUMBERS[preset].items() <= group.items()


@pytest.mark.parametrize("preset", PRESETS)
def test_a_module_gets_groups_with_gammas_of_their_own(preset):
    groups = preset(module(), lr=0.01).param_groups
    assert {group["gamma"] for group in groups} == GAMMAS[preset]
    members = []
    for group in groups:
        expected = {**NUMBERS[preset], "lr": 0.01, "gamma": group["gamma"]}
        if not decays(group):
            expected["weight_decay"] = 0.0
        assert expected.items() <= group.items()
        members += group["params"]
    assert set(map(id, members)) == set(map(id, module().parameters()))


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("option", [*OTHER, "grad_centralize"])
def test_arguments_replace_the_presets_values_in_all_groups(preset, option):
    value = OTHER.get(option, not NUMBERS[preset]["grad_centralize"])
    for group in preset(module(), **{option: value}).param_groups:
        never_decays = option == "weight_decay" and not decays(group)
        assert group[option] == (0.0 if never_decays else value)
    assert preset(module().parameters(), **{option: value}).param_groups[0][option] == value
    if option in ("gamma", "weight_decay", "quantum_decay", "agc_clip"):
        assert {group[option] for group in preset(module(), **{option: 0.0}).param_groups} == {0.0}


@pytest.mark.parametrize("preset", PRESETS)
def test_values_of_a_group_have_priority(preset):
    first, *rest = module().parameters()
    special = {"params": [first], "gamma": 0.5, "weight_decay": 0.25, "agc_clip": 0.125}
    groups = preset([special, {"params": rest}], gamma=0.07, agc_clip=0.5).param_groups
    assert [group["gamma"] for group in groups] == [0.5, 0.07]
    assert [group["weight_decay"] for group in groups] == [0.25, NUMBERS[preset]["weight_decay"]]
    assert [group["agc_clip"] for group in groups] == [0.125, 0.5]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_steps_are_those_of_psilogic_with_the_same_groups_also_after_a_copy(preset, copied):
    model = copy.deepcopy(module())
    ours = preset(model, lr=0.01, chaos_warmup=0)
    twin = copy.deepcopy(module())
    twins = list(twin.parameters())
    twin_of = dict(zip(model.parameters(), twins, strict=True))
    groups = []
    for group in ours.param_groups:
        params = [twin_of[p] for p in group["params"]]
        groups.append({"params": params, "gamma": group["gamma"], "weight_decay": group["weight_decay"]})
    theirs = PsiLogic(groups, lr=0.01, chaos_warmup=0, **NUMBERS[preset])
    for t, grads in enumerate(gradients(6, [p.shape for p in twins], torch.float32)):
        if t == 3:
            model, ours = copied((model, ours))
            assert type(ours) is preset
        params = list(model.parameters())
        train(ours, params, [grads])
        train(theirs, twins, [grads])
        torch.testing.assert_close(params, twins, rtol=0, atol=0)
    assert not torch.equal(model[0].weight, module()[0].weight)


def test_a_group_that_comes_later_gets_the_presets_numbers():
    optimizer = PsiLogicGPT(module(), lr=0.01)
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2, 2))], "max_cancel": 0.5})
    group = optimizer.param_groups[-1]
    assert group["gamma"] == 0.02
    assert group["tau_scale"] == 3.0
    assert group["max_cancel"] == 0.5
    assert group["weight_decay"] == 0.1
