"""ResNet-18 that reads digits."""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import ResNetConfig, ResNetForImageClassification

from fairbench.arenas.classification import evaluate, loss
from fairbench.data.sources import Data, Split, digits, with_fingerprint

__all__ = ["build_model", "evaluate", "load_data", "loss"]


def load_data(*, image_size: int) -> Data:
    """The digits, enlarged bilinearly: ResNet's stem divides the resolution by four."""
    data = digits()
    splits = (data.train, data.val, data.test)
    return with_fingerprint(*(Split(_enlarge(split.inputs, image_size), split.targets) for split in splits))


def _enlarge(images: torch.Tensor, size: int) -> torch.Tensor:
    return F.interpolate(images, size=size, mode="bilinear", align_corners=False)


def build_model(data: Data, *, width: int) -> nn.Module:
    """ResNet-18, basic blocks 2-2-2-2; `width` channels in the first stage, doubled by each later one (64 as usual)."""
    model: nn.Module = ResNetForImageClassification(
        ResNetConfig(
            num_channels=data.train.inputs.shape[1],
            embedding_size=width,
            hidden_sizes=[width, 2 * width, 4 * width, 8 * width],
            depths=[2, 2, 2, 2],
            layer_type="basic",
            num_labels=int(data.train.targets.max()) + 1,
        )
    )
    return model
