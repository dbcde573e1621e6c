"""GPT-2: next-token prediction."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, GPT2Config, GPT2LMHeadModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from fairbench.arenas.base import Arena
from fairbench.data.splits import Data, Split

CAUSAL = "fairbench_causal"
"""Torch's attention under a name for which transformers builds no mask: testing for an unneeded one waits for a GPU."""
AttentionInterface.register(CAUSAL, sdpa_attention_forward)


class GPT(Arena):
    """Next-token prediction; the model maps tokens of shape (N, T) to logits of shape (N, T, vocabulary)."""

    def build_model(self, data: Data, *, hidden_size: int, layers: int, heads: int) -> nn.Module:
        """GPT-2 without dropout, with tied embeddings."""
        model: nn.Module = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=data.classes,
                n_positions=data.shape[0],
                n_embd=hidden_size,
                n_layer=layers,
                n_head=heads,
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
                bos_token_id=None,
                eos_token_id=None,
                use_cache=False,
                attn_implementation=CAUSAL,
            )
        )
        return model

    def examples(self, batch: Split, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Windows of tokens; the targets are among them."""
        return (batch.inputs,)

    def loss(self, model: nn.Module, tokens: Tensor) -> Tensor:
        """Mean cross-entropy in nats per token."""
        return F.cross_entropy(self.logits(model, tokens).flatten(0, 1), tokens[:, 1:].flatten())

    def scores(self, model: nn.Module, tokens: Tensor) -> dict[str, Tensor]:
        """Mean cross-entropy in nats per token of each window."""
        losses = F.cross_entropy(self.logits(model, tokens).mT, tokens[:, 1:], reduction="none")
        return {"loss": losses.mean(dim=1)}

    def logits(self, model: nn.Module, tokens: Tensor) -> Tensor:
        """The model's logits for every token after the first; models of transformers return them as an attribute."""
        output = model(tokens[:, :-1])
        return output if isinstance(output, torch.Tensor) else output.logits

    def derived(self, means: dict[str, float], data: Data, split: str) -> dict[str, float]:
        """Perplexity, exp(loss), and bits per byte, which does not depend on the tokenizer."""
        loss = means["loss"]
        perplexity = math.exp(loss) if loss < 700 else math.inf
        bits_per_byte = loss / math.log(2) * data.tokens_per_byte.get(split, 1.0)
        return {"perplexity": perplexity, "bits_per_byte": bits_per_byte}
