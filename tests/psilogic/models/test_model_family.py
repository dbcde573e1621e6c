"""psilogic.auto: which preset a model gets, and that arguments are passed on."""

import logging
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from example_models import Holder, bert, build, gpt2, trainable, vit
from family_cases import CASES, Block, tokens_and
from torch import nn
from trajectories import params_of

import psilogic
from psilogic import PsiLogicGPT, PsiLogicNLP, PsiLogicViT

pytestmark = pytest.mark.xdist_group("models")  # one worker loads the models


@pytest.mark.parametrize(("make", "preset"), CASES)
def test_the_preset_is_that_of_the_model(make, preset):
    model = build(make)
    optimizer = psilogic.auto(model, 0.01, 100)
    assert type(optimizer) is preset
    listed = [id(p) for p in params_of(optimizer)]
    assert sorted(listed) == sorted(id(p) for p in trainable(model).values())


def hyperparameters(optimizer):
    """The groups without their parameters."""
    groups = []
    for group in optimizer.param_groups:
        groups.append({name: value for name, value in group.items() if name != "params"})
    return groups


@pytest.mark.parametrize(("make", "preset"), [(vit, PsiLogicViT), (gpt2, PsiLogicGPT), (bert, PsiLogicNLP)])
def test_arguments_arrive_and_wrapped_models_are_recognized(make, preset):
    model = build(make)
    for options in ({}, {"gamma": 0.07, "betas": (0.8, 0.95), "weight_decay": 0.3}):
        ours = psilogic.auto(model, lr=0.25, total_steps=123, **options)
        direct = preset(model, 0.25, total_steps=123, **options)
        assert hyperparameters(ours) == hyperparameters(direct)
    for wrapped in (torch.compile(model, backend="eager"), Holder(network=model)):
        assert type(psilogic.auto(wrapped, 0.01, 100)) is preset


def test_a_mask_without_data_is_ignored():
    with torch.device("meta"):
        model = tokens_and(Block(torch.ones(16, 16).tril()))
    assert type(psilogic.auto(model, 0.01, 100)) is PsiLogicNLP


def test_the_choice_and_its_reason_are_logged(caplog):
    with caplog.at_level(logging.INFO, logger="psilogic"):
        psilogic.auto(nn.Sequential(nn.Conv2d(3, 8, 3)), 0.01, 100)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("psilogic", "INFO")
    said = "psilogic.auto chose PsiLogicViT for a Sequential: convolutions in two or three dimensions"
    assert record.getMessage() == said


@dataclass(frozen=True)
class Refused:
    """A call that is refused, with the error and its message."""

    model: Any
    error: type
    message: str
    total_steps: int = 100
    options: dict = field(default_factory=dict)


MULTILAYER = "family of this Sequential.*PsiLogicNLP.*PsiLogic with its"
NOT_A_MODULE = r"model must be a torch\.nn\.Module, got "
REFUSED = {
    "multilayer perceptron": Refused(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)), ValueError, MULTILAYER),
    "nothing in it": Refused(nn.Identity(), ValueError, "family of this Identity"),
    "generator": Refused(nn.Linear(2, 2).parameters(), TypeError, NOT_A_MODULE + "generator"),
    "list": Refused([torch.zeros(2)], TypeError, NOT_A_MODULE + "list"),
    "misspelled": Refused(nn.GRU(16, 16), TypeError, "gama", options={"gama": 0.1}),
    "out of range": Refused(nn.GRU(16, 16), ValueError, "total_steps", total_steps=-1),
    "frozen": Refused(nn.Conv2d(3, 8, 3).requires_grad_(False), ValueError, "empty parameter list"),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_errors(call):
    with pytest.raises(call.error, match=call.message):
        psilogic.auto(call.model, 0.01, call.total_steps, **call.options)
