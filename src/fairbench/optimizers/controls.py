"""Control arms: a gain over them can be attributed to PsiLogic's mechanism.

A suite names them like user-defined optimizers: `factory = "fairbench.optimizers.controls:Mirror"`,
`groups = "fairbench.optimizers.controls:field_groups"`.
"""

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import ParamsT

from psilogic import PsiLogic
from psilogic.models.presets import suitable
from psilogic.step import Decision


def field_groups(model: nn.Module) -> list[dict[str, Any]]:
    """The parameter groups of PsiLogic's preset for a model: norms, biases, tokens and positions do not decay.

    The preset's chaos gains are left out, so that the arm's options alone determine the mechanism.

    Source: PsiLogic paper, section 3.1.
    """
    preset, _ = suitable(model)
    groups = preset.groups_of(model)
    for group in groups:
        group.pop("gamma", None)
    return groups


class Mirror(PsiLogic):
    """PsiLogic whose cancellation of a step is spread evenly over all tensors: the same sum, without the choice.

        w c_i  ->  1/N sum_j w c_j,    over the N tensors of the step

    If it is worse than `PsiLogic`, the choice of spiking tensors helps; if it is as good, any further decay would do.
    The arguments are those of `PsiLogic`.
    """

    def __init__(self, params: ParamsT, lr: float = 1e-3, **options: Any) -> None:
        super().__init__(params, lr, **options)
        self._decided: list[tuple[list[Tensor], Tensor]] = []  # parameters and the cancellation of each of them
        self.observers.append(self._record)

    def _record(self, params: list[Tensor], decision: Decision) -> None:
        """Keep the cancellations of some parameters in the present step."""
        self._decided.append((params, decision.cancellation))

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step of PsiLogic, then replace the cancellation of each tensor by the mean."""
        self._decided.clear()
        before = {}
        for group in self.param_groups:
            for p in group["params"]:
                before[id(p)] = p.detach().clone()
        loss = super().step(closure)
        if self._decided:
            self._spread_evenly(before)
        return loss

    @torch.no_grad()
    def _spread_evenly(self, before: Mapping[int, Tensor]) -> None:
        """Undo the cancellation of each tensor, and subtract the mean cancellation instead.

        Args:
            before: the weights before the step, by the id of their parameter.
        """
        cancellations = [cancelled for _, cancelled in self._decided]
        mean = torch.cat(cancellations).mean()
        for params, cancelled in self._decided:
            for p, share in zip(params, cancelled, strict=True):
                p.add_(before[id(p)] * (share - mean).to(p.dtype))


class SlowNormClip(torch.optim.AdamW):
    """AdamW that clips each tensor's gradient to a multiple of the tensor's slow norm.

        n <- ||g||,    g <- g min(1, ratio * slow / n),    slow <- 0.99 slow + 0.01 min(n, ratio * slow)

    The slow norm starts at the first nonzero norm. Spikes are detected per tensor, as in PsiLogic, but they scale the
    gradient down instead of causing decay.

    Args:
        params: the parameters, or parameter groups.
        lr: the learning rate, >= 0.
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
        """Clip the gradients, then take one step of AdamW."""
        self._steps += 1
        params = []
        for group in self.param_groups:
            params += [p for p in group["params"] if p.grad is not None]
        states = [self._clip(p) for p in params]
        loss = super().step(closure)
        for p, state in zip(params, states, strict=True):
            self.state[p].update(state)  # only now: AdamW creates its own state in an empty one
        return loss

    def _clip(self, p: Tensor) -> dict[str, Tensor]:
        """Clip a gradient in place.

        Returns:
            The new slow norm, and the number of steps in which the gradient was clipped, by the keys of the state.
        """
        assert p.grad is not None
        state = self.state.get(p, {})
        norm = p.grad.norm()
        slow = state.get("slow", torch.zeros_like(norm))
        slow = torch.where(slow == 0, norm, slow)
        allowed = torch.minimum(norm, self._ratio * slow)
        factor = torch.where(norm > 0, allowed / norm, 1.0)
        p.grad.mul_(factor)
        clipped = state.get("clipped", 0) + (allowed < norm)
        next_slow = torch.where(torch.isfinite(norm), 0.99 * slow + 0.01 * allowed, slow)
        return {"slow": next_slow, "clipped": clipped}

    def mechanism(self, named_parameters: Iterable[tuple[str, Tensor]]) -> SimpleNamespace:
        """A watch of the steps in which each tensor's gradient is clipped; see `fairbench.training.mechanism`."""
        named = dict(named_parameters)

        def quantities() -> dict[str, tuple[str, dict[str, float]]]:
            clipped = {}
            for name, p in named.items():
                state = self.state.get(p, {})
                clipped[name] = float(state.get("clipped", 0))
            steps = dict.fromkeys(named, float(self._steps))
            return {"tensor_steps": ("tensor steps", steps), "acted": ("tensor steps", clipped)}

        def load_nothing(state: Any) -> None:
            """Do nothing: the counts are in the state of the optimizer."""

        return SimpleNamespace(quantities=quantities, state_dict=dict, load_state_dict=load_nothing)
