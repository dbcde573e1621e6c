"""Models and the preset that `psilogic.auto` must choose for each."""

from typing import NamedTuple

import torch
from example_models import (
    BART,
    ENCODER,
    TEXT,
    Holder,
    bert,
    gpt2,
    hand_made,
    llama,
    of_transformers,
    resnet,
    t5,
    tensor,
    transformer,
    vit,
    whisper,
)
from torch import Tensor, nn

from psilogic import PsiLogicGPT, PsiLogicNLP, PsiLogicViT


class Case(NamedTuple):
    """A function that makes a model, and the preset of the model."""

    make: object
    preset: type


CASES = []


def vision(make):
    """Add a vision model to the cases."""
    CASES.append(Case(make, preset=PsiLogicViT))
    return make


def decoder(make):
    """Add a decoder-only language model to the cases."""
    CASES.append(Case(make, preset=PsiLogicGPT))
    return make


def language(make):
    """Add another language model to the cases."""
    CASES.append(Case(make, preset=PsiLogicNLP))
    return make


class Block(nn.Module):
    """A block of nanoGPT, with its mask, under neutral names, and with further attributes."""

    def __init__(self, mask: Tensor | None, **attributes: object) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)
        self.up = nn.Linear(16, 64)
        self.down = nn.Linear(64, 16)
        self.norm = nn.LayerNorm(16)
        if mask is not None:
            self.register_buffer("mask", mask, persistent=False)
        for name, value in attributes.items():
            setattr(self, name, value)


class CausalSelfAttention(Block):
    """Attention that is causal only by its name, as in nanoGPT with flash attention."""


class RobertLayer(Block):
    """A layer of a home-made BERT."""


def tokens_and(*layers: nn.Module, **others: object) -> nn.Module:
    """A model that reads 40 tokens and predicts none."""
    return Holder(tokens=nn.Embedding(40, 16), wpe=nn.Embedding(64, 16), h=nn.ModuleList(layers), **others)


def predicting(*layers: nn.Module) -> nn.Module:
    """A model that reads 40 tokens and predicts them."""
    return tokens_and(*layers, out=nn.Linear(16, 40, bias=False))


# Vision

vision(vit)
vision(resnet)
vision(
    of_transformers(
        "SwinForImageClassification",
        "Swin",
        image_size=16,
        patch_size=2,
        embed_dim=8,
        depths=[1, 1],
        num_heads=[1, 2],
        window_size=2,
    )
)
vision(of_transformers("ConvNextForImageClassification", "ConvNext", hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1]))
vision(of_transformers("CLIPVisionModel", "CLIPVision", image_size=16, patch_size=8, **ENCODER))
vision(of_transformers("Siglip2VisionModel", "Siglip2Vision", num_patches=4, patch_size=8, **ENCODER))


@vision
def residual_network() -> nn.Module:
    first = nn.Conv2d(8, 8, 3, padding=1)
    second = nn.Conv2d(8, 8, 3, padding=1)
    block = Holder(conv1=first, bn1=nn.BatchNorm2d(8), conv2=second)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), block, nn.Flatten(), nn.Linear(8, 10))


@vision
def convolutional_vit() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 2, 32)
    body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    embed = Holder(proj=nn.Conv2d(3, 16, 4, 4))
    return Holder(patch_embed=embed, cls_token=tensor(1, 1, 16), blocks=body, head=nn.Linear(16, 10))


@vision
def vit_with_linear_patches() -> nn.Module:
    blocks = nn.TransformerEncoderLayer(16, 2, 32)
    return Holder(to_patch=nn.Linear(48, 16), blocks=blocks, head=nn.Linear(16, 10))


@vision
def unet() -> nn.Module:
    import diffusers  # only the worker that runs this needs it

    return diffusers.UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        num_class_embeds=10,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        attention_head_dim=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )


@vision
def flux() -> nn.Module:
    import diffusers

    return diffusers.FluxTransformer2DModel(
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=16,
        pooled_projection_dim=16,
        axes_dims_rope=(2, 2, 4),
    )


@vision
def generator_with_labels() -> nn.Module:
    up = nn.Sequential(nn.ConvTranspose2d(16, 3, 4))
    return Holder(label_emb=nn.Embedding(10, 16), up=up)


@vision
def convolutions_over_a_series() -> nn.Module:
    return nn.Sequential(nn.Conv1d(1, 8, 3), nn.BatchNorm1d(8), nn.Flatten(), nn.Linear(8, 2))


# Decoder-only language models

decoder(gpt2)
decoder(llama)
decoder(of_transformers("GPTNeoXForCausalLM", "GPTNeoX", **TEXT))
decoder(of_transformers("MistralForCausalLM", "Mistral", num_key_value_heads=1, **TEXT))
decoder(of_transformers("Qwen2ForCausalLM", "Qwen2", num_key_value_heads=1, **TEXT))
decoder(of_transformers("OPTForCausalLM", "OPT", ffn_dim=32, word_embed_proj_dim=16, **TEXT))
decoder(of_transformers("BloomForCausalLM", "Bloom", vocab_size=40, hidden_size=16, n_layer=2, n_head=2))
decoder(of_transformers("FalconForCausalLM", "Falcon", **TEXT))
decoder(of_transformers("MambaForCausalLM", "Mamba", vocab_size=40, hidden_size=16, num_hidden_layers=2, state_size=4))
decoder(of_transformers("LlamaForSequenceClassification", "Llama", num_key_value_heads=1, pad_token_id=0, **TEXT))
decoder(of_transformers("LlamaModel", "Llama", num_key_value_heads=1, **TEXT))
decoder(of_transformers("BertLMHeadModel", "Bert", is_decoder=True, **TEXT))
decoder(of_transformers("BartForCausalLM", "Bart", is_encoder_decoder=False, is_decoder=True, **BART))


@decoder
def llava() -> nn.Module:
    import transformers

    image = transformers.CLIPVisionConfig(image_size=16, patch_size=8, **ENCODER)
    config = transformers.LlavaConfig(vision_config=image, text_config=transformers.LlamaConfig(**TEXT))
    return transformers.LlavaForConditionalGeneration(config)


@decoder
def nano_gpt() -> nn.Module:
    return predicting(Block(None))


@decoder
def with_the_past_as_mask() -> nn.Module:
    return tokens_and(Block(torch.ones(1, 1, 100, 100).tril()))


@decoder
def with_the_future_as_mask() -> nn.Module:
    return tokens_and(Block(torch.ones(16, 16, dtype=torch.bool).triu(1)))


@decoder
def with_a_causal_class() -> nn.Module:
    return tokens_and(CausalSelfAttention(None))


@decoder
def with_a_mask_as_attribute() -> nn.Module:
    mask = torch.full((64, 64), -torch.inf).triu(1)
    return tokens_and(nn.TransformerEncoderLayer(16, 2, 32), nn.LayerNorm(16), mask=mask)


@decoder
def tied_with_a_value_head() -> nn.Module:
    model = Holder(tokens=nn.Embedding(40, 16), body=Block(None), out=nn.Linear(16, 40, bias=False))
    model.out.weight = model.tokens.weight
    model.value = nn.Linear(16, 1)
    return model


@decoder
def example_of_pytorch() -> nn.Module:
    """Its encoder is an embedding, and its decoder a linear layer."""
    return Holder(encoder=nn.Embedding(40, 16), rnn=nn.LSTM(16, 16), decoder=nn.Linear(16, 40))


decoder(hand_made)

# Other language models

language(bert)
language(t5)
language(whisper)
language(transformer)
language(of_transformers("BertForMaskedLM", "Bert", **TEXT))
language(of_transformers("RobertaForMaskedLM", "Roberta", **TEXT))
language(of_transformers("DebertaV2ForMaskedLM", "DebertaV2", **TEXT))
language(of_transformers("BartForConditionalGeneration", "Bart", **BART))
language(
    of_transformers(
        "Wav2Vec2ForCTC",
        "Wav2Vec2",
        conv_dim=[8],
        conv_kernel=[4],
        conv_stride=[2],
        num_feat_extract_layers=1,
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
        **TEXT,
    )
)


@language
def vision_encoder_decoder() -> nn.Module:
    import transformers

    image = transformers.ViTConfig(image_size=16, patch_size=8, **ENCODER)
    text = transformers.GPT2Config(vocab_size=40, n_positions=16, n_embd=16, n_layer=1, n_head=2)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(image, text)
    return transformers.VisionEncoderDecoderModel(config)


@language
def with_cross_attention() -> nn.Module:
    block = Block(torch.ones(16, 16).tril(), cross_attn=nn.MultiheadAttention(16, 2))
    return tokens_and(block, out=nn.Linear(16, 40))


@language
def seq2seq_lstm() -> nn.Module:
    return Holder(
        source=nn.Embedding(40, 16),
        target=nn.Embedding(40, 16),
        encoder=nn.LSTM(16, 16),
        decoder=nn.LSTM(16, 16),
        out=nn.Linear(16, 40),
    )


@language
def convolutions_over_words() -> nn.Module:
    return Holder(embedding=nn.Embedding(40, 16), conv=nn.Conv2d(1, 8, (3, 16)), fc=nn.Linear(8, 2))


@language
def two_segments_and_two_classes() -> nn.Module:
    return Holder(words=nn.Embedding(40, 16), segments=nn.Embedding(2, 16), fc=nn.Linear(16, 2))


@language
def declared_not_causal() -> nn.Module:
    return predicting(Block(None, is_causal=False))


@language
def classifier_of_texts() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 2, 32)
    return nn.Sequential(nn.Embedding(40, 16), layer, nn.LayerNorm(16), nn.Linear(16, 2))


@language
def lstm_classifier() -> nn.Module:
    return Holder(tokens=nn.Embedding(40, 16), rnn=nn.LSTM(16, 16), fc=nn.Linear(16, 2))


@language
def bidirectional_tagger() -> nn.Module:
    rnn = nn.LSTM(16, 8, bidirectional=True)
    return Holder(tokens=nn.Embedding(40, 16), rnn=rnn, tags=nn.Linear(16, 40))


@language
def with_a_bert_layer() -> nn.Module:
    return tokens_and(RobertLayer(None), out=nn.Linear(16, 40))


@language
def with_masks_that_are_not_causal() -> nn.Module:
    full = Block(torch.ones(16, 16))
    diagonal = Block(torch.eye(16))
    too_small = Block(torch.zeros(2, 2).triu(1))
    return tokens_and(full, diagonal, too_small)


@language
def attention_alone() -> nn.Module:
    return nn.TransformerEncoderLayer(16, 2, 32)


@language
def recurrence_alone() -> nn.Module:
    return nn.GRU(16, 16)
