"""Control arms: what a mechanism must be compared with before a gain is said to be its own.

A suite names them as it names anyone's own: `factory = "fairbench.optimizers.controls:Mirror"`,
`groups = "fairbench.optimizers.controls:field_groups"`.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import ParamsT

from psilogic import PsiLogic
from psilogic.decision import Decision
from psilogic.models.presets import suitable


def field_groups(model: nn.Module) -> list[dict[str, Any]]:
    """What decays and what does not in PsiLogic's preset for a model: not norms, biases, tokens and positions.

    The preset's chaos gains are left out: an arm with these groups has the mechanism that its own options say.

    Args:
        model: the model; nothing but its field and its modules' types and names is looked at.

    Source: PsiLogic paper, section 3.1.
    """
    return [{key: x for key, x in group.items() if key != "gamma"} for group in suitable(model).groups_of(model)]


class Mirror(PsiLogic):
    """PsiLogic whose cancellation of a step is spread evenly over all tensors: the same sum, without the choice.

        w c_i  ->  1/N sum_j w c_j,    over the N tensors of the step

    If the choice of the tensors that spike is what helps, it does worse than `PsiLogic`; if any further decay does, it
    does as well. Arguments are those of `PsiLogic`.
    """

    def __init__(self, params: ParamsT, lr: float = 1e-3, **options: Any) -> None:
        super().__init__(params, lr, **options)
        self._decided: list[tuple[list[Tensor], Tensor]] = []
        self._observers.append(self._note)

    def _note(self, params: list[Tensor], group: dict[str, Any], decision: Decision) -> None:
        self._decided.append((params, decision.cancellation))

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Perform one step of PsiLogic, then take back what it cancelled and cancel the mean everywhere."""
        self._decided.clear()
        before = {id(p): p.detach().clone() for group in self.param_groups for p in group["params"]}
        loss = super().step(closure)
        if self._decided:
            mean = torch.cat([cancelled for _, cancelled in self._decided]).mean()
            with torch.no_grad():
                for params, cancelled in self._decided:
                    for p, own in zip(params, cancelled, strict=True):
                        p.add_(before[id(p)] * (own - mean).to(p.dtype))
        return loss


class SlowNormClip(torch.optim.AdamW):
    """AdamW that clips each tensor's gradient to a multiple of its own slow norm.

        n <- ||g||,    g <- g min(1, ratio * slow / n),    slow <- 0.99 slow + 0.01 min(n, ratio * slow)

    The slow norm starts at the first norm that is not zero. It sees spikes where PsiLogic sees them, tensor by tensor,
    and answers by a smaller gradient and not by decay.

    Args:
        params: parameters or parameter groups.
        lr: learning rate, >= 0.
        ratio: of the slow norm, to which a gradient is cut; > 0.
        options: other arguments of `torch.optim.AdamW`.

    Raises:
        ValueError: `ratio` is not positive.
    """

    def __init__(self, params: ParamsT, lr: float = 1e-3, ratio: float = 2.0, **options: Any) -> None:
        if not ratio > 0:
            raise ValueError(f"ratio must be positive, got {ratio}")
        super().__init__(params, lr, **options)
        self._ratio = ratio
        self._slow: dict[Tensor, Tensor] = {}
        self._cuts: dict[Tensor, Tensor] = {}
        self._steps = 0

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Cut, then perform one step of AdamW."""
        self._steps += 1
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._cut(p)
        return super().step(closure)

    def _cut(self, p: Tensor) -> None:
        assert p.grad is not None
        norm = p.grad.norm()
        slow = self._slow.get(p, torch.zeros_like(norm))
        slow = torch.where(slow == 0, norm, slow)
        allowed = torch.minimum(norm, self._ratio * slow)
        p.grad.mul_(torch.where(norm > 0, allowed / norm, 1.0))
        self._cuts[p] = self._cuts.get(p, 0) + (allowed < norm)
        self._slow[p] = torch.where(torch.isfinite(norm), 0.99 * slow + 0.01 * allowed, slow)

    def state_dict(self) -> dict[str, Any]:
        """AdamW's, with the slow norms and the cuts of the parameters that had a gradient, in their order."""
        seen = [i for i, p in enumerate(self._params()) if p in self._slow]
        slow, cuts = ([kept[p] for p in self._params() if p in kept] for kept in (self._slow, self._cuts))
        return {**super().state_dict(), "seen": seen, "slow": slow, "cuts": cuts, "steps": self._steps}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a `state_dict`."""
        super().load_state_dict(state_dict)
        params = [self._params()[i] for i in state_dict["seen"]]
        self._slow = dict(zip(params, map(torch.clone, state_dict["slow"]), strict=True))
        self._cuts = dict(zip(params, map(torch.clone, state_dict["cuts"]), strict=True))
        self._steps = state_dict["steps"]

    def _params(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def mechanism(self, named_parameters: Iterable[tuple[str, Tensor]]) -> "_Cuts":
        """Watch in how many steps each tensor's gradient is cut."""
        return _Cuts(self, dict(named_parameters))


class _Cuts:
    """What `fairbench.training.mechanism` reads of `SlowNormClip`, which lives as long as its training."""

    def __init__(self, optimizer: SlowNormClip, named: dict[str, Tensor]) -> None:
        self._optimizer, self._named = optimizer, named

    def quantities(self) -> dict[str, tuple[str, dict[str, float]]]:
        """How many steps each tensor had, and in how many its gradient was cut."""
        cuts = {name: float(self._optimizer._cuts.get(p, 0)) for name, p in self._named.items()}
        steps = dict.fromkeys(self._named, float(self._optimizer._steps))
        return {"tensor_steps": ("tensor steps", steps), "acted": ("tensor steps", cuts)}

    def state_dict(self) -> dict[str, Any]:
        """Nothing: all that is seen is the optimizer's own."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The optimizer has gone on from its own."""
