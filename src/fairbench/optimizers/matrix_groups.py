"""Parameter groups of optimizers for matrices: hidden matrices, and the other parameters.

Both functions are `groups` of an optimizer. `psilogic.models` tells hidden matrices by the types of the model's
modules; embeddings, the head, norms, biases, tokens and positions are not hidden matrices.
"""

from typing import Any

import pytorch_optimizer
from pytorch_optimizer.optimizer.scion import LMONorm
from torch import nn
from torch.optim.optimizer import ParamsT

from psilogic import gpt_groups

HIDDEN = "blocks"
"""The group of `psilogic.gpt_groups` with the hidden matrices."""
ENDS = ("embeddings", "head")
"""The groups of `psilogic.gpt_groups` at both ends of a model."""
LAST_RADIUS = 60.0
"""The scale of SCION's steps for embeddings and head; 1 for hidden matrices."""


def _parts(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """The trainable parameters as "hidden" (tensors of two or more dimensions), "ends" and "rest"."""
    parts: dict[str, list[nn.Parameter]] = {"hidden": [], "ends": [], "rest": []}
    for group in gpt_groups(model):
        name = group["name"]
        if name == HIDDEN:
            part = "hidden"
        elif name in ENDS:
            part = "ends"
        else:
            part = "rest"
        parts[part] += group["params"]
    return {name: params for name, params in parts.items() if params}


def hidden_and_rest(model: nn.Module) -> list[dict[str, Any]]:
    """Two parameter groups, hidden matrices and the rest, marked by `use_muon`.

    Source: Jordan et al. 2024, kellerjordan.github.io/posts/muon; convolutions are flattened to matrices.
    """
    return [{"params": params, "use_muon": part == "hidden"} for part, params in _parts(model).items()]


def norms(model: nn.Module) -> list[dict[str, Any]]:
    """Groups with SCION's norms: spectral for hidden matrices, sign for embeddings and head, RMS for the rest.

    Source: Pethick et al. 2025, arXiv:2502.07529, with the radii of its language models.
    """
    options: dict[str, dict[str, Any]] = {
        "hidden": {"norm_type": LMONorm.AUTO},
        "ends": {"norm_type": LMONorm.SIGN, "scale": LAST_RADIUS},
        "rest": {"norm_type": LMONorm.BIAS},
    }
    return [{"params": params, **options[part]} for part, params in _parts(model).items()]


class Muon(pytorch_optimizer.Muon):
    """Muon for groups with `use_muon`, AdamW for the others, with one rate and one decoupled decay.

    Updates of Muon are scaled to the root mean square of AdamW's, so that one rate suits both.

    Args:
        params: parameter groups with `use_muon`, as `hidden_and_rest` makes them.
        lr: the learning rate of both.
        weight_decay: the weight decay of both.
        momentum: the momentum of Muon.
        betas: the betas of AdamW.

    Source: Liu et al. 2025, arXiv:2502.16982.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.999),
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            momentum=momentum,
            weight_decay=weight_decay,
            use_adjusted_lr=True,
            adamw_lr=lr,
            adamw_betas=betas,
            adamw_wd=weight_decay,
        )
