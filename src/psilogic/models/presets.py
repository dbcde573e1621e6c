"""PsiLogic with the hyperparameters of a field: language models, GPT from scratch, vision."""

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.optim.optimizer import ParamsT

from psilogic.models.groups import gpt_groups, nlp_groups, vit_groups
from psilogic.models.model_family import Field, recognize
from psilogic.optimizer import PsiLogic

logger = logging.getLogger("psilogic")


class Preset(PsiLogic):
    """What the presets have in common: whatever the caller does not say comes from a table.

    From the strongest to the weakest: what a caller's parameter group says, what the constructor is told, the
    preset. Given a module, the preset makes the groups: then the preset's gamma stands behind the gammas of the
    groups, while a gamma that the caller passes replaces them all, and a weight decay, the caller's too, applies
    to the decayed groups alone. Parameters and groups are taken as they are, so that all of them decay unless
    their group says otherwise.

    Args:
        params: a module, or what `PsiLogic` takes: parameters, named parameters or parameter groups.
        lr: learning rate, >= 0; a number or a tensor with one element.
        betas: decay rates of Adam's moments, each in [0, 1).
        eps: added to the denominator, outside the root; >= 0.
        weight_decay: decoupled weight decay, >= 0; None for the preset's.
        options: any other hyperparameter of `PsiLogic`, by keyword.

    Raises:
        TypeError: `PsiLogic` does not know a keyword.
        ValueError: a hyperparameter is out of its range, or nothing in the module is trainable.
    """

    hyperparameters: ClassVar[Mapping[str, Any]]
    groups_of: ClassVar[Callable[..., list[dict[str, Any]]]]

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
        super().__init__(params, lr, betas, eps, **{**self.hyperparameters, **options})


class PsiLogicNLP(Preset):
    """PsiLogic for encoder and encoder-decoder language models.

    gamma 0.03 (of a module: embeddings 0.01, attention and rest 0.03), quantum_decay 2e-4, tau_scale 2,
    max_cancel 0.05, agc_clip 0.01, gradient centralization, weight_decay 1e-4. Arguments, errors and what wins
    over what are those of `Preset`.

    Reference: PsiLogic paper, section 3.1; the update rule is that of `PsiLogic`, the groups of `nlp_groups`.
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

    gamma 0.02 (of a module: embeddings 0.005, blocks 0.02, head 0.01), quantum_decay 0, tau_scale 3,
    max_cancel 0.03, neither AGC nor gradient centralization, weight_decay 0.1. Arguments, errors and what wins
    over what are those of `Preset`.

    Reference: PsiLogic paper, section 3.1; the update rule is that of `PsiLogic`, the groups of `gpt_groups`.
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

    gamma 0.04 (of a module: patch projection and tokens 0.005, attention 0.02, MLP and rest 0.03),
    quantum_decay 0, tau_scale 2.5, max_cancel 0.04, agc_clip 0.02, gradient centralization, weight_decay 1e-4.
    Arguments, errors and what wins over what are those of `Preset`.

    Reference: PsiLogic paper, section 3.1; the update rule is that of `PsiLogic`, the groups of `vit_groups`.
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


PRESET_BY_FIELD: Mapping[Field, type[Preset]] = MappingProxyType(
    {Field.VISION: PsiLogicViT, Field.DECODER: PsiLogicGPT, Field.LANGUAGE: PsiLogicNLP}
)


def auto(model: nn.Module, lr: float | Tensor, total_steps: int, **options: Any) -> Preset:
    """Make the optimizer of the preset that suits a model: vision, decoder-only or other language.

    Only what is stored in modules can be seen, not what `forward` does. Hence the limits:

    * A model that reads and predicts the same tokens is taken to be causal, like most of them; a masked language
      model that no class name tells from it is not recognized as one.
    * A causal model without output layer (to classify, say) is recognized only if its attention declares
      `is_causal`, if it stores its mask, or by a class name.
    * A spectrogram that is convolved in two dimensions is an image. A model of images and text that predicts no
      tokens is of the field of what it registers first.

    Args:
        model: the model to train, a module.
        lr: learning rate, >= 0; a number or a tensor with one element.
        total_steps: length of the training in steps, 0 when unknown; it sets the chaos warm-up.
        options: any other hyperparameter of `PsiLogic`, by keyword; it wins over the preset's.

    Returns:
        `PsiLogicNLP`, `PsiLogicGPT` or `PsiLogicViT`, with the parameter groups of the model.

    Raises:
        TypeError: `model` is not a module, or `PsiLogic` does not know a keyword.
        ValueError: nothing in the model tells its field, a hyperparameter is out of its range, or nothing in
            the module is trainable.
    """
    return suitable(model)(model, lr, total_steps=total_steps, **options)


def suitable(model: nn.Module) -> type[Preset]:
    """The preset for a model, by the rules of `model_family.recognize`; the logger "psilogic" says why at level INFO.

    Args:
        model: any module.

    Returns:
        `PsiLogicViT` for vision, `PsiLogicGPT` for decoder-only language models, `PsiLogicNLP` for encoders,
        encoder-decoders (speech to text too) and other models of sequences.

    Raises:
        TypeError: `model` is not a module.
        ValueError: nothing in the model tells its field.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    field, reason = recognize(model)
    preset = PRESET_BY_FIELD[field]
    logger.info("psilogic.auto took %s for a %s: %s", preset.__name__, type(model).__name__, reason)
    return preset
