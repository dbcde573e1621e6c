"""ResNet-18: image classification."""

from torch import nn

from fairbench.arenas.classification import Classification
from fairbench.arenas.models.resnet import ResNet18
from fairbench.data.splits import Data


class ResNet(Classification):
    """ResNet-18: image classification."""

    def build_model(self, data: Data, *, width: int) -> nn.Module:
        """Basic blocks 2-2-2-2; `width` channels in the first stage (usually 64), doubled in each later one."""
        return ResNet18(data.shape[0], width, data.classes)
