"""Models for the tests of groups and families: those of transformers, and some made by hand, all of them small."""

import importlib
from functools import cache

import torch
from torch import nn

ENCODER = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
TEXT = {"vocab_size": 40, "max_position_embeddings": 16, **ENCODER}
BART = {
    "vocab_size": 40,
    "d_model": 16,
    "decoder_start_token_id": 1,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "encoder_layers": 1,
    "encoder_ffn_dim": 32,
    "encoder_attention_heads": 2,
    "decoder_layers": 1,
    "decoder_ffn_dim": 32,
    "decoder_attention_heads": 2,
}


class Holder(nn.Module):
    """A module with the children and parameters it is given."""

    def __init__(self, **members: nn.Module | nn.Parameter) -> None:
        super().__init__()
        for name, member in members.items():
            setattr(self, name, member)


def tensor(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(shape))


def of_transformers(name: str, config: str, **sizes: object):
    """A function that builds a model of transformers, with random weights; its name is that of the model."""

    def make() -> nn.Module:
        transformers = importlib.import_module("transformers")  # only in the worker that needs it
        config_class = getattr(transformers, f"{config}Config")
        model_class = getattr(transformers, name)
        return model_class(config_class(**sizes))

    make.__name__ = name
    return make


@cache
def build(make) -> nn.Module:
    """The model of a function that makes one; the same whenever it is asked for."""
    return make()


bert = of_transformers("BertForSequenceClassification", "Bert", **TEXT)
llama = of_transformers("LlamaForCausalLM", "Llama", vocab_size=40, num_key_value_heads=1, **ENCODER)
vit = of_transformers("ViTForImageClassification", "ViT", image_size=16, patch_size=8, **ENCODER)
gpt2 = of_transformers(
    "GPT2LMHeadModel",
    "GPT2",
    vocab_size=40,
    n_positions=16,
    n_embd=16,
    n_layer=2,
    n_head=2,
    bos_token_id=0,
    eos_token_id=1,
)
resnet = of_transformers(
    "ResNetForImageClassification",
    "ResNet",
    embedding_size=8,
    hidden_sizes=[8, 16],
    depths=[1, 1],
    layer_type="basic",
)
whisper = of_transformers(
    "WhisperForConditionalGeneration",
    "Whisper",
    num_mel_bins=8,
    max_source_positions=16,
    max_target_positions=16,
    **BART,
)
t5 = of_transformers(
    "T5ForConditionalGeneration",
    "T5",
    vocab_size=40,
    d_model=16,
    d_kv=8,
    d_ff=32,
    num_layers=2,
    num_heads=2,
)


def transformer() -> nn.Module:
    return nn.Transformer(16, 2, 1, 1, 32, batch_first=True)


def hand_made() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.Sequential(nn.Embedding(40, 16), layer, nn.LayerNorm(16), nn.Linear(16, 40))


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that need a gradient; Whisper's encoder has frozen positions."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}
