"""GPT-2: next-token prediction by a model without dropout (Radford et al. 2019).

The names of its parameters and their initial values are those of `GPT2LMHeadModel` in transformers.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairbench.arenas.base import Arena
from fairbench.arenas.parts import multi_head_attention
from fairbench.data.splits import Data, Split

STD = 0.02
"""The standard deviation of initial weights."""


class Conv1D(nn.Module):
    """A linear layer that stores its weight as (inputs, outputs), under its name in OpenAI's code."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        weight = torch.empty(inputs, outputs).normal_(std=STD)
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(0, 1)
        outputs = torch.addmm(self.bias, rows, self.weight)
        return outputs.unflatten(0, x.shape[:2])


class Attention(nn.Module):
    """Causal self-attention with several heads."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = Conv1D(size, 3 * size)
        self.c_proj = Conv1D(size, size)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.c_attn(x).chunk(3, dim=2)
        mixed = multi_head_attention(q, k, v, self.heads, is_causal=True)
        return self.c_proj(mixed)


class MLP(nn.Module):
    """Two linear layers with GELU between them; the hidden layer is four times as wide."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.c_fc = Conv1D(size, 4 * size)
        self.c_proj = Conv1D(4 * size, size)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(gelu(self.c_fc(x)))


def gelu(x: Tensor) -> Tensor:
    """GELU by GPT-2's formula; torch's fused `gelu` rounds differently, and results of older studies must hold."""
    half = 0.5 * x  # the order of these operations decides in which order the gradients of x are added
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return half * (1 + torch.tanh(inner))


class Block(nn.Module):
    """Attention and an MLP, each on normalized inputs, each added to the residual stream."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(size)
        self.attn = Attention(size, heads)
        self.ln_2 = nn.LayerNorm(size)
        self.mlp = MLP(size)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    """Embeddings of tokens and positions, blocks, and a last norm."""

    def __init__(self, vocabulary: int, positions: int, size: int, layers: int, heads: int) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocabulary, size)
        self.wpe = nn.Embedding(positions, size)
        self.h = nn.Sequential(*(Block(size, heads) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(size)
        self.apply(lambda module: draw_weights(module, layers))

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        embedded = self.wte(tokens) + self.wpe(positions[None])
        return self.ln_f(self.h(embedded))


def draw_weights(module: nn.Module, layers: int) -> None:
    """Draw the weights of one module. A deeper model has smaller ones in layers that write to the residual stream."""
    if isinstance(module, nn.Embedding | nn.Linear | Conv1D):
        nn.init.normal_(module.weight, std=STD)
    if isinstance(module, Attention | MLP):
        nn.init.normal_(module.c_proj.weight, std=STD / math.sqrt(2 * layers))


class GPT2(nn.Module):
    """A decoder from tokens (N, T) to logits (N, T, vocabulary), whose head is tied to the embeddings of tokens."""

    def __init__(self, vocabulary: int, positions: int, size: int, layers: int, heads: int) -> None:
        super().__init__()
        self.transformer = Transformer(vocabulary, positions, size, layers, heads)
        self.lm_head = nn.Linear(size, vocabulary, bias=False)
        draw_weights(self.lm_head, layers)  # not used, but the random numbers after it must be those of older studies
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.lm_head(self.transformer(tokens))


class GPT(Arena):
    """Next-token prediction; the model maps tokens of shape (N, T) to logits of shape (N, T, vocabulary)."""

    def build_model(self, data: Data, *, hidden_size: int, layers: int, heads: int) -> nn.Module:
        """GPT-2 without dropout, with tied embeddings."""
        return GPT2(data.classes, data.shape[0], hidden_size, layers, heads)

    def examples(self, batch: Split, generator: torch.Generator) -> tuple[Tensor, ...]:
        """The windows of tokens, which contain the targets."""
        return (batch.inputs,)

    def loss(self, model: nn.Module, tokens: Tensor) -> Tensor:
        """The mean cross-entropy in nats per token."""
        inputs = tokens[:, :-1]
        targets = tokens[:, 1:]
        logits = model(inputs)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def scores(self, model: nn.Module, tokens: Tensor) -> dict[str, Tensor]:
        """The mean cross-entropy of each window, in nats per token."""
        inputs = tokens[:, :-1]
        targets = tokens[:, 1:]
        logits = model(inputs)
        losses = F.cross_entropy(logits.mT, targets, reduction="none")
        return {"loss": losses.mean(dim=1)}

    def derived(self, means: dict[str, float], data: Data, split: str) -> dict[str, float]:
        """Perplexity, which is exp(loss), and bits per byte, which do not depend on the tokenizer."""
        loss = means["loss"]
        perplexity = math.exp(loss) if loss < 700 else math.inf  # math.exp raises OverflowError from 710 on
        bits_per_byte = loss / math.log(2) * data.tokens_per_byte.get(split, 1.0)
        return {"perplexity": perplexity, "bits_per_byte": bits_per_byte}
