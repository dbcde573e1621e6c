"""The group builders on real models: what decays, and which chaos gain each part gets."""

from functools import cache

import pytest
import torch
import transformers
from torch import nn

from psilogic import gpt_groups, nlp_groups, vit_groups

pytestmark = pytest.mark.xdist_group("libraries")  # one worker loads the models

BUILDERS = {"gpt": gpt_groups, "vit": vit_groups, "nlp": nlp_groups}
NORMS = ("LayerNorm", "BatchNorm2d", "LlamaRMSNorm", "T5LayerNorm")
ENCODER = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def hand_made() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.Sequential(nn.Embedding(40, 16), layer, nn.LayerNorm(16), nn.Linear(16, 40))


def bert() -> nn.Module:
    config = transformers.BertConfig(vocab_size=40, max_position_embeddings=16, **ENCODER)
    return transformers.BertForSequenceClassification(config)


def gpt2() -> nn.Module:
    sizes = {"vocab_size": 40, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(bos_token_id=0, eos_token_id=1, **sizes))


def llama() -> nn.Module:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=40, num_key_value_heads=1, **ENCODER))


def vit() -> nn.Module:
    return transformers.ViTForImageClassification(transformers.ViTConfig(image_size=16, patch_size=8, **ENCODER))


def resnet() -> nn.Module:
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    return transformers.ResNetForImageClassification(config)


def whisper() -> nn.Module:
    sizes = {"d_model": 16, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 16}
    sides = {f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in (("layers", 1), ("ffn_dim", 32))}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    tokens = {"vocab_size": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**sizes, **sides, **heads, **tokens))


def t5() -> nn.Module:
    sizes = {"vocab_size": 40, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes))


def transformer() -> nn.Module:
    return nn.Transformer(16, 2, 1, 1, 32, batch_first=True)


MODELS = (bert, gpt2, llama, vit, resnet, whisper, t5, transformer, hand_made)
build = cache(lambda make: make())


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Whisper's encoder has frozen positions."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def table(model: nn.Module, builder: str, **options: float) -> dict[str, tuple[str, float, bool]]:
    """For each parameter, by every name it has: its group, its gamma and whether it decays."""
    rows = {}
    for group in BUILDERS[builder](model, **options):
        decays = group.get("weight_decay") != 0
        rows |= {id(p): (group["name"].removesuffix("_no_decay"), group["gamma"], decays) for p in group["params"]}
    return {name: rows[id(p)] for name, p in model.named_parameters(remove_duplicate=False) if id(p) in rows}


@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize("make", MODELS)
def test_every_parameter_is_in_exactly_one_group(make, builder):
    model = build(make)
    groups = BUILDERS[builder](model)
    listed = [id(p) for group in groups for p in group["params"]]
    assert len(listed) == len(set(listed))
    assert set(listed) == {id(p) for p in trainable(model).values()}
    assert all(group["params"] for group in groups)
    assert len({group["name"] for group in groups}) == len(groups)


@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize("make", MODELS)
def test_no_norm_bias_or_vector_decays(make, builder):
    model = build(make)
    rows = table(model, builder)
    norms = {
        f"{path}.{name}"
        for path, module in model.named_modules()
        if type(module).__name__ in NORMS
        for name, _ in module.named_parameters()
    }
    vectors = {name for name, p in trainable(model).items() if p.ndim < 2}
    biases = {name for name in trainable(model) if name.endswith("bias")}
    assert norms
    assert [name for name in norms | vectors | biases if rows[name][2]] == []


@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize(
    ("make", "undecayed"),
    [
        (bert, {"bert.embeddings.position_embeddings.weight"}),
        (gpt2, {"transformer.wpe.weight"}),
        (llama, set()),
        (vit, {"vit.embeddings.cls_token", "vit.embeddings.position_embeddings"}),
        (resnet, set()),
        (whisper, {"model.decoder.embed_positions.weight"}),
        (
            t5,
            {f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight" for side in ("encoder", "decoder")},
        ),
        (transformer, set()),
        (hand_made, set()),
    ],
)
def test_of_the_matrices_only_positions_and_tokens_do_not_decay(make, undecayed, builder):
    model = build(make)
    rows = table(model, builder)
    assert {name for name, p in trainable(model).items() if p.ndim >= 2 and not rows[name][2]} == undecayed


@pytest.mark.parametrize(
    ("make", "builder", "name", "group", "gamma"),
    [
        (gpt2, "gpt", "transformer.wte.weight", "embeddings", 0.005),
        (gpt2, "gpt", "transformer.wpe.weight", "embeddings", 0.005),
        (gpt2, "gpt", "lm_head.weight", "embeddings", 0.005),
        (gpt2, "gpt", "transformer.h.1.attn.c_attn.weight", "blocks", 0.02),
        (gpt2, "gpt", "transformer.h.1.mlp.c_proj.bias", "blocks", 0.02),
        (gpt2, "gpt", "transformer.ln_f.weight", "blocks", 0.02),
        (llama, "gpt", "model.embed_tokens.weight", "embeddings", 0.005),
        (llama, "gpt", "model.layers.0.self_attn.q_proj.weight", "blocks", 0.02),
        (llama, "gpt", "model.norm.weight", "blocks", 0.02),
        (llama, "gpt", "lm_head.weight", "head", 0.01),
        (hand_made, "gpt", "0.weight", "embeddings", 0.005),
        (hand_made, "gpt", "1.linear1.weight", "blocks", 0.02),
        (hand_made, "gpt", "3.weight", "head", 0.01),
        (hand_made, "gpt", "3.bias", "head", 0.01),
        (transformer, "gpt", "decoder.layers.0.linear2.weight", "blocks", 0.02),
        (vit, "vit", "vit.embeddings.patch_embeddings.projection.weight", "patch_and_tokens", 0.005),
        (vit, "vit", "vit.embeddings.patch_embeddings.projection.bias", "patch_and_tokens", 0.005),
        (vit, "vit", "vit.embeddings.cls_token", "patch_and_tokens", 0.005),
        (vit, "vit", "vit.embeddings.position_embeddings", "patch_and_tokens", 0.005),
        (vit, "vit", "vit.layers.0.attention.o_proj.weight", "attention", 0.02),
        (vit, "vit", "vit.layers.0.mlp.fc1.weight", "mlp", 0.03),
        (vit, "vit", "vit.layers.0.layernorm_before.weight", "rest", 0.03),
        (vit, "vit", "classifier.weight", "rest", 0.03),
        (resnet, "vit", "resnet.embedder.embedder.convolution.weight", "rest", 0.03),
        (resnet, "vit", "classifier.1.weight", "rest", 0.03),
        (transformer, "vit", "encoder.layers.0.self_attn.in_proj_weight", "attention", 0.02),
        (transformer, "vit", "encoder.layers.0.self_attn.out_proj.weight", "attention", 0.02),
        (transformer, "vit", "encoder.layers.0.linear1.weight", "mlp", 0.03),
        (transformer, "vit", "encoder.layers.0.norm1.weight", "rest", 0.03),
        (bert, "nlp", "bert.embeddings.word_embeddings.weight", "embeddings", 0.01),
        (bert, "nlp", "bert.embeddings.position_embeddings.weight", "embeddings", 0.01),
        (bert, "nlp", "bert.encoder.layer.0.attention.self.query.weight", "attention", 0.03),
        (bert, "nlp", "bert.encoder.layer.0.attention.output.dense.weight", "attention", 0.03),
        (bert, "nlp", "bert.encoder.layer.0.attention.output.LayerNorm.weight", "rest", 0.03),
        (bert, "nlp", "bert.encoder.layer.0.output.dense.weight", "rest", 0.03),
        (bert, "nlp", "classifier.weight", "rest", 0.03),
        (t5, "nlp", "shared.weight", "embeddings", 0.01),
        (t5, "nlp", "lm_head.weight", "embeddings", 0.01),
        (t5, "nlp", "decoder.block.1.layer.1.EncDecAttention.k.weight", "attention", 0.03),
        (t5, "nlp", "decoder.block.1.layer.2.DenseReluDense.wi.weight", "rest", 0.03),
        (whisper, "nlp", "proj_out.weight", "embeddings", 0.01),
        (whisper, "nlp", "model.decoder.layers.0.encoder_attn.q_proj.weight", "attention", 0.03),
        (whisper, "nlp", "model.encoder.conv1.weight", "rest", 0.03),
    ],
)
def test_gammas_are_those_of_the_table(make, builder, name, group, gamma):
    assert table(build(make), builder)[name][:2] == (group, gamma)


class Holder(nn.Module):
    """A module with the children and parameters it is given."""

    def __init__(self, **members: nn.Module | nn.Parameter) -> None:
        super().__init__()
        for name, member in members.items():
            setattr(self, name, member)


def tensor(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(shape))


class ChannelNorm(Holder):
    """A norm that torch does not know, with a weight of three dimensions."""


class Mixer(nn.MultiheadAttention):
    """An attention module with another class name."""


class TestTypesComeBeforeNames:
    """Names that point elsewhere do not mislead where the type is known."""

    @pytest.mark.parametrize("name", ["pos_proj", "norm_mix", "cls_token", "token_head"])
    def test_a_linear_layer_decays_whatever_its_name(self, name):
        assert table(Holder(**{name: nn.Linear(4, 4)}), "gpt")[f"{name}.weight"][2]

    @pytest.mark.parametrize("name", ["embed_tokens", "cls", "head", "attn"])
    def test_an_embedding_is_one_whatever_its_name(self, name):
        assert table(Holder(**{name: nn.Embedding(4, 4)}), "gpt")[f"{name}.weight"] == ("embeddings", 0.005, True)

    @pytest.mark.parametrize("norm", [ChannelNorm(weight=tensor(4, 1, 1)), nn.LayerNorm((4, 4)), nn.RMSNorm((4, 4))])
    def test_a_norm_of_any_shape_does_not_decay(self, norm):
        assert table(Holder(fc1=norm), "vit")["fc1.weight"] == ("rest", 0.03, False)

    def test_an_attention_module_is_attention_whatever_its_name(self):
        layer = Mixer(4, 1, add_bias_kv=True)
        rows = table(Holder(mlp=layer), "vit")
        assert rows["mlp.in_proj_weight"] == ("attention", 0.02, True)
        assert rows["mlp.bias_k"] == ("attention", 0.02, False)

    def test_the_mlp_of_a_transformer_layer_is_one_whatever_the_layers_name(self):
        rows = table(Holder(attn=nn.TransformerEncoderLayer(4, 1, 8)), "vit")
        assert rows["attn.linear1.weight"] == ("mlp", 0.03, True)
        assert rows["attn.self_attn.in_proj_weight"] == ("attention", 0.02, True)


class TestNamesDecideForBareParameters:
    @pytest.mark.parametrize("name", ["cls_token", "register_tokens", "pos_embed", "pe", "position"])
    def test_tokens_and_positions(self, name):
        assert table(Holder(**{name: tensor(1, 2, 4)}), "vit")[name] == ("patch_and_tokens", 0.005, False)

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("q_bias", ("rest", 0.03, False)),
            ("norm1", ("rest", 0.03, False)),
            ("attn_out", ("attention", 0.02, True)),
            ("ffn_in", ("mlp", 0.03, True)),
            ("composed", ("rest", 0.03, True)),
        ],
    )
    def test_others(self, name, expected):
        assert table(Holder(**{name: tensor(4, 4)}), "vit")[name] == expected

    @pytest.mark.parametrize("shape", [(), (4,)])
    def test_scalars_and_vectors_do_not_decay(self, shape):
        assert table(Holder(layer_scale=tensor(*shape)), "vit")["layer_scale"] == ("rest", 0.03, False)

    def test_a_relative_attention_contains_weights_not_positions(self):
        assert table(Holder(rel_attn=Holder(q=tensor(4, 4))), "vit")["rel_attn.q"] == ("attention", 0.02, True)

    def test_a_linear_patch_projection(self):
        assert table(Holder(to_patch=nn.Linear(4, 4), blocks=Holder(a=nn.Linear(4, 4))), "vit")["to_patch.weight"] == (
            "patch_and_tokens",
            0.005,
            True,
        )


def test_a_convolution_that_overlaps_or_comes_later_is_no_patch_projection():
    stem, down, patch = nn.Conv2d(3, 4, 3, 2), nn.Conv2d(4, 4, 2, 2), nn.Conv2d(3, 4, 4, 4)
    assert {row[0] for row in table(nn.Sequential(stem, down), "vit").values()} == {"rest"}
    assert table(nn.Sequential(patch, down), "vit")["0.weight"][0] == "patch_and_tokens"
    assert table(nn.Sequential(patch, down), "vit")["1.weight"][0] == "rest"


@pytest.mark.parametrize("order", [("lm_head", "wte"), ("wte", "lm_head")])
def test_a_tied_head_belongs_to_the_embeddings_in_any_order(order):
    parts = {"wte": nn.Embedding(40, 16), "lm_head": nn.Linear(16, 40, bias=False)}
    parts["lm_head"].weight = parts["wte"].weight
    model = Holder(**{name: parts[name] for name in order})
    (group,) = gpt_groups(model)
    assert group["name"] == "embeddings"
    assert [id(p) for p in group["params"]] == [id(parts["wte"].weight)]


def test_frozen_parameters_and_empty_groups_are_left_out():
    model = hand_made()
    model[0].requires_grad_(False)
    model[3].weight.requires_grad_(False)
    groups = gpt_groups(model)
    assert [group["name"] for group in groups] == ["blocks", "blocks_no_decay", "head_no_decay"]
    assert sum(len(group["params"]) for group in groups) == len(trainable(model))


@pytest.mark.parametrize("builder", BUILDERS)
def test_explicit_gamma_and_weight_decay_replace_the_tables(builder):
    groups = BUILDERS[builder](build(hand_made), gamma=0.0, weight_decay=0.3)
    assert {group["gamma"] for group in groups} == {0.0}
    assert {group["weight_decay"] for group in groups if not group["name"].endswith("no_decay")} == {0.3}
    assert {group["weight_decay"] for group in groups if group["name"].endswith("no_decay")} == {0.0}


def test_decayed_groups_leave_the_weight_decay_to_the_optimizer():
    optimizer = torch.optim.AdamW(gpt_groups(build(hand_made)), weight_decay=0.2)
    decay = {group["name"]: group["weight_decay"] for group in optimizer.param_groups}
    assert decay == {"embeddings": 0.2, "blocks": 0.2, "blocks_no_decay": 0.0, "head": 0.2, "head_no_decay": 0.0}


def test_a_list_of_parameters_is_refused():
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, got list"):
        gpt_groups(list(build(hand_made).parameters()))
