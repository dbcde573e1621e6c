"""Calls that were right for the published package psilogic 0.3 to 0.6, and calls of AdamW, which stay right."""

import inspect
import warnings

import pytest
import torch
from torch import nn

import psilogic
from psilogic import PsiLogic, PsiLogicGPT, PsiLogicNLP, PsiLogicViT
from psilogic.published_calls import GONE

BETAS = (0.9, 0.999)
PUBLISHED = [
    "params",
    "lr",
    "betas",
    "weight_decay",
    "gamma",
    "p_ext",
    "quantum_decay",
    "eps",
    "grad_centralize",
    "chaos_tau",
    "chaos_warmup",
    "adaptive_tau",
    "tau_scale",
    "max_cancel",
    "agc_clip",
    "gamma_T_max",
    "use_foreach",
    "use_fused_cuda",
    "lion_mode",
    "gamma_auto",
    "sync_chaos_ddp",
    "profile_step_time",
]
"""The arguments of PsiLogic in 0.5.0 and 0.6.0, in their order; those before lack some of the last five."""
OF_VIT = ("lion_blocks",)
"""What a preset of 0.4.0 to 0.6.0 took besides."""
ALL = (PsiLogic, PsiLogicNLP, PsiLogicGPT, PsiLogicViT)


def weights():
    return [nn.Parameter(torch.ones(2))]


def eps_of(*positional, **named):
    return PsiLogic(weights(), *positional, **named).defaults["eps"]


def test_what_is_gone_is_what_the_package_had_and_this_one_has_not():
    here = inspect.signature(PsiLogic).parameters
    assert set(GONE) == {name for name in (*PUBLISHED, *OF_VIT) if name not in here}


@pytest.mark.parametrize("name", GONE)
def test_arguments_that_are_gone_are_refused_with_what_to_write_instead(name):
    message = f"no argument {name}, unlike psilogic 0.3 to 0.6: {GONE[name][:20]}"
    for optimizer in ALL:
        with pytest.raises(TypeError, match=message):
            optimizer(weights(), lr=1e-3, **{name: True})
    with pytest.raises(TypeError, match=f"no argument {name}"):
        PsiLogic([{"params": weights(), name: True}])
    with pytest.raises(TypeError, match=f"no argument {name}"):
        psilogic.auto(nn.Conv2d(3, 2, 3), 1e-3, 10, **{name: True})


OLD = [
    (BETAS, 0.1),
    (BETAS, 0.05),
    (BETAS, 0.01),
    (BETAS, 5e-3),
    (BETAS, 1),
    (BETAS, 1e-4, 0.05, 1.0),
    (BETAS, 1e-4, 0.05, 1.0, 0.0),
    (BETAS, 1e-4, 0.05, 1.0, 0.0, 1e-8),
]


@pytest.mark.parametrize("arguments", OLD, ids=str)
def test_a_fourth_argument_that_can_only_be_a_weight_decay_is_refused(arguments):
    with pytest.raises(TypeError, match=rf"was weight_decay: write weight_decay={arguments[1]!r} or eps"):
        PsiLogic(weights(), 1e-3, *arguments)


def test_a_fourth_argument_and_an_eps_is_the_old_order():
    with pytest.raises(TypeError, match=r"write weight_decay=1e-06 or eps=1e-06$"):
        PsiLogic(weights(), 1e-3, BETAS, 1e-6, eps=1e-8)


@pytest.mark.parametrize("value", [0, 0.0, 1e-5, 1e-4, 5e-4, 1e-3])
def test_a_fourth_argument_that_may_be_either_is_an_eps_with_a_warning(value):
    message = rf"eps is {value!r}: .* write weight_decay={value!r} or eps="
    for more in ((), (0.1,), (0.1, False)):
        with pytest.warns(UserWarning, match=message) as warned:
            assert eps_of(1e-3, BETAS, value, *more) == value
        assert warned[0].filename == __file__


@pytest.mark.parametrize("eps", [1e-15, 1e-8, 1e-7, 1e-6, 9e-6])
def test_adamws_order_is_silent(eps):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for arguments in ((BETAS, eps), (BETAS, eps, 0.1), (BETAS, eps, 0.1, False)):
            ours = PsiLogic(weights(), 1e-3, *arguments).defaults
            theirs = torch.optim.AdamW(weights(), 1e-3, *arguments).defaults
            given = ("lr", "betas", "eps", "weight_decay")[: len(arguments) + 1]
            for name in given:
                assert ours[name] == theirs[name]


@pytest.mark.parametrize("eps", [0.1, 1e-4, 0.0, 1.0])
def test_an_eps_of_any_size_is_taken_where_it_can_be_nothing_else(eps):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert eps_of(1e-3, BETAS, eps=eps) == eps
        assert eps_of(1e-3, BETAS, eps, weight_decay=0.1) == eps
        assert PsiLogicGPT(weights(), 1e-3, BETAS, eps, 0.1).defaults["eps"] == eps


@pytest.mark.parametrize("preset", ALL[1:])
def test_a_third_argument_of_a_preset_that_is_a_number_is_refused(preset):
    with pytest.raises(TypeError, match=r"was gamma_T_max: write gamma_T_max=1000$"):
        preset(weights(), 3e-4, 1000)
    assert preset(weights(), 3e-4, gamma_T_max=1000).defaults["gamma_T_max"] == 1000


def test_bad_values_keep_their_own_errors():
    for value in ("0.1", None, -1.0, float("nan"), torch.tensor([0.1, 0.2]), True):
        with pytest.raises(ValueError, match="eps"):
            PsiLogic(weights(), 1e-3, BETAS, value)


def test_a_class_of_the_user_may_pass_its_arguments_on():
    class Own(PsiLogic):
        def __init__(self, params, rate):
            super().__init__(params, rate, BETAS, 1e-8, 0.1)

    assert Own(weights(), 1e-3).defaults["weight_decay"] == 0.1
    assert list(inspect.signature(PsiLogic).parameters)[:5] == ["params", "lr", "betas", "eps", "weight_decay"]
