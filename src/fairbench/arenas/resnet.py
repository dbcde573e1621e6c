"""ResNet-18: image classification."""

from torch import nn
from transformers import ResNetConfig, ResNetForImageClassification

from fairbench.arenas.classification import Classification
from fairbench.data.splits import Data


class ResNet(Classification):
    """ResNet-18: image classification."""

    def build_model(self, data: Data, *, width: int) -> nn.Module:
        """Basic blocks 2-2-2-2; `width` channels in the first stage (usually 64), doubled in each later one."""
        model: nn.Module = ResNetForImageClassification(
            ResNetConfig(
                num_channels=data.shape[0],
                embedding_size=width,
                hidden_sizes=[width, 2 * width, 4 * width, 8 * width],
                depths=[2, 2, 2, 2],
                layer_type="basic",
                num_labels=data.classes,
            )
        )
        return model
