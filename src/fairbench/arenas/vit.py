"""A vision transformer that reads digits."""

from torch import nn
from transformers import ViTConfig, ViTForImageClassification

from fairbench.arenas.classification import evaluate, loss
from fairbench.data.sources import Data, digits

__all__ = ["build_model", "evaluate", "load_data", "loss"]

load_data = digits


def build_model(data: Data, *, hidden_size: int, layers: int, heads: int, patch_size: int) -> nn.Module:
    """ViT with an MLP four times as wide as its hidden size, without dropout."""
    model: nn.Module = ViTForImageClassification(
        ViTConfig(
            image_size=data.train.inputs.shape[-1],
            patch_size=patch_size,
            num_channels=data.train.inputs.shape[1],
            hidden_size=hidden_size,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * hidden_size,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            num_labels=int(data.train.targets.max()) + 1,
        )
    )
    return model
