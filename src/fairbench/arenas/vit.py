"""A vision transformer that classifies images."""

from torch import nn
from transformers import ViTConfig, ViTForImageClassification

from fairbench.arenas.classification import Classification
from fairbench.data.splits import Data


class ViT(Classification):
    """A vision transformer that classifies images."""

    def build_model(self, data: Data, *, hidden_size: int, layers: int, heads: int, patch_size: int) -> nn.Module:
        """ViT with an MLP four times as wide as its hidden size, without dropout."""
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
