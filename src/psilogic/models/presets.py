"""PsiLogic with the hyperparameters of a model family: language models, GPT from scratch, vision."""

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.optim.optimizer import ParamsT

from psilogic.models.groups import gpt_groups, nlp_groups, vit_groups
from psilogic.models.model_family import ModelFamily, recognize
from psilogic.optimizer import PsiLogic
from psilogic.published_calls import check_preset_order, refusing

logger = logging.getLogger("psilogic")


class Preset(PsiLogic):
    """Base class of the presets, which replace default hyperparameters.

    A value in a parameter group has priority over the constructor's argument, and that over the preset. If `params` is
    a module, the preset makes the groups: their gammas replace the preset's, an explicit gamma all of them, and weight
    decay applies to the decayed groups. Groups that the caller passes are not changed; those without one decay.

    Args:
        params: a module, or as for `PsiLogic` parameters, named parameters or parameter groups.
        lr: learning rate, >= 0; a number or a tensor with one element.
        betas: decay rates of Adam's moments, each in [0, 1).
        eps: added to the denominator, outside the root; >= 0.
        weight_decay: decoupled weight decay, >= 0; None for the preset's.
        options: any other hyperparameter of `PsiLogic`, by keyword.

    Raises:
        TypeError: `PsiLogic` does not know a keyword, or the call has the order of the published package psilogic.
        ValueError: a hyperparameter is out of its range, or nothing in the module is trainable.

    Attributes:
        hyperparameters: the values that replace `PsiLogic`'s defaults.
        reason: why `psilogic.auto` chose this preset; empty if the caller chose it.

    Reference: PsiLogic paper, section 3.1.

    Example:
        >>> dict(PsiLogicGPT.hyperparameters)["tau_scale"]
        3.0
        >>> PsiLogicGPT(nn.Linear(8, 2), lr=3e-4, tau_scale=2.5).param_groups[0]["tau_scale"]
        2.5
    """

    hyperparameters: ClassVar[Mapping[str, Any]]
    reason = ""
    groups_of: ClassVar[Callable[..., list[dict[str, Any]]]]

    @refusing(check_preset_order)
    def __init__(
        self,
        params: nn.Module | ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float | None = None,
        **options: Any,
    ) -> None:
        if weight_decay is not None:
            options["weight_decay"] = weight_decay
        if isinstance(params, nn.Module):
            params = self.groups_of(params, gamma=options.get("gamma"))
        hyperparameters = {**self.hyperparameters, **options}
        super().__init__(params, lr, betas, eps=eps, **hyperparameters)


class PsiLogicNLP(Preset):
    """PsiLogic for encoder and encoder-decoder language models.

    Arguments, errors and priorities are those of `Preset`, a module's groups those of `nlp_groups`.

    Example:
        >>> model = nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 2))
        >>> [group["name"] for group in PsiLogicNLP(model, lr=3e-4, total_steps=1000).param_groups]
        ['embeddings', 'rest', 'rest_no_decay']
    """

    hyperparameters = MappingProxyType(
        {
            "gamma": 0.03,
            "quantum_decay": 2e-4,
            "tau_scale": 2.0,
            "max_cancel": 0.05,
            "agc_clip": 0.01,
            "grad_centralize": True,
            "weight_decay": 1e-4,
        }
    )
    groups_of = staticmethod(nlp_groups)


class PsiLogicGPT(Preset):
    """PsiLogic for decoder-only language models that are trained from scratch.

    Arguments, errors and priorities are those of `Preset`, a module's groups those of `gpt_groups`.

    Example:
        >>> model = nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 50))
        >>> PsiLogicGPT(model, lr=3e-4, total_steps=1000).param_groups[0]["gamma"]
        0.005
    """

    hyperparameters = MappingProxyType(
        {
            "gamma": 0.02,
            "quantum_decay": 0.0,
            "tau_scale": 3.0,
            "max_cancel": 0.03,
            "agc_clip": 0.0,
            "grad_centralize": False,
            "weight_decay": 0.1,
        }
    )
    groups_of = staticmethod(gpt_groups)


class PsiLogicViT(Preset):
    """PsiLogic for vision models, transformers and convolutional networks.

    Arguments, errors and priorities are those of `Preset`, a module's groups those of `vit_groups`.

    Example:
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.LazyLinear(10))
        >>> _ = model(torch.ones(1, 3, 8, 8))
        >>> PsiLogicViT(model, lr=1e-3, total_steps=1000).param_groups[0]["agc_clip"]
        0.02
    """

    hyperparameters = MappingProxyType(
        {
            "gamma": 0.04,
            "quantum_decay": 0.0,
            "tau_scale": 2.5,
            "max_cancel": 0.04,
            "agc_clip": 0.02,
            "grad_centralize": True,
            "weight_decay": 1e-4,
        }
    )
    groups_of = staticmethod(vit_groups)


PRESETS: Mapping[ModelFamily, type[Preset]] = MappingProxyType(
    {ModelFamily.VISION: PsiLogicViT, ModelFamily.DECODER: PsiLogicGPT, ModelFamily.LANGUAGE: PsiLogicNLP}
)


def auto(model: nn.Module, lr: float | Tensor, total_steps: int, **options: Any) -> Preset:
    """Make the optimizer with the preset of a model's family: vision, decoder-only or other language.

    The family is recognized from modules and their attributes, not from `forward`. A model that reads and predicts the
    same tokens is assumed to be causal; a masked one is recognized only by a class name. A causal model without output
    layer is recognized if its attention declares `is_causal`, if it stores its mask, or by a class name. A spectrogram
    that is convolved in two dimensions is an image. A model of images and text that predicts no tokens belongs to the
    family of the part that it registers first.

    Args:
        model: the model to train, a module.
        lr: learning rate, >= 0; a number or a tensor with one element.
        total_steps: length of the training in steps, 0 when unknown; it sets the chaos warm-up.
        options: any other hyperparameter of `PsiLogic`, by keyword; it replaces the preset's.

    Returns:
        `PsiLogicNLP`, `PsiLogicGPT` or `PsiLogicViT`, with the parameter groups of the model; `reason` says why.

    Raises:
        TypeError: `model` is not a module, or `PsiLogic` does not know a keyword.
        ValueError: the model's family is not recognized, a hyperparameter is out of its range, or nothing in the
            module is trainable.

    Example:
        >>> model = nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 50))
        >>> optimizer = auto(model, lr=3e-4, total_steps=1000)
        >>> type(optimizer).__name__, optimizer.reason
        ('PsiLogicGPT', 'reads and predicts tokens; assumed to be causal')
    """
    preset, reason = suitable(model)
    optimizer = preset(model, lr, total_steps=total_steps, **options)
    optimizer.reason = reason
    return optimizer


def suitable(model: nn.Module) -> tuple[type[Preset], str]:
    """The preset for a model, by the rules of `model_family.recognize`, and the reason, which is logged at level INFO.

    Errors are those of `auto`.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    family, reason = recognize(model)
    preset = PRESETS[family]
    logger.info("psilogic.auto chose %s for a %s: %s", preset.__name__, type(model).__name__, reason)
    return preset, reason
