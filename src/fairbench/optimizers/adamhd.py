"""Hypergradient descent, which trains the learning rate with the weights. No maintained library implements it."""

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
        params: the parameters, or parameter groups; each group has its own rate.
        lr: the learning rate before any correction, >= 0.
        betas: the decay rates of the averages of the gradient and of its square, in [0, 1).
        eps: a number that is added to the root of the second average, > 0.
        hyper_lr: the learning rate of the learning rate, >= 0.

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
        defaults = {"lr": lr, "betas": betas, "eps": eps, "hyper_lr": hyper_lr, "correction": 0.0}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step. Returns the loss of the closure, if there is one."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            # A slope is minus the derivative of the loss by the rate. Before its first step, a parameter has none.
            slopes = []
            for p in params:
                state = self.state[p]
                if state:
                    slopes.append(torch.sum(p.grad * state["direction"]))
            if slopes:
                slope = torch.stack(slopes).sum().item()
                group["correction"] += group["hyper_lr"] * slope
            for p in params:
                self._update(p, group)
        return loss

    def _update(self, p: torch.Tensor, group: dict[str, Any]) -> None:
        """Take a step of Adam for one parameter, at the corrected rate."""
        grad = p.grad
        assert grad is not None
        beta1, beta2 = group["betas"]
        state = self.state[p]
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(p)
            state["exp_avg_sq"] = torch.zeros_like(p)
            state["direction"] = torch.zeros_like(p)
        state["step"] += 1

        exp_avg = state["exp_avg"]
        exp_avg_sq = state["exp_avg_sq"]
        exp_avg.lerp_(grad, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)

        bias_correction1 = 1 - beta1 ** state["step"]
        bias_correction2 = 1 - beta2 ** state["step"]
        denominator = (exp_avg_sq / bias_correction2).sqrt_().add_(group["eps"])
        direction = state["direction"]
        torch.div(exp_avg, denominator, out=direction)
        direction.div_(bias_correction1)
        p.sub_(direction, alpha=group["lr"] + group["correction"])
