"""GPT-2: next-token prediction."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairbench.arenas.base import Arena
from fairbench.arenas.models.gpt2 import GPT2
from fairbench.data.splits import Data, Split


class GPT(Arena):
    """Next-token prediction; the model maps tokens of shape (N, T) to logits of shape (N, T, vocabulary)."""

    def build_model(self, data: Data, *, hidden_size: int, layers: int, heads: int) -> nn.Module:
        """GPT-2 without dropout, with tied embeddings."""
        return GPT2(data.classes, data.shape[0], hidden_size, layers, heads)

    def examples(self, batch: Split, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Windows of tokens; the targets are among them."""
        return (batch.inputs,)

    def loss(self, model: nn.Module, tokens: Tensor) -> Tensor:
        """Mean cross-entropy in nats per token."""
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    def scores(self, model: nn.Module, tokens: Tensor) -> dict[str, Tensor]:
        """Mean cross-entropy in nats per token of each window."""
        losses = F.cross_entropy(model(tokens[:, :-1]).mT, tokens[:, 1:], reduction="none")
        return {"loss": losses.mean(dim=1)}

    def derived(self, means: dict[str, float], data: Data, split: str) -> dict[str, float]:
        """Perplexity, exp(loss), and bits per byte, which does not depend on the tokenizer."""
        loss = means["loss"]
        perplexity = math.exp(loss) if loss < 700 else math.inf
        bits_per_byte = loss / math.log(2) * data.tokens_per_byte.get(split, 1.0)
        return {"perplexity": perplexity, "bits_per_byte": bits_per_byte}
