"""What fairbench knows of each optimizer without loading it: a table of facts, each of them measured by a test.

Options are set only where the library's default is not what the optimizer's authors recommend, or not part of the
method: weight decay is decoupled wherever the library offers both, since AdamW is what all of them want to improve on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class OptimizerFacts:
    """What fairbench knows of an optimizer without loading it.

    Attributes:
        factory: `module:Class`.
        title: the method, in a few words.
        decay: whether its weight decay is "decoupled" from the gradient, "coupled" (a part of it), "none" or "unknown".
        options: hyperparameters that replace the library's defaults.
        groups: `module:function` that makes parameter groups of the model; empty for a single group.
        lr_scale: the sweep's rates are multiplied by this, so that the grid covers its authors' rates.
        lr: its learning rate if it estimates the rate itself and none is swept; None to sweep it.
        needs: what the training loop must do for it, see `fairbench.optimizers.resolve.NEEDS`.
        state: numbers that it keeps for each weight of a hidden matrix, without `factors`.
        factors: further state that grows with the model, in words; empty for none.
        reference: the paper.
    """

    factory: str
    title: str
    decay: Literal["coupled", "decoupled", "none", "unknown"] = "decoupled"
    options: Mapping[str, Any] = field(default_factory=dict)
    groups: str = ""
    lr_scale: float = 1.0
    lr: float | None = None
    needs: tuple[str, ...] = ()
    state: int = 2
    factors: str = ""
    reference: str = ""


OPTIMIZERS = {
    "Adam": OptimizerFacts("torch.optim:Adam", "Adam", decay="coupled", reference="Kingma & Ba 2014, arXiv:1412.6980"),
    "AdamW": OptimizerFacts(
        "torch.optim:AdamW", "Adam with decoupled weight decay", reference="Loshchilov & Hutter 2017, arXiv:1711.05101"
    ),
    # Its authors' rates are 3 to 10 times lower; the paper's suites sweep it on AdamW's grid.
    "Lion": OptimizerFacts(
        "pytorch_optimizer:Lion", "sign momentum", state=1, reference="Chen et al. 2023, arXiv:2302.06675"
    ),
    "PsiLogic": OptimizerFacts(
        "psilogic:PsiLogic", "AdamW with chaos-gated cancellation", reference="the PsiLogic paper"
    ),
    "SGD": OptimizerFacts(
        "torch.optim:SGD",
        "gradient descent with Nesterov momentum",
        decay="coupled",
        options={"momentum": 0.9, "nesterov": True},
        lr_scale=100.0,
        state=1,
        reference="Sutskever et al. 2013, ICML",
    ),
    "NAdam": OptimizerFacts(
        "torch.optim:NAdam",
        "Adam with Nesterov momentum",
        options={"decoupled_weight_decay": True},
        reference="Dozat 2016, ICLR workshop",
    ),
    "RAdam": OptimizerFacts(
        "torch.optim:RAdam",
        "Adam with a rectified second moment",
        options={"decoupled_weight_decay": True},
        reference="Liu et al. 2019, arXiv:1908.03265",
    ),
    # Its steps are relative to the weights, whose root mean square is about a tenth.
    "Adafactor": OptimizerFacts(
        "torch.optim:Adafactor",
        "factored second moment and relative steps",
        lr_scale=10.0,
        state=0,
        factors="a number for each row and column of a matrix",
        reference="Shazeer & Stern 2018, arXiv:1804.04235",
    ),
    "Muon": OptimizerFacts(
        "fairbench.optimizers.matrix_groups:Muon",
        "orthogonalized momentum for hidden matrices, AdamW for the rest",
        groups="fairbench.optimizers.matrix_groups:hidden_and_rest",
        state=1,
        factors="a second number for each weight that is in no hidden matrix",
        reference="Jordan et al. 2024, kellerjordan.github.io/posts/muon; Liu et al. 2025, arXiv:2502.16982",
    ),
    # Its rate is multiplied by a trust coefficient of 0.001.
    "LARS": OptimizerFacts(
        "pytorch_optimizer:LARS",
        "momentum with a rate for each tensor",
        decay="coupled",
        lr_scale=1000.0,
        state=1,
        reference="You et al. 2017, arXiv:1708.03888",
    ),
    # Its steps are relative to the weights. The training loop clips for all optimizers.
    "LAMB": OptimizerFacts(
        "pytorch_optimizer:Lamb",
        "Adam with a rate for each tensor",
        options={"max_grad_norm": 0.0},
        lr_scale=10.0,
        reference="You et al. 2019, arXiv:1904.00962",
    ),
    # Grafted to RMSProp's length of step, as in its authors' large-scale work; roots every 10 steps, as SOAP's bases.
    # Matrices keep their shape: the library would flatten small ones to vectors, which have no preconditioner.
    "Shampoo": OptimizerFacts(
        "pytorch_optimizer:ScalableShampoo",
        "Kronecker-factored preconditioner with RMSProp's step length",
        options={
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
        "Adam in the eigenbasis of Shampoo's preconditioner",
        factors="two square matrices for each dimension of a tensor",
        reference="Vyas et al. 2024, arXiv:2409.11321",
    ),
    # Its step is at most lr times p = 0.01.
    "SophiaH": OptimizerFacts(
        "pytorch_optimizer:SophiaH",
        "clipped steps over a Hutchinson estimate of the Hessian",
        lr_scale=100.0,
        needs=("create_graph",),
        state=3,
        reference="Liu et al. 2023, arXiv:2305.14342",
    ),
    "DAdaptAdam": OptimizerFacts(
        "pytorch_optimizer:DAdaptAdam",
        "Adam that estimates its rate (D-Adaptation)",
        options={"weight_decouple": True},
        lr=1.0,
        state=3,
        reference="Defazio & Mishchenko 2023, arXiv:2301.07733",
    ),
    # Its authors recommend the safeguard for a schedule with warm-up.
    "Prodigy": OptimizerFacts(
        "pytorch_optimizer:Prodigy",
        "D-Adaptation that grows faster",
        options={"safeguard_warmup": True},
        lr=1.0,
        state=4,
        reference="Mishchenko & Defazio 2023, arXiv:2306.06101",
    ),
    "StableAdamW": OptimizerFacts(
        "pytorch_optimizer:StableAdamW",
        "AdamW with Adafactor's clipping of steps",
        reference="Wortsman et al. 2023, arXiv:2304.13013",
    ),
    "ADOPT": OptimizerFacts(
        "pytorch_optimizer:ADOPT",
        "Adam normalized by the second moment before it",
        options={"weight_decouple": True},
        reference="Taniguchi et al. 2024, arXiv:2411.02853",
    ),
    "AdEMAMix": OptimizerFacts(
        "pytorch_optimizer:AdEMAMix",
        "AdamW with a second, slow momentum",
        options={"weight_decouple": True},
        state=3,
        reference="Pagliardini et al. 2024, arXiv:2409.03137",
    ),
    # Otherwise tensors of one dimension have a separate rate, which neither sweep nor schedule changes.
    "MARS": OptimizerFacts(
        "pytorch_optimizer:MARS",
        "AdamW with variance reduction",
        options={"optimize_1d": True},
        state=3,
        reference="Yuan et al. 2024, arXiv:2411.10438",
    ),
    "AdaGC": OptimizerFacts(
        "pytorch_optimizer:AdaGC",
        "AdamW with a clipping threshold for each tensor",
        reference="Wang et al. 2025, arXiv:2502.11034",
    ),
    "SPAM": OptimizerFacts(
        "pytorch_optimizer:SPAM",
        "AdamW with resets of momentum and clipping of spikes",
        factors="a mask, a byte for each weight",
        reference="Huang et al. 2025, arXiv:2501.06842",
    ),
    "StableSPAM": OptimizerFacts(
        "pytorch_optimizer:StableSPAM",
        "SPAM with adaptive thresholds and norms",
        reference="Huang et al. 2025, arXiv:2502.17055",
    ),
    # Balancing draws from numpy's global generator, which no trial seeds; it matters in half precision only.
    # Without opt_einsum, which the extra [zoo] installs, a step takes minutes.
    "Kron": OptimizerFacts(
        "pytorch_optimizer:Kron",
        "PSGD with Kronecker factors",
        options={"balance_prob": 0.0},
        lr_scale=0.316228,
        state=1,
        factors="a square matrix for each dimension of a tensor",
        reference="Li 2015, arXiv:1512.04202; Pooladzandi & Li 2024, arXiv:2402.04553",
    ),
    "SCION": OptimizerFacts(
        "pytorch_optimizer:SCION",
        "steps of a given norm: spectral for hidden matrices, signs at the ends",
        groups="fairbench.optimizers.matrix_groups:norms",
        lr_scale=10.0,
        state=1,
        reference="Pethick et al. 2025, arXiv:2502.07529",
    ),
    "ScheduleFree": OptimizerFacts(
        "schedulefree:AdamWScheduleFree",
        "AdamW with averaged weights instead of a schedule",
        needs=("modes", "constant_lr"),
        reference="Defazio et al. 2024, arXiv:2405.15682",
    ),
    "AdamHD": OptimizerFacts(
        "fairbench.optimizers.adamhd:AdamHD",
        "Adam that descends in its rate too (hypergradient descent)",
        decay="none",
        needs=("constant_lr",),
        state=3,
        reference="Baydin et al. 2018, arXiv:1703.04782",
    ),
}
