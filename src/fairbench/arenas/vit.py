"""ViT: image classification by a vision transformer."""

from torch import nn

from fairbench.arenas.classification import Classification
from fairbench.arenas.models.vit import VisionTransformer
from fairbench.data.splits import Data


class ViT(Classification):
    """Image classification by a vision transformer."""

    def build_model(self, data: Data, *, hidden_size: int, layers: int, heads: int, patch_size: int) -> nn.Module:
        """ViT without dropout; the MLP has four times the hidden size."""
        channels, _, image_size = data.shape
        return VisionTransformer(
            channels, image_size, data.classes, patch=patch_size, size=hidden_size, layers=layers, heads=heads
        )
