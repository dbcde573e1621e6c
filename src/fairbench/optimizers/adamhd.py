"""Hypergradient descent: the learning rate is trained with the weights; no maintained library implements it."""

from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import ParamsT


class AdamHD(torch.optim.Optimizer):
    """Adam whose learning rate descends along its own gradient.

        d_t     = m_hat / (sqrt(v_hat) + eps)          Adam's direction
        alpha_t = alpha_{t-1} + hyper_lr g_t . d_{t-1}
        theta  <- theta - alpha_t d_t

    The sum of the corrections is separate from `lr`, so that a schedule of `lr` keeps its effect.

    Args:
        params: parameters or groups; each group has its own rate.
        lr: learning rate before any correction, >= 0.
        hyper_lr: learning rate of the learning rate, >= 0.

    Source: Baydin et al. 2018, arXiv:1703.04782, Adam-HD, with the hyper_lr of its experiments.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        hyper_lr: float = 1e-7,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "hyper_lr": hyper_lr, "correction": 0.0})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Perform one step."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            slopes = [torch.sum(p.grad * self.state[p]["direction"]) for p in params if self.state[p]]
            if slopes:
                group["correction"] += group["hyper_lr"] * torch.stack(slopes).sum().item()
            for p in params:
                self._step_of(p, group)
        return loss

    def _step_of(self, p: torch.Tensor, group: dict[str, Any]) -> None:
        state, (beta1, beta2), grad = self.state[p], group["betas"], p.grad
        assert grad is not None
        if not state:
            state["step"] = 0
            state |= {key: torch.zeros_like(p) for key in ("exp_avg", "exp_avg_sq", "direction")}
        state["step"] += 1
        state["exp_avg"].lerp_(grad, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        root = (state["exp_avg_sq"] / (1 - beta2 ** state["step"])).sqrt_().add_(group["eps"])
        torch.div(state["exp_avg"], root, out=state["direction"]).div_(1 - beta1 ** state["step"])
        p.sub_(state["direction"], alpha=group["lr"] + group["correction"])
