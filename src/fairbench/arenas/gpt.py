"""GPT-2 on bytes of source code: next-byte prediction."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from fairbench.data.sources import Data, Split, stdlib_source

load_data = stdlib_source


def build_model(data: Data, *, hidden_size: int, layers: int, heads: int) -> nn.Module:
    """GPT-2 over the 256 bytes, without dropout, with tied embeddings."""
    model: nn.Module = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=256,
            n_positions=data.train.inputs.shape[1] - 1,
            n_embd=hidden_size,
            n_layer=layers,
            n_head=heads,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=None,
            eos_token_id=None,
            use_cache=False,
        )
    )
    return model


def loss(model: nn.Module, batch: Split, generator: torch.Generator) -> Tensor:
    """Mean cross-entropy in nats per byte."""
    tokens = batch.inputs.long()
    logits = model(tokens[:, :-1]).logits
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def evaluate(model: nn.Module, split: Split) -> dict[str, float]:
    """Cross-entropy in nats per byte."""
    return {"loss": loss(model, split, torch.Generator()).item()}
