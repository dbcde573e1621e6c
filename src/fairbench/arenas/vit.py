"""ViT, a vision transformer without dropout, for image classification (Dosovitskiy et al. 2021).

The names of its parameters and their initial values are those of `ViTForImageClassification` in transformers.
"""

import torch
from torch import Tensor, nn

from fairbench.arenas.classification import Classification
from fairbench.arenas.parts import multi_head_attention, named
from fairbench.data.splits import Data

STD = 0.02
"""The standard deviation of initial weights."""
EPSILON = 1e-12
"""Added to the variance in every norm."""


class Embeddings(nn.Module):
    """The class token and the embedded patches of an image, each with the embedding of its position."""

    def __init__(self, channels: int, patches: int, patch: int, size: int) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.randn(1, 1, size))
        self.patch_embeddings = named(projection=nn.Conv2d(channels, size, patch, stride=patch))
        self.position_embeddings = nn.Parameter(torch.randn(1, patches + 1, size))

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patch_embeddings(images).flatten(2).transpose(1, 2)
        class_token = self.cls_token.expand(len(patches), -1, -1)
        tokens = torch.cat([class_token, patches], dim=1)
        return tokens + self.position_embeddings


class Attention(nn.Module):
    """Self-attention with several heads."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(size, size)
        self.k_proj = nn.Linear(size, size)
        self.v_proj = nn.Linear(size, size)
        self.o_proj = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        q = self.q_proj(x)
        k = self.k_proj(x)
        v = self.v_proj(x)
        return self.o_proj(multi_head_attention(q, k, v, self.heads))


class Layer(nn.Module):
    """Attention and an MLP, each on normalized inputs, each added to the residual stream."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(size, heads)
        self.layernorm_before = nn.LayerNorm(size, EPSILON)
        self.layernorm_after = nn.LayerNorm(size, EPSILON)
        self.mlp = named(fc1=nn.Linear(size, 4 * size), gelu=nn.GELU(), fc2=nn.Linear(4 * size, size))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.layernorm_before(x))
        return x + self.mlp(self.layernorm_after(x))


class Encoder(nn.Module):
    """Embeddings, layers, and a last norm."""

    def __init__(self, channels: int, patches: int, patch: int, size: int, layers: int, heads: int) -> None:
        super().__init__()
        self.embeddings = Embeddings(channels, patches, patch, size)
        self.layers = nn.Sequential(*(Layer(size, heads) for _ in range(layers)))
        self.layernorm = nn.LayerNorm(size, EPSILON)
        self.apply(draw_weights)

    def forward(self, images: Tensor) -> Tensor:
        return self.layernorm(self.layers(self.embeddings(images)))


def draw_weights(module: nn.Module) -> None:
    """Draw the weights of one module."""
    if isinstance(module, nn.Linear | nn.Conv2d) and module.bias is not None:
        nn.init.normal_(module.weight, std=STD)
        nn.init.zeros_(module.bias)
    if isinstance(module, Embeddings):
        nn.init.trunc_normal_(module.position_embeddings, std=STD)
        nn.init.trunc_normal_(module.cls_token, std=STD)


class VisionTransformer(nn.Module):
    """A classifier from square images to logits, which are computed from the class token."""

    def __init__(self, channels: int, image: int, classes: int, patch: int, size: int, layers: int, heads: int) -> None:
        super().__init__()
        patches = (image // patch) ** 2
        self.vit = Encoder(channels, patches, patch, size, layers, heads)
        self.classifier = nn.Linear(size, classes)
        draw_weights(self.classifier)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.vit(images)
        return self.classifier(tokens[:, 0])


class ViT(Classification):
    """Image classification by a vision transformer."""

    def build_model(self, data: Data, *, hidden_size: int, layers: int, heads: int, patch_size: int) -> nn.Module:
        """ViT without dropout; the MLP has four times the hidden size."""
        channels, _, image = data.shape
        return VisionTransformer(channels, image, data.classes, patch_size, hidden_size, layers, heads)
