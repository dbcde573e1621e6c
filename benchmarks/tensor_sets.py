"""The sets of tensors that the benchmarks step: shapes of real models, short rows, many tiny tensors, one large one."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    ResNetConfig,
    ResNetForImageClassification,
    ViTConfig,
    ViTForImageClassification,
)

Shapes = list[torch.Size]


def _shapes(build: Callable[[], nn.Module]) -> Shapes:
    with torch.device("meta"):
        return [p.shape for p in build().parameters()]


def _vit_tiny() -> nn.Module:
    config = ViTConfig(hidden_size=192, num_attention_heads=3, intermediate_size=768)
    return ViTForImageClassification(config)


def _resnet18() -> nn.Module:
    config = ResNetConfig(hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic", num_labels=1000)
    return ResNetForImageClassification(config)


TENSOR_SETS: dict[str, Callable[[], Shapes]] = {
    "ViT-Tiny": lambda: _shapes(_vit_tiny),
    "ResNet-18": lambda: _shapes(_resnet18),
    "GPT-2 small": lambda: _shapes(lambda: GPT2LMHeadModel(GPT2Config())),
    "1000 x 1k": lambda: [torch.Size([1000])] * 1000,
    "1 x 50M": lambda: [torch.Size([50_000_000])],
    "2 tensors": lambda: [torch.Size([64, 64]), torch.Size([64])],
    "150 groups": lambda: [torch.Size([64, 64])] * 150,
    "rows of 8": lambda: [torch.Size([4096, 8])] * 64,  # as LoRA's B
    "rows of 9": lambda: [torch.Size([960, 1, 3, 3])] * 100,  # as depthwise convolutions
    "rows of 16": lambda: [torch.Size([4096, 16])] * 64,
    "rows of 64": lambda: [torch.Size([4096, 64])] * 16,
}


def tensors_with_gradients(name: str, device: str) -> list[Tensor]:
    """Parameters of a set with gradients, drawn with a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    params = []
    for shape in TENSOR_SETS[name]():
        p = nn.Parameter(torch.randn(shape, generator=generator).mul_(0.02).to(device))
        p.grad = torch.randn(shape, generator=generator).to(device)
        params.append(p)
    return params
