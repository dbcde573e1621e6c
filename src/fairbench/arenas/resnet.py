"""ResNet-18, for image classification (He et al. 2016).

The names of its parameters and their initial values are those of `ResNetForImageClassification` in transformers.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from fairbench.arenas.classification import Classification
from fairbench.arenas.parts import named
from fairbench.data.splits import Data

STAGES = 4
"""The number of stages, each with two blocks."""


def convolution(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Sequential:
    """A convolution with a batch norm."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    return named(convolution=layer, normalization=nn.BatchNorm2d(outputs))


class Block(nn.Module):
    """Two convolutions of size 3, added to their input. The input is projected if the outputs have another shape."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1:
            self.shortcut = convolution(inputs, outputs, 1, stride)
        first = convolution(inputs, outputs, 3, stride).append(nn.ReLU())
        second = convolution(outputs, outputs, 3, 1)
        self.layer = nn.Sequential(first, second)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.layer(x) + self.shortcut(x))


def draw_weights(module: nn.Module) -> None:
    """Draw the weights of one module."""
    # The second draw of each layer replaces the first one. The first one stays for the random numbers that it takes:
    # without it all later ones would differ from those of older studies.
    if isinstance(module, nn.Conv2d):
        nn.init.normal_(module.weight)
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight)
        module.reset_parameters()


class ResNet18(nn.Module):
    """A classifier from images to logits. The first stage has `width` channels, and each later one twice as many."""

    def __init__(self, channels: int, width: int, classes: int) -> None:
        super().__init__()
        stem = named(
            embedder=convolution(channels, width, 7, 2), activation=nn.ReLU(), pooler=nn.MaxPool2d(3, 2, padding=1)
        )
        stages = nn.Sequential()
        inputs = width
        for stage in range(STAGES):
            outputs = width * 2**stage
            blocks = nn.Sequential(Block(inputs, outputs), Block(outputs, outputs))
            stages.append(named(layers=blocks))
            inputs = outputs
        self.resnet = named(embedder=stem, encoder=named(stages=stages), pooler=nn.AdaptiveAvgPool2d(1))
        self.resnet.apply(draw_weights)
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(outputs, classes))
        self.classifier.apply(draw_weights)

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.resnet(images))


class ResNet(Classification):
    """ResNet-18: image classification."""

    def build_model(self, data: Data, *, width: int) -> nn.Module:
        """Two basic blocks in each of four stages. The first stage has `width` channels (usually 64)."""
        return ResNet18(data.shape[0], width, data.classes)
