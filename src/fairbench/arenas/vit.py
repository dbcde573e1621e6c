"""ViT: image classification by a vision transformer."""

from torch import nn
from transformers import ViTConfig, ViTForImageClassification

from fairbench.arenas.classification import Classification
from fairbench.data.splits import Data


class ViT(Classification):
    """Image classification by a vision transformer."""

    def build_model(self, data: Data, *, hidden_size: int, layers: int, heads: int, patch_size: int) -> nn.Module:
        """ViT without dropout; the MLP has four times the hidden size."""
        model: nn.Module = ViTForImageClassification(
            ViTConfig(
                image_size=data.shape[-1],
                patch_size=patch_size,
                num_channels=data.shape[0],
                hidden_size=hidden_size,
                num_hidden_layers=layers,
                num_attention_heads=heads,
                intermediate_size=4 * hidden_size,
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
                num_labels=data.classes,
            )
        )
        return model
