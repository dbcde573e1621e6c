"""Loss and metrics of image classifiers."""

import torch.nn.functional as F
from torch import Tensor, nn

from fairbench.arenas.base import Arena


class Classification(Arena):
    """Image classification; the model maps images to logits of shape (N, classes)."""

    def loss(self, model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(model(images), labels)

    def scores(self, model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """The top-1 accuracy and the cross-entropy of each image."""
        logits = model(images)
        return {
            "accuracy": logits.argmax(dim=1) == labels,
            "loss": F.cross_entropy(logits, labels, reduction="none"),
        }
