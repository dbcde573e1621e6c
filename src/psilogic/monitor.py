"""What the chaos term did in a run."""

from typing import Any

import torch
from torch import Tensor

from psilogic.decision import Decision
from psilogic.optimizer import PsiLogic


class ChaosTally:
    """Counts what the chaos term does from now on; nothing is read from the device until `read` is called.

    Args:
        optimizer: the optimizer to watch.
    """

    def __init__(self, optimizer: PsiLogic) -> None:
        self._tensor_steps = 0
        self._sums: Tensor = torch.zeros(4, dtype=torch.float64)
        optimizer._observers.append(self._observe)

    def _observe(self, params: list[Tensor], group: dict[str, Any], decision: Decision) -> None:
        self._tensor_steps += len(params)
        active = decision.cancellation > 0
        weight_decay = decision.decay - decision.cancellation
        rows = (decision.gate, active, decision.cancellation, weight_decay)
        self._sums = self._sums.to(decision.gn.device) + torch.stack([row.double().sum() for row in rows])

    def read(self) -> dict[str, float]:
        """The counts so far.

        Returns:
            tensor_steps: pairs of tensor and step seen; gate_share: share of them with s = 1; active_share:
            share with w s > 0 and something to cancel; cancellation: sum of w c; weight_decay: sum of
            lr weight_decay. The two sums say how much of theta each has taken away, all tensors together.
        """
        gate, active, cancellation, weight_decay = self._sums.tolist()
        pairs = max(self._tensor_steps, 1)
        return {
            "tensor_steps": self._tensor_steps,
            "gate_share": gate / pairs,
            "active_share": active / pairs,
            "cancellation": cancellation,
            "weight_decay": weight_decay,
        }
