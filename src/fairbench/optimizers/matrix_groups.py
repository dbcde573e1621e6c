"""Which parameters of a model an optimizer for matrices takes, and what happens to the rest.

Both functions are `groups` of an optimizer: a matrix is hidden by the types of the modules around it, which
`psilogic.models` knows; embeddings, the head, norms, biases, tokens and positions are not.
"""

from typing import Any

import pytorch_optimizer
from pytorch_optimizer.optimizer.scion import LMONorm
from torch import nn
from torch.optim.optimizer import ParamsT

from psilogic import gpt_groups

HIDDEN = "blocks"
ENDS = ("embeddings", "head")
LAST_RADIUS = 60.0
"""How much larger SCION's authors make the step at the ends than in hidden matrices."""


def _parts(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """The trainable parameters as "hidden" matrices (of any dimension from two on), "ends" and "rest"."""
    parts: dict[str, list[nn.Parameter]] = {"hidden": [], "ends": [], "rest": []}
    for group in gpt_groups(model):
        name = group["name"]
        parts["hidden" if name == HIDDEN else "ends" if name in ENDS else "rest"] += group["params"]
    return {name: params for name, params in parts.items() if params}


def hidden_and_rest(model: nn.Module) -> list[dict[str, Any]]:
    """Hidden matrices and everything else, as groups with `use_muon`.

    Source: Jordan et al. 2024, kellerjordan.github.io/posts/muon; convolutions are flattened to matrices.
    """
    return [{"params": params, "use_muon": name == "hidden"} for name, params in _parts(model).items()]


def norms(model: nn.Module) -> list[dict[str, Any]]:
    """Groups with SCION's norms: spectral for hidden matrices, signs for embeddings and head, RMS for the rest.

    Source: Pethick et al. 2025, arXiv:2502.07529, with the radii of its language models.
    """
    of_part: dict[str, dict[str, Any]] = {
        "hidden": {"norm_type": LMONorm.AUTO},
        "ends": {"norm_type": LMONorm.SIGN, "scale": LAST_RADIUS},
        "rest": {"norm_type": LMONorm.BIAS},
    }
    return [{"params": params, **of_part[name]} for name, params in _parts(model).items()]


class Muon(pytorch_optimizer.Muon):
    """Muon for the groups with `use_muon`, AdamW for the others, with one rate and one decay.

    An update of Muon is scaled to the root mean square of AdamW's, so that one rate serves both.

    Args:
        params: groups with `use_muon`, as of `hidden_and_rest`.
        lr: learning rate of both.
        weight_decay: decoupled decay of both.
        momentum: of Muon.
        betas: of AdamW.

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
