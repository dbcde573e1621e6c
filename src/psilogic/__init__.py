"""PsiLogic: Adam with a chaos-gated multiplicative damping, for torch."""

import warnings
from pathlib import Path

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

for _other in Path(__file__).parents[1].glob("psilogic-*.dist-info"):
    warnings.warn(
        f"{_other.stem} and psilogic-fairbench are installed in the same folder and both have the package psilogic: "
        "the files of the last one replaced the other's, and uninstalling one deletes them; run: pip uninstall "
        "psilogic psilogic-fairbench; then, in an environment of its own, install psilogic-fairbench again",
        stacklevel=2,
    )
