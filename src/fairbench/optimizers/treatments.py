"""Influences on an optimizer's results apart from its method: the schedule, the weight decay, general techniques."""

from collections.abc import Mapping, Sequence
from typing import Any

from fairbench.optimizers.registry import facts_of

SCHEDULES = {
    "cosine": "warm-up and cosine",
    "linear": "warm-up and linear decay",
    "wsd": "warm-up, constant, linear decay at the end",
    "constant": "warm-up only",
}
"""The learning-rate schedules in words; `fairbench.training.schedules` has their formulas."""
DECOUPLING = ("decoupled_weight_decay", "weight_decouple")
"""The options by which optimizers with both kinds of weight decay choose the decoupled one."""
TREATMENTS = {
    "grad_centralize": "gradient centralization",
    "use_gc": "gradient centralization",
    "agc_clip": "adaptive gradient clipping",
    "max_grad_norm": "gradient clipping of its own",
}
"""The options for techniques that any optimizer could use, with the names of the techniques."""
PRESETS = ("psilogic:PsiLogicNLP", "psilogic:PsiLogicGPT", "psilogic:PsiLogicViT")
"""Factories that set such options themselves."""


def decay_kind(factory: str, options: Mapping[str, Any]) -> str:
    """The kind of weight decay of a factory with some options: "coupled", "decoupled", "none" or "unknown"."""
    for option in DECOUPLING:
        if option in options:
            return "decoupled" if options[option] else "coupled"
    if factory.startswith("psilogic:"):
        return "decoupled"
    facts = facts_of(factory)
    if facts is None:
        return "unknown"
    return facts.decay


def schedule(needs: Sequence[str], name: str, min_lr: float) -> str:
    """The learning-rate schedule of an optimizer, in words. The need "constant_lr" replaces any schedule."""
    if "constant_lr" in needs or name == "constant":
        return SCHEDULES["constant"]
    words = SCHEDULES[name]
    if min_lr:
        words += f" to {min_lr:g} of the peak"
    return words
