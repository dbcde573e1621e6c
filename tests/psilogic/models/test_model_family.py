"""psilogic.auto: which preset a model gets, and that arguments are passed on."""

import logging

import pytest
import test_groups as models
import torch
from test_groups import ENCODER, TEXT, Holder, bert, build, gpt2, of_transformers, t5, vit
from torch import Tensor, nn

import psilogic
from psilogic import PsiLogicGPT, PsiLogicNLP, PsiLogicViT

pytestmark = pytest.mark.xdist_group("models")  # one worker loads the models


def torch_layers() -> list[nn.Module]:
    return [nn.Embedding(40, 16), nn.TransformerEncoderLayer(16, 2, 32), nn.LayerNorm(16)]


class Block(nn.Module):
    """A block of nanoGPT, with its mask, under neutral names, and with further attributes."""

    def __init__(self, mask: Tensor | None, **attributes: object) -> None:
        super().__init__()
        shapes = (16, 48), (16, 16), (16, 64), (64, 16)
        self.qkv, self.out, self.up, self.down = (nn.Linear(*shape) for shape in shapes)
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


def nano_gpt(mask: Tensor | None = None) -> nn.Module:
    return tokens_and(Block(mask), out=nn.Linear(16, 40, bias=False))


def tied_with_a_value_head() -> nn.Module:
    model = Holder(tokens=nn.Embedding(40, 16), body=Block(None), out=nn.Linear(16, 40, bias=False))
    model.out.weight = model.tokens.weight
    model.value = nn.Linear(16, 1)
    return model


def residual_network() -> nn.Module:
    block = Holder(conv1=nn.Conv2d(8, 8, 3, padding=1), bn1=nn.BatchNorm2d(8), conv2=nn.Conv2d(8, 8, 3, padding=1))
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), block, nn.Flatten(), nn.Linear(8, 10))


def convolutional_vit() -> nn.Module:
    body = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32), 2, enable_nested_tensor=False)
    embed = Holder(proj=nn.Conv2d(3, 16, 4, 4))
    return Holder(patch_embed=embed, cls_token=models.tensor(1, 1, 16), blocks=body, head=nn.Linear(16, 10))


def unet() -> nn.Module:
    import diffusers  # only the worker that runs this needs it

    sizes = {"block_out_channels": (8, 16), "layers_per_block": 1, "norm_num_groups": 4, "attention_head_dim": 8}
    blocks = {"down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
    return diffusers.UNet2DModel(sample_size=8, in_channels=1, out_channels=1, num_class_embeds=10, **sizes, **blocks)


def flux() -> nn.Module:
    import diffusers

    sizes = {"num_layers": 1, "num_single_layers": 1, "attention_head_dim": 8, "num_attention_heads": 2}
    axes = {"joint_attention_dim": 16, "pooled_projection_dim": 16, "axes_dims_rope": (2, 2, 4)}
    return diffusers.FluxTransformer2DModel(in_channels=4, **sizes, **axes)


def seq2seq_lstm() -> nn.Module:
    tables = {"source": nn.Embedding(40, 16), "target": nn.Embedding(40, 16)}
    return Holder(**tables, encoder=nn.LSTM(16, 16), decoder=nn.LSTM(16, 16), out=nn.Linear(16, 40))


def vision_encoder_decoder() -> nn.Module:
    import transformers  # only the worker that runs this needs it

    image = transformers.ViTConfig(image_size=16, patch_size=8, **ENCODER)
    text = transformers.GPT2Config(vocab_size=40, n_positions=16, n_embd=16, n_layer=1, n_head=2)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(image, text)
    return transformers.VisionEncoderDecoderModel(config)


def llava() -> nn.Module:
    import transformers

    image = transformers.CLIPVisionConfig(image_size=16, patch_size=8, **ENCODER)
    config = transformers.LlavaConfig(vision_config=image, text_config=transformers.LlamaConfig(**TEXT))
    return transformers.LlavaForConditionalGeneration(config)


SWIN = {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 2}
VISION = [
    vit,
    models.resnet,
    of_transformers("SwinForImageClassification", "Swin", **SWIN),
    of_transformers("ConvNextForImageClassification", "ConvNext", hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1]),
    of_transformers("CLIPVisionModel", "CLIPVision", image_size=16, patch_size=8, **ENCODER),
    of_transformers("Siglip2VisionModel", "Siglip2Vision", num_patches=4, patch_size=8, **ENCODER),
    residual_network,
    convolutional_vit,
    lambda: Holder(to_patch=nn.Linear(48, 16), blocks=nn.TransformerEncoderLayer(16, 2, 32), head=nn.Linear(16, 10)),
    unet,
    flux,
    lambda: Holder(label_emb=nn.Embedding(10, 16), up=nn.Sequential(nn.ConvTranspose2d(16, 3, 4))),
    lambda: nn.Sequential(nn.Conv1d(1, 8, 3), nn.BatchNorm1d(8), nn.Flatten(), nn.Linear(8, 2)),
]
ALIBI = {"vocab_size": 40, "hidden_size": 16, "n_layer": 2, "n_head": 2}
STATE = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4}
DECODERS = [
    gpt2,
    models.llama,
    of_transformers("GPTNeoXForCausalLM", "GPTNeoX", **TEXT),
    of_transformers("MistralForCausalLM", "Mistral", num_key_value_heads=1, **TEXT),
    of_transformers("Qwen2ForCausalLM", "Qwen2", num_key_value_heads=1, **TEXT),
    of_transformers("OPTForCausalLM", "OPT", ffn_dim=32, word_embed_proj_dim=16, **TEXT),
    of_transformers("BloomForCausalLM", "Bloom", **ALIBI),
    of_transformers("FalconForCausalLM", "Falcon", **TEXT),
    of_transformers("MambaForCausalLM", "Mamba", **STATE),
    of_transformers("LlamaForSequenceClassification", "Llama", num_key_value_heads=1, pad_token_id=0, **TEXT),
    of_transformers("LlamaModel", "Llama", num_key_value_heads=1, **TEXT),
    of_transformers("BertLMHeadModel", "Bert", is_decoder=True, **TEXT),
    of_transformers("BartForCausalLM", "Bart", is_encoder_decoder=False, is_decoder=True, **models.BART),
    llava,
    nano_gpt,
    lambda: tokens_and(Block(torch.ones(1, 1, 100, 100).tril())),
    lambda: tokens_and(Block(torch.ones(16, 16, dtype=torch.bool).triu(1))),
    lambda: tokens_and(CausalSelfAttention(None)),
    lambda: tokens_and(*torch_layers()[1:], mask=torch.full((64, 64), -torch.inf).triu(1)),
    tied_with_a_value_head,
    # PyTorch's example: its encoder is an embedding, and its decoder a linear layer.
    lambda: Holder(encoder=nn.Embedding(40, 16), rnn=nn.LSTM(16, 16), decoder=nn.Linear(16, 40)),
    models.hand_made,
]
WAV = {"conv_dim": [8], "conv_kernel": [4], "conv_stride": [2], "num_feat_extract_layers": 1}
WAV |= {"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}
LANGUAGE = [
    bert,
    t5,
    models.whisper,
    models.transformer,
    of_transformers("BertForMaskedLM", "Bert", **TEXT),
    of_transformers("RobertaForMaskedLM", "Roberta", **TEXT),
    of_transformers("DebertaV2ForMaskedLM", "DebertaV2", **TEXT),
    of_transformers("BartForConditionalGeneration", "Bart", **models.BART),
    of_transformers("Wav2Vec2ForCTC", "Wav2Vec2", **WAV, **TEXT),
    vision_encoder_decoder,
    lambda: tokens_and(
        Block(torch.ones(16, 16).tril(), cross_attn=nn.MultiheadAttention(16, 2)), out=nn.Linear(16, 40)
    ),
    seq2seq_lstm,
    lambda: Holder(embedding=nn.Embedding(40, 16), conv=nn.Conv2d(1, 8, (3, 16)), fc=nn.Linear(8, 2)),
    lambda: Holder(words=nn.Embedding(40, 16), segments=nn.Embedding(2, 16), fc=nn.Linear(16, 2)),
    lambda: tokens_and(Block(None, is_causal=False), out=nn.Linear(16, 40, bias=False)),
    lambda: nn.Sequential(*torch_layers(), nn.Linear(16, 2)),
    lambda: Holder(tokens=nn.Embedding(40, 16), rnn=nn.LSTM(16, 16), fc=nn.Linear(16, 2)),
    lambda: Holder(tokens=nn.Embedding(40, 16), rnn=nn.LSTM(16, 8, bidirectional=True), tags=nn.Linear(16, 40)),
    lambda: tokens_and(RobertLayer(None), out=nn.Linear(16, 40)),
    lambda: tokens_and(Block(torch.ones(16, 16)), Block(torch.eye(16)), Block(torch.zeros(2, 2).triu(1))),
    lambda: nn.TransformerEncoderLayer(16, 2, 32),
    lambda: nn.GRU(16, 16),
]
EXPECTED = [
    *((make, PsiLogicViT) for make in VISION),
    *((make, PsiLogicGPT) for make in DECODERS),
    *((make, PsiLogicNLP) for make in LANGUAGE),
]


@pytest.mark.parametrize(("make", "preset"), EXPECTED)
def test_the_preset_is_that_of_the_model(make, preset):
    model = build(make)
    optimizer = psilogic.auto(model, 0.01, 100)
    assert type(optimizer) is preset
    listed = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert len(listed) == len(set(listed))
    assert set(listed) == {id(p) for p in models.trainable(model).values()}


@pytest.mark.parametrize(("make", "preset"), [(vit, PsiLogicViT), (gpt2, PsiLogicGPT), (bert, PsiLogicNLP)])
def test_arguments_arrive_and_wrapped_models_are_recognized(make, preset):
    for options in ({}, {"gamma": 0.07, "betas": (0.8, 0.95), "weight_decay": 0.3}):
        ours, direct = (
            [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
            for optimizer in (
                psilogic.auto(build(make), lr=0.25, total_steps=123, **options),
                preset(build(make), 0.25, total_steps=123, **options),
            )
        )
        assert ours == direct
    for wrapped in (torch.compile(build(make), backend="eager"), Holder(network=build(make))):
        assert type(psilogic.auto(wrapped, 0.01, 100)) is preset


def test_a_mask_without_data_is_ignored():
    with torch.device("meta"):
        model = tokens_and(Block(torch.ones(16, 16).tril()))
    assert type(psilogic.auto(model, 0.01, 100)) is PsiLogicNLP


def test_the_choice_and_its_reason_are_logged(caplog):
    with caplog.at_level(logging.INFO, logger="psilogic"):
        psilogic.auto(nn.Sequential(nn.Conv2d(3, 8, 3)), 0.01, 100)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("psilogic", "INFO")
    said = "psilogic.auto chose PsiLogicViT for a Sequential: convolutions in two or three dimensions"
    assert record.getMessage() == said


@pytest.mark.parametrize(
    ("model", "total_steps", "options", "error", "message"),
    [
        (
            nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)), 100, {}, ValueError,
            "family of this Sequential.*PsiLogicNLP.*PsiLogic with its",
        ),
        (nn.Identity(), 100, {}, ValueError, "family of this Identity"),
        (nn.Linear(2, 2).parameters(), 100, {}, TypeError, r"model must be a torch\.nn\.Module, got generator"),
        ([torch.zeros(2)], 100, {}, TypeError, r"model must be a torch\.nn\.Module, got list"),
        (nn.GRU(16, 16), 100, {"gama": 0.1}, TypeError, "gama"),
        (nn.GRU(16, 16), -1, {}, ValueError, "total_steps"),
        (nn.Conv2d(3, 8, 3).requires_grad_(False), 100, {}, ValueError, "empty parameter list"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)  # fmt: skip
def test_errors(model, total_steps, options, error, message):
    with pytest.raises(error, match=message):
        psilogic.auto(model, 0.01, total_steps, **options)
