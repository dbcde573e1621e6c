"""What the image classifiers share."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairbench.data.stored import Data, Split


def examples(batch: Split, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Images and labels."""
    return batch.inputs, batch.targets


def loss(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy in nats."""
    return F.cross_entropy(model(pixel_values=images).logits, labels)


def scores(model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Whether the top class is right, and the cross-entropy, of each image."""
    logits = model(pixel_values=images).logits
    return {"accuracy": logits.argmax(dim=1) == labels, "loss": F.cross_entropy(logits, labels, reduction="none")}


def derived(means: dict[str, float], data: Data) -> dict[str, float]:
    """Nothing: the means say it all."""
    return {}
