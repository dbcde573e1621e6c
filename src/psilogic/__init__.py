"""PsiLogic: Adam with a chaos-gated multiplicative damping, for torch."""

from psilogic.models.groups import gpt_groups, nlp_groups, vit_groups
from psilogic.models.presets import Preset, PsiLogicGPT, PsiLogicNLP, PsiLogicViT, auto
from psilogic.monitor import Monitor, Spike, TensorChaos, monitor
from psilogic.optimizer import PsiLogic

__all__ = [
    "Monitor",
    "Preset",
    "PsiLogic",
    "PsiLogicGPT",
    "PsiLogicNLP",
    "PsiLogicViT",
    "Spike",
    "TensorChaos",
    "auto",
    "gpt_groups",
    "monitor",
    "nlp_groups",
    "vit_groups",
]
__version__ = "0.7.0"
