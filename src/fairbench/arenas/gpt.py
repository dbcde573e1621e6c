"""GPT-2: next-token prediction."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, GPT2Config, GPT2LMHeadModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from fairbench.data.stored import Data, Split

CAUSAL = "fairbench_causal"
"""Torch's attention under a name for which transformers makes no mask: to see that none is needed, it would wait."""
AttentionInterface.register(CAUSAL, sdpa_attention_forward)


def build_model(data: Data, *, hidden_size: int, layers: int, heads: int) -> nn.Module:
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


def examples(batch: Split, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Windows of tokens."""
    return (batch.inputs,)


def loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """Mean cross-entropy in nats per token."""
    logits = model(tokens[:, :-1]).logits
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def scores(model: nn.Module, tokens: Tensor) -> dict[str, Tensor]:
    """The same of each window."""
    logits = model(tokens[:, :-1]).logits
    return {"loss": F.cross_entropy(logits.mT, tokens[:, 1:], reduction="none").mean(dim=1)}


def derived(means: dict[str, float], data: Data) -> dict[str, float]:
    """Perplexity, exp(loss), and bits per byte, which texts cut into other tokens can be compared by."""
    loss = means["loss"]
    perplexity = math.exp(loss) if loss < 700 else math.inf
    return {"perplexity": perplexity, "bits_per_byte": loss / math.log(2) * data.tokens_per_byte}
