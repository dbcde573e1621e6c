"""What `step_time.py` times: PsiLogic, torch's AdamW and other optimizers, each with what it is compared with."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW

from psilogic import PsiLogic, PsiLogicNLP, PsiLogicViT
from psilogic.tensors import host_norms
from psilogic.tensors.norms import tensor_squares

LR = 1e-7  # small: parameters hardly change, regardless of the number of rounds
FUSED = "AdamW(fused=True)"
CLIPPED = "clip_grad_norm_ + AdamW(fused=True)"
GROUPED = "AdamW(fused=True), a group for each tensor"
BFLOAT16 = "AdamW(fused=True) in bfloat16"
PEERS = {"pytorch_optimizer": ("Lion", "AdaBelief", "StableAdamW"), "lion_pytorch": ("Lion",)}


@dataclass
class Contender:
    """One thing that is timed.

    Attributes:
        name: as the table shows it.
        build: makes the step of the given tensors.
        bytes: per element, 0 where nobody counted.
        baseline: the name of what it is compared with.
        groups: the parameter groups of that.
        targets: the ratio that it should not exceed, by kind of device, or by that and the set.
        dtype: of the tensors.
    """

    name: str
    build: Callable[[list[Tensor]], Callable[[], Any]]
    bytes: int = 0
    baseline: str = FUSED
    groups: Callable[[list[Tensor]], Any] = list
    targets: dict[str | tuple[str, str], float] = field(default_factory=dict)
    dtype: torch.dtype = torch.float32


def contenders(on: str, name: str) -> list[Contender]:
    """Everything that is timed with a set on a kind of device; peers where they are installed."""
    ahead = 28  # on a CPU the sums come with the update
    by_rows = 28
    if on == "cuda":
        ahead = 32
        by_rows = 36
    if name == "150 groups":
        return [_contender_of_groups(kind, ahead) for kind in ("lr", "tensor lr", "betas", "eps", "chaos_scope")]
    return [
        *_adamw(),
        Contender("PsiLogic", _psilogic, ahead, targets={"cpu": 1.05, "cuda": 1.15, ("cpu", "ViT-Tiny"): 1.10}),
        _contender_of_groups("lr", ahead),
        *_without_triton(on),
        Contender("PsiLogic, 5% of the tensors fire", _spiking, ahead, targets={"cpu": 1.25, "cuda": 1.25}),
        *_presets(by_rows),
        *_with_a_clipped_norm(),
        Contender("(torch's fused kernel alone)", _kernel, 28),
        Contender("(norms, then torch's fused kernel)", partial(_kernel, with_norms=True), 32),
        *_peers(),
        *_in_bfloat16(),
    ]


def _adamw() -> list[Contender]:
    """The other implementations of torch's AdamW."""

    def build(params: list[Tensor], **options: Any) -> Callable[[], Any]:
        return AdamW(params, LR, **options).step

    return [
        Contender("AdamW", build, 28),
        Contender("AdamW(foreach=True)", partial(build, foreach=True), 28),
    ]


def _without_triton(on: str) -> list[Contender]:
    """The backend of a GPU that has no Triton."""
    if on != "cuda":
        return []
    return [Contender("PsiLogic(fused=False)", _foreach)]


def _presets(bytes_: int) -> list[Contender]:
    """The presets, which look at rows."""
    targets = {"cpu": 1.5, "cuda": 1.35}
    vit = partial(_psilogic, kind=PsiLogicViT)
    nlp = partial(_psilogic, kind=PsiLogicNLP)
    return [
        Contender("PsiLogicViT (GC + AGC)", vit, bytes_, targets=targets),
        Contender("PsiLogicNLP (GC + AGC + quantum decay)", nlp, bytes_, targets=targets),
    ]


def _with_a_clipped_norm() -> list[Contender]:
    """PsiLogic that clips the norm of all gradients, or would."""
    targets = {"cpu": 0.75, "cuda": 0.85}
    clips = partial(_psilogic, max_grad_norm=1.0)
    clips_nothing = partial(_psilogic, max_grad_norm=1e30)
    return [
        Contender("PsiLogic(max_grad_norm), clips", clips, 32, CLIPPED, targets=targets),
        Contender("PsiLogic(max_grad_norm), clips nothing", clips_nothing, 32, CLIPPED, targets=targets),
    ]


def _in_bfloat16() -> list[Contender]:
    """PsiLogic with parameters in bfloat16, rounded in three ways; Kahan's also reads and writes an error."""
    bytes_of = {"nearest": 14, "stochastic": 14, "kahan": 18}
    found = []
    for rounding, bytes_ in bytes_of.items():
        contender = Contender(
            name=f"PsiLogic(bf16_update={rounding!r})",
            build=partial(_psilogic_in_bfloat16, rounding=rounding),
            bytes=bytes_,
            baseline=BFLOAT16,
            targets={"cpu": 1.6},
            dtype=torch.bfloat16,
        )
        found.append(contender)
    return found


def _peers() -> list[Contender]:
    """Optimizers of other packages, where these are installed."""
    found = []
    for module, names in PEERS.items():
        if find_spec(module):
            for name in names:
                found.append(Contender(f"{module}.{name}", partial(_peer, module=module, name=name)))
    return found


def clipping(params: list[Tensor], step: Callable[[], Any]) -> Callable[[], Any]:
    """A factor of 1 costs as much as any other, and leaves the gradients as they are."""

    def clip_and_step() -> None:
        torch.nn.utils.clip_grad_norm_(params, 1e30)
        step()

    return clip_and_step


def _groups(params: list[Tensor], kind: str) -> list[dict[str, Any]]:
    """A group for each tensor, as layer-wise learning rates make, weight decay of every other one, and differences."""
    groups = []
    for i, param in enumerate(params):
        group: dict[str, Any] = {"params": [param], "lr": LR * 0.99**i, "weight_decay": 1e-2 * (i % 2)}
        if kind == "tensor lr":
            group["lr"] = torch.tensor(group["lr"])
        elif kind == "betas":
            group["betas"] = (0.9, 1 - 0.1 * 0.98**i)
        elif kind == "eps":
            group["eps"] = 1e-8 * (i + 1)
        groups.append(group)
    return groups


def _contender_of_groups(kind: str, bytes_: int) -> Contender:
    """PsiLogic with groups that differ in something."""
    name = "PsiLogic, a group for each tensor"
    if kind != "lr":
        name += f": {kind}"
    options = {}
    if kind == "chaos_scope":
        options["chaos_scope"] = "group"

    def build(params: list[Tensor]) -> Callable[[], Any]:
        return PsiLogic(_groups(params, kind), fused=True, **options).step

    return Contender(
        name=name,
        build=build,
        bytes=bytes_,
        baseline=GROUPED,
        groups=partial(_groups, kind=kind),
        targets={"cpu": 1.5},
    )


def _psilogic(params: list[Tensor], kind: type[PsiLogic] = PsiLogic, **options: Any) -> Callable[[], Any]:
    return kind(params, LR, fused=True, **options).step


def _psilogic_in_bfloat16(params: list[Tensor], rounding: str) -> Callable[[], Any]:
    """On a GPU foreach rounds otherwise than to nearest."""
    return PsiLogic(params, LR, bf16_update=rounding).step


def _foreach(params: list[Tensor]) -> Callable[[], Any]:
    """The backend of a GPU without Triton."""
    return PsiLogic(params, LR, fused=False).step


def _spiking(params: list[Tensor]) -> Callable[[], Any]:
    """A PsiLogic in which every 20th tensor fires in every step from the second on: so high does its fast EMA start."""
    optimizer = PsiLogic(params, LR, fused=True, chaos_warmup=0)
    optimizer.step()
    for i, p in enumerate(params):
        optimizer.state[p]["chaos_slow"].fill_(1.0)
        optimizer.state[p]["chaos_fast"].fill_(1.0 if i % 20 else 1e9)
    return optimizer.step


def _kernel(params: list[Tensor], with_norms: bool = False) -> Callable[[], Any]:
    """The least work of a step on a CPU: torch's kernel, after a pass for the norms."""
    grads = [p.grad for p in params]
    moments = [[torch.zeros_like(p) for p in params] for _ in range(2)]
    steps = [torch.tensor(9.0, device=params[0].device)] * len(params)

    @torch.no_grad()
    def run() -> None:
        if with_norms:
            _norms(grads)
        torch._fused_adamw_(
            params, grads, *moments, [], steps, lr=LR, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8,
            amsgrad=False, maximize=False,
        )  # fmt: skip

    return run


def _norms(grads: list[Tensor]) -> Tensor:
    if grads[0].device.type == "cpu":
        return host_norms.squares(grads)
    return tensor_squares(grads, torch.float64)


def _peer(params: list[Tensor], module: str, name: str) -> Callable[[], Any]:
    """Another optimizer; nobody counted its bytes."""
    return getattr(importlib.import_module(module), name)(params, lr=LR).step
