"""Loss and metrics that the image classifiers share."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairbench.data.sources import Split


def loss(model: nn.Module, batch: Split, generator: torch.Generator) -> Tensor:
    """Mean cross-entropy in nats."""
    return F.cross_entropy(model(pixel_values=batch.inputs).logits, batch.targets)


def evaluate(model: nn.Module, split: Split) -> dict[str, float]:
    """Top-1 accuracy and mean cross-entropy."""
    logits = model(pixel_values=split.inputs).logits
    hits = (logits.argmax(dim=1) == split.targets).float()
    return {"accuracy": hits.mean().item(), "loss": F.cross_entropy(logits, split.targets).item()}
