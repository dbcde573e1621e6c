"""Control arms, against which a gain can be attributed to PsiLogic's mechanism.

A suite names them like user-defined optimizers: `factory = "fairbench.optimizers.controls:Mirror"`,
`groups = "fairbench.optimizers.controls:field_groups"`.
"""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import ParamsT

from psilogic import PsiLogic
from psilogic.decision import Decision
from psilogic.models.presets import suitable


def field_groups(model: nn.Module) -> list[dict[str, Any]]:
    """The groups of PsiLogic's preset for a model: norms, biases, tokens and positions do not decay.

    The preset's chaos gains are left out, so that the arm's options alone determine the mechanism.

    Source: PsiLogic paper, section 3.1.
    """
    return [{key: x for key, x in group.items() if key != "gamma"} for group in suitable(model)[0].groups_of(model)]


class Mirror(PsiLogic):
    """PsiLogic whose cancellation of a step is spread evenly over all tensors: the same sum, without the choice.

        w c_i  ->  1/N sum_j w c_j,    over the N tensors of the step

    If it is worse than `PsiLogic`, the choice of spiking tensors helps; if it is as good, any further decay would do.
    The arguments are those of `PsiLogic`.
    """

    def __init__(self, params: ParamsT, lr: float = 1e-3, **options: Any) -> None:
        super().__init__(params, lr, **options)
        self._decided: list[tuple[list[Tensor], Tensor]] = []
        self._observers.append(self._note)

    def _note(self, params: list[Tensor], decision: Decision) -> None:
        self._decided.append((params, decision.cancellation))

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Perform one step of PsiLogic, then replace each tensor's cancellation by the mean."""
        self._decided.clear()
        before = {id(p): p.detach().clone() for group in self.param_groups for p in group["params"]}
        loss = super().step(closure)
        if self._decided:
            mean = torch.cat([cancelled for _, cancelled in self._decided]).mean()
            with torch.no_grad():
                for params, cancelled in self._decided:
                    for p, share in zip(params, cancelled, strict=True):
                        p.add_(before[id(p)] * (share - mean).to(p.dtype))
        return loss


class SlowNormClip(torch.optim.AdamW):
    """AdamW that clips each tensor's gradient to a multiple of the tensor's slow norm.

        n <- ||g||,    g <- g min(1, ratio * slow / n),    slow <- 0.99 slow + 0.01 min(n, ratio * slow)

    The slow norm starts at the first nonzero norm. Spikes are detected per tensor, as in PsiLogic, but they scale the
    gradient down instead of causing decay.

    Args:
        params: parameters or parameter groups.
        lr: learning rate, >= 0.
        ratio: the largest allowed norm, as a multiple of the slow norm; > 0.
        options: other arguments of `torch.optim.AdamW`.

    Raises:
        ValueError: `ratio` is not positive.
    """

    def __init__(self, params: ParamsT, lr: float = 1e-3, ratio: float = 2.0, **options: Any) -> None:
        if not ratio > 0:
            raise ValueError(f"ratio must be positive, got {ratio}")
        super().__init__(params, lr, **options)
        self._ratio = ratio
        self._steps = 0

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Clip, then perform one step of AdamW."""
        self._steps += 1
        params = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        states = [self._clip(p) for p in params]
        loss = super().step(closure)
        for p, state in zip(params, states, strict=True):
            self.state[p].update(state)  # only now: AdamW creates its own state in an empty one
        return loss

    def _clip(self, p: Tensor) -> dict[str, Tensor]:
        """Clip a gradient; returns its new slow norm, and the number of steps in which it was clipped."""
        assert p.grad is not None
        state, norm = self.state.get(p, {}), p.grad.norm()
        slow = state.get("slow", torch.zeros_like(norm))
        slow = torch.where(slow == 0, norm, slow)
        allowed = torch.minimum(norm, self._ratio * slow)
        p.grad.mul_(torch.where(norm > 0, allowed / norm, 1.0))
        clipped = state.get("clipped", 0) + (allowed < norm)
        return {"slow": torch.where(torch.isfinite(norm), 0.99 * slow + 0.01 * allowed, slow), "clipped": clipped}

    def mechanism(self, named_parameters: Iterable[tuple[str, Tensor]]) -> SimpleNamespace:
        """Count the steps in which each tensor's gradient is clipped, see `fairbench.training.mechanism`."""
        named = dict(named_parameters)

        def quantities() -> dict[str, tuple[str, dict[str, float]]]:
            clipped = {name: float(self.state.get(p, {}).get("clipped", 0)) for name, p in named.items()}
            steps = dict.fromkeys(named, float(self._steps))
            return {"tensor_steps": ("tensor steps", steps), "acted": ("tensor steps", clipped)}

        # The optimizer's own state has the counts.
        return SimpleNamespace(quantities=quantities, state_dict=dict, load_state_dict=lambda state: None)
