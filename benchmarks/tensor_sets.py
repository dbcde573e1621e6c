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


def _vit_tiny() -> nn.Module:
    config = ViTConfig(hidden_size=192, num_attention_heads=3, intermediate_size=768)
    return ViTForImageClassification(config)


def _resnet18() -> nn.Module:
    config = ResNetConfig(hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic", num_labels=1000)
    return ResNetForImageClassification(config)


def _gpt2_small() -> nn.Module:
    return GPT2LMHeadModel(GPT2Config())


MODELS: dict[str, Callable[[], nn.Module]] = {
    "ViT-Tiny": _vit_tiny,
    "ResNet-18": _resnet18,
    "GPT-2 small": _gpt2_small,
}
MADE_UP: dict[str, Shapes] = {
    "1000 x 1k": [torch.Size([1000])] * 1000,
    "1 x 50M": [torch.Size([50_000_000])],
    "2 tensors": [torch.Size([64, 64]), torch.Size([64])],
    "150 groups": [torch.Size([64, 64])] * 150,
    "rows of 8": [torch.Size([4096, 8])] * 64,  # as LoRA's B
    "rows of 9": [torch.Size([960, 1, 3, 3])] * 100,  # as depthwise convolutions
    "rows of 16": [torch.Size([4096, 16])] * 64,
    "rows of 64": [torch.Size([4096, 64])] * 16,
}
TENSOR_SETS = [*MODELS, *MADE_UP]


def shapes_of(name: str) -> Shapes:
    """The shapes of a set; a model is built without memory."""
    if name in MADE_UP:
        return MADE_UP[name]
    with torch.device("meta"):
        model = MODELS[name]()
    return [parameter.shape for parameter in model.parameters()]


def tensors_with_gradients(name: str, device: str, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Parameters of a set with gradients, drawn with a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    params = []
    for shape in shapes_of(name):
        p = nn.Parameter(torch.randn(shape, generator=generator).mul_(0.02).to(device, dtype))
        p.grad = torch.randn(shape, generator=generator).to(device, dtype)
        params.append(p)
    return params
