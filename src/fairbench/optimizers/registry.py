"""What fairbench knows of each optimizer without loading it: a table of facts, each of them measured by a test.

Options stand here only where the library's default is not what the optimizer's authors advise, or is no part of the
method: weight decay is decoupled wherever the library has both, since AdamW is what all of them set out to beat.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class OptimizerFacts:
    """What fairbench knows of an optimizer without loading it.

    Attributes:
        factory: `module:Class`.
        title: what it is, in a few words.
        decay: whether its weight decay is "coupled" (a part of the gradient), "decoupled" from it, "none" or "unknown".
        options: hyperparameters that are set where neither the suite nor its default says what its authors advise.
        groups: `module:function` that tells it which parameters are what; empty where all are alike.
        lr_scale: the sweep's rates are multiplied by this, so that the grid lies where its authors' rates do.
        lr: its learning rate if it searches its own: none is swept then; None for the sweep's.
        needs: what the training loop must do for it, see `fairbench.optimizers.resolve.NEEDS`.
        state: numbers that it keeps for each weight of a hidden matrix, without `factors`.
        factors: what else it keeps that grows with the model, in words; empty for nothing.
        reference: the paper that it is from.
    """

    factory: str
    title: str
    decay: Literal["coupled", "decoupled", "none", "unknown"]
    options: Mapping[str, Any] = field(default_factory=dict)
    groups: str = ""
    lr_scale: float = 1.0
    lr: float | None = None
    needs: tuple[str, ...] = ()
    state: int = 2
    factors: str = ""
    reference: str = ""


OPTIMIZERS = {
    "Adam": OptimizerFacts(
        "torch.optim:Adam", "Adam, from torch", "coupled", reference="Kingma & Ba 2014, arXiv:1412.6980"
    ),
    "AdamW": OptimizerFacts(
        "torch.optim:AdamW",
        "Adam with decoupled weight decay, from torch",
        "decoupled",
        reference="Loshchilov & Hutter 2017, arXiv:1711.05101",
    ),
    # Its authors' rates are 3 to 10 times lower; the paper's suites sweep it on AdamW's grid, which they extend.
    "Lion": OptimizerFacts(
        "pytorch_optimizer:Lion",
        "sign momentum, from pytorch-optimizer",
        "decoupled",
        state=1,
        reference="Chen et al. 2023, arXiv:2302.06675",
    ),
    "PsiLogic": OptimizerFacts(
        "psilogic:PsiLogic", "AdamW with chaos-gated cancellation", "decoupled", reference="the PsiLogic paper"
    ),
    "SGD": OptimizerFacts(
        "torch.optim:SGD",
        "gradient descent with Nesterov momentum, from torch",
        "coupled",
        {"momentum": 0.9, "nesterov": True},
        lr_scale=100.0,
        state=1,
        reference="Sutskever et al. 2013, ICML",
    ),
    "NAdam": OptimizerFacts(
        "torch.optim:NAdam",
        "Adam with Nesterov momentum, from torch",
        "decoupled",
        {"decoupled_weight_decay": True},
        reference="Dozat 2016, ICLR workshop",
    ),
    "RAdam": OptimizerFacts(
        "torch.optim:RAdam",
        "Adam with a rectified second moment, from torch",
        "decoupled",
        {"decoupled_weight_decay": True},
        reference="Liu et al. 2019, arXiv:1908.03265",
    ),
    # Its steps are relative to the weights, whose root mean square is about a tenth.
    "Adafactor": OptimizerFacts(
        "torch.optim:Adafactor",
        "factored second moment and relative steps, from torch",
        "decoupled",
        lr_scale=10.0,
        state=0,
        factors="a number for each row and column of a matrix",
        reference="Shazeer & Stern 2018, arXiv:1804.04235",
    ),
    "Muon": OptimizerFacts(
        "fairbench.optimizers.matrix_groups:Muon",
        "orthogonalized momentum for hidden matrices, AdamW for the rest, from pytorch-optimizer",
        "decoupled",
        groups="fairbench.optimizers.matrix_groups:hidden_and_rest",
        state=1,
        factors="a second number for each weight that is in no hidden matrix",
        reference="Jordan et al. 2024, kellerjordan.github.io/posts/muon; Liu et al. 2025, arXiv:2502.16982",
    ),
    # A trust coefficient of 0.001 is a part of its rate.
    "LARS": OptimizerFacts(
        "pytorch_optimizer:LARS",
        "momentum with a rate for each tensor, from pytorch-optimizer",
        "coupled",
        lr_scale=1000.0,
        state=1,
        reference="You et al. 2017, arXiv:1708.03888",
    ),
    # Its steps are relative to the weights. The training loop clips, for everyone.
    "LAMB": OptimizerFacts(
        "pytorch_optimizer:Lamb",
        "Adam with a rate for each tensor, from pytorch-optimizer",
        "decoupled",
        {"max_grad_norm": 0.0},
        lr_scale=10.0,
        reference="You et al. 2019, arXiv:1904.00962",
    ),
    # Grafted to RMSProp's length of step, as in its authors' large-scale work; roots every 10 steps, as SOAP's bases.
    # Matrices stay what they are: the library would make vectors of small ones, which have no preconditioner.
    "Shampoo": OptimizerFacts(
        "pytorch_optimizer:ScalableShampoo",
        "Kronecker-factored preconditioner with RMSProp's step length, from pytorch-optimizer",
        "decoupled",
        {
            "decoupled_weight_decay": True,
            "graft_type": 3,
            "moving_average_for_momentum": True,
            "preconditioning_compute_steps": 10,
            "shape_interpretation": False,
        },
        state=3,
        factors="two square matrices for each dimension of a tensor",
        reference="Gupta et al. 2018, arXiv:1802.09568; Anil et al. 2020, arXiv:2002.09018",
    ),
    "SOAP": OptimizerFacts(
        "pytorch_optimizer:SOAP",
        "Adam in the eigenbasis of Shampoo's preconditioner, from pytorch-optimizer",
        "decoupled",
        factors="two square matrices for each dimension of a tensor",
        reference="Vyas et al. 2024, arXiv:2409.11321",
    ),
    # Its step is at most lr times p = 0.01.
    "SophiaH": OptimizerFacts(
        "pytorch_optimizer:SophiaH",
        "clipped steps over a Hutchinson estimate of the Hessian, from pytorch-optimizer",
        "decoupled",
        lr_scale=100.0,
        needs=("create_graph",),
        state=3,
        reference="Liu et al. 2023, arXiv:2305.14342",
    ),
    "DAdaptAdam": OptimizerFacts(
        "pytorch_optimizer:DAdaptAdam",
        "Adam that estimates its rate (D-Adaptation), from pytorch-optimizer",
        "decoupled",
        {"weight_decouple": True},
        lr=1.0,
        state=3,
        reference="Defazio & Mishchenko 2023, arXiv:2301.07733",
    ),
    # Its authors ask for the safeguard where there is a warm-up.
    "Prodigy": OptimizerFacts(
        "pytorch_optimizer:Prodigy",
        "D-Adaptation that grows faster, from pytorch-optimizer",
        "decoupled",
        {"safeguard_warmup": True},
        lr=1.0,
        state=4,
        reference="Mishchenko & Defazio 2023, arXiv:2306.06101",
    ),
    "StableAdamW": OptimizerFacts(
        "pytorch_optimizer:StableAdamW",
        "AdamW with Adafactor's clipping of steps, from pytorch-optimizer",
        "decoupled",
        reference="Wortsman et al. 2023, arXiv:2304.13013",
    ),
    "ADOPT": OptimizerFacts(
        "pytorch_optimizer:ADOPT",
        "Adam normalized by the second moment before it, from pytorch-optimizer",
        "decoupled",
        {"weight_decouple": True},
        reference="Taniguchi et al. 2024, arXiv:2411.02853",
    ),
    "AdEMAMix": OptimizerFacts(
        "pytorch_optimizer:AdEMAMix",
        "AdamW with a second, slow momentum, from pytorch-optimizer",
        "decoupled",
        {"weight_decouple": True},
        state=3,
        reference="Pagliardini et al. 2024, arXiv:2409.03137",
    ),
    # Otherwise tensors of one dimension have a rate of their own, which no sweep and no schedule reaches.
    "MARS": OptimizerFacts(
        "pytorch_optimizer:MARS",
        "AdamW with variance reduction, from pytorch-optimizer",
        "decoupled",
        {"optimize_1d": True},
        state=3,
        reference="Yuan et al. 2024, arXiv:2411.10438",
    ),
    "AdaGC": OptimizerFacts(
        "pytorch_optimizer:AdaGC",
        "AdamW with a clipping threshold for each tensor, from pytorch-optimizer",
        "decoupled",
        reference="Wang et al. 2025, arXiv:2502.11034",
    ),
    "SPAM": OptimizerFacts(
        "pytorch_optimizer:SPAM",
        "AdamW with resets of momentum and clipping of spikes, from pytorch-optimizer",
        "decoupled",
        factors="a mask, a byte for each weight",
        reference="Huang et al. 2025, arXiv:2501.06842",
    ),
    "StableSPAM": OptimizerFacts(
        "pytorch_optimizer:StableSPAM",
        "SPAM with adaptive thresholds and norms, from pytorch-optimizer",
        "decoupled",
        reference="Huang et al. 2025, arXiv:2502.17055",
    ),
    # Balancing draws from numpy's random numbers, which no trial seeds; it matters in half precision alone.
    # Without opt_einsum, which the extra [zoo] installs, a step takes minutes.
    "Kron": OptimizerFacts(
        "pytorch_optimizer:Kron",
        "PSGD with Kronecker factors, from pytorch-optimizer",
        "decoupled",
        {"balance_prob": 0.0},
        lr_scale=0.316228,
        state=1,
        factors="a square matrix for each dimension of a tensor",
        reference="Li 2015, arXiv:1512.04202; Pooladzandi & Li 2024, arXiv:2402.04553",
    ),
    "SCION": OptimizerFacts(
        "pytorch_optimizer:SCION",
        "steps of a given norm: spectral for hidden matrices, signs at the ends, from pytorch-optimizer",
        "decoupled",
        groups="fairbench.optimizers.matrix_groups:norms",
        lr_scale=10.0,
        state=1,
        reference="Pethick et al. 2025, arXiv:2502.07529",
    ),
    "ScheduleFree": OptimizerFacts(
        "schedulefree:AdamWScheduleFree",
        "AdamW with averaged weights instead of a schedule, from schedulefree",
        "decoupled",
        needs=("modes", "constant_lr"),
        reference="Defazio et al. 2024, arXiv:2405.15682",
    ),
    "AdamHD": OptimizerFacts(
        "fairbench.optimizers.adamhd:AdamHD",
        "Adam that descends in its rate too (hypergradient descent)",
        "none",
        needs=("constant_lr",),
        state=3,
        reference="Baydin et al. 2018, arXiv:1703.04782",
    ),
}
