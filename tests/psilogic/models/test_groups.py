"""The group builders on real models: which parameters decay, and the chaos gain of each part."""

import importlib
from functools import cache

import pytest
import torch
from torch import nn

from psilogic import gpt_groups, nlp_groups, vit_groups

pytestmark = pytest.mark.xdist_group("models")  # one worker loads the models

BUILDERS = {"gpt": gpt_groups, "vit": vit_groups, "nlp": nlp_groups}
NORMS = ("LayerNorm", "BatchNorm2d", "LlamaRMSNorm", "T5LayerNorm")
ENCODER = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
TEXT = {"vocab_size": 40, "max_position_embeddings": 16, **ENCODER}
MARKS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BART = {"vocab_size": 40, "d_model": 16, "decoder_start_token_id": 1, **MARKS} | {
    f"{side}_{key}": n
    for side in ("encoder", "decoder")
    for key, n in (("layers", 1), ("ffn_dim", 32), ("attention_heads", 2))
}


def hand_made() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.Sequential(nn.Embedding(40, 16), layer, nn.LayerNorm(16), nn.Linear(16, 40))


def of_transformers(name: str, config: str, **sizes: object):
    """A function that builds a model of transformers, with random weights; its name is that of the model."""

    def make() -> nn.Module:
        transformers = importlib.import_module("transformers")  # only in the worker that needs it
        return getattr(transformers, name)(getattr(transformers, f"{config}Config")(**sizes))

    make.__name__ = name
    return make


bert = of_transformers("BertForSequenceClassification", "Bert", **TEXT)
llama = of_transformers("LlamaForCausalLM", "Llama", vocab_size=40, num_key_value_heads=1, **ENCODER)
vit = of_transformers("ViTForImageClassification", "ViT", image_size=16, patch_size=8, **ENCODER)
gpt2 = of_transformers(
    "GPT2LMHeadModel", "GPT2", vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0,
    eos_token_id=1,
)  # fmt: skip
resnet = of_transformers(
    "ResNetForImageClassification", "ResNet", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"
)
whisper = of_transformers(
    "WhisperForConditionalGeneration", "Whisper", num_mel_bins=8, max_source_positions=16, max_target_positions=16,
    **BART,
)  # fmt: skip
t5 = of_transformers(
    "T5ForConditionalGeneration", "T5", vocab_size=40, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2
)


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


UNDECAYED = {  # of the matrices
    bert: {"bert.embeddings.position_embeddings.weight"},
    gpt2: {"transformer.wpe.weight"},
    vit: {"vit.embeddings.cls_token", "vit.embeddings.position_embeddings"},
    whisper: {"model.decoder.embed_positions.weight"},
    t5: {f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight" for side in ("encoder", "decoder")},
}


@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize("make", MODELS)
def test_every_parameter_is_in_one_group_and_vectors_norms_positions_and_tokens_do_not_decay(make, builder):
    model = build(make)
    groups, trained = BUILDERS[builder](model), trainable(model)
    assert sorted(id(p) for group in groups for p in group["params"]) == sorted(map(id, trained.values()))
    assert all(group["params"] for group in groups)
    assert len({group["name"] for group in groups}) == len(groups)
    of_norms = [(path, x) for path, x in model.named_modules() if type(x).__name__ in NORMS]
    norms = {f"{path}.{name}" for path, module in of_norms for name, _ in module.named_parameters()}
    assert norms
    vectors = {name for name, p in trained.items() if p.ndim < 2 or name.endswith("bias")}
    rows = table(model, builder)
    assert {name for name in trained if not rows[name][2]} == norms | vectors | UNDECAYED.get(make, set())


GAMMAS = {
    "gpt": {"embeddings": 0.005, "blocks": 0.02, "head": 0.01},
    "vit": {"patch_and_tokens": 0.005, "attention": 0.02, "mlp": 0.03, "rest": 0.03},
    "nlp": {"embeddings": 0.01, "attention": 0.03, "rest": 0.03},
}
GROUPS = {
    (gpt2, "gpt"): {
        "embeddings": ["transformer.wte.weight", "transformer.wpe.weight", "lm_head.weight"],
        "blocks": ["transformer.h.1.attn.c_attn.weight", "transformer.h.1.mlp.c_proj.bias", "transformer.ln_f.weight"],
    },
    (llama, "gpt"): {
        "embeddings": ["model.embed_tokens.weight"],
        "blocks": ["model.layers.0.self_attn.q_proj.weight", "model.norm.weight"],
        "head": ["lm_head.weight"],
    },
    (hand_made, "gpt"): {
        "embeddings": ["0.weight"],
        "blocks": ["1.linear1.weight"],
        "head": ["3.weight", "3.bias"],
    },
    (transformer, "gpt"): {"blocks": ["decoder.layers.0.linear2.weight"]},
    (vit, "vit"): {
        "patch_and_tokens": [
            f"vit.embeddings.{name}"
            for name in (
                "patch_embeddings.projection.weight", "patch_embeddings.projection.bias", "cls_token",
                "position_embeddings",
            )
        ],
        "attention": ["vit.layers.0.attention.o_proj.weight"],
        "mlp": ["vit.layers.0.mlp.fc1.weight"],
        "rest": ["vit.layers.0.layernorm_before.weight", "classifier.weight"],
    },
    (resnet, "vit"): {"rest": ["resnet.embedder.embedder.convolution.weight", "classifier.1.weight"]},
    (transformer, "vit"): {
        "attention": ["encoder.layers.0.self_attn.in_proj_weight", "encoder.layers.0.self_attn.out_proj.weight"],
        "mlp": ["encoder.layers.0.linear1.weight"],
        "rest": ["encoder.layers.0.norm1.weight"],
    },
    (bert, "nlp"): {
        "embeddings": ["bert.embeddings.word_embeddings.weight", "bert.embeddings.position_embeddings.weight"],
        "attention": [f"bert.encoder.layer.0.attention.{name}.weight" for name in ("self.query", "output.dense")],
        "rest": [
            *(f"bert.encoder.layer.0.{name}.weight" for name in ("attention.output.LayerNorm", "output.dense")),
            "classifier.weight",
        ],
    },
    (t5, "nlp"): {
        "embeddings": ["shared.weight", "lm_head.weight"],
        "attention": ["decoder.block.1.layer.1.EncDecAttention.k.weight"],
        "rest": ["decoder.block.1.layer.2.DenseReluDense.wi.weight"],
    },
    (whisper, "nlp"): {
        "embeddings": ["proj_out.weight"],
        "attention": ["model.decoder.layers.0.encoder_attn.q_proj.weight"],
        "rest": ["model.encoder.conv1.weight"],
    },
}  # fmt: skip


@pytest.mark.parametrize(("make", "builder"), GROUPS)
def test_gammas_are_those_of_the_table(make, builder):
    rows = table(build(make), builder)
    for group, names in GROUPS[make, builder].items():
        for name in names:
            assert rows[name][:2] == (group, GAMMAS[builder][group]), name


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


TOKENS = ("patch_and_tokens", 0.005)
ATTENTION, MLP, REST = ("attention", 0.02), ("mlp", 0.03), ("rest", 0.03)
PATCH, DOWN = nn.Conv2d(3, 4, 4, 4), nn.Conv2d(4, 4, 2, 2)
BY_TYPE = [  # where the type is known, a name that suggests something different does not matter
    *((Holder(**{name: nn.Linear(4, 4)}), f"{name}.weight", (*REST, True)) for name in ("pos_proj", "norm_mix")),
    *((Holder(**{name: nn.Embedding(4, 4)}), f"{name}.weight", (*TOKENS, True)) for name in ("cls", "head", "attn")),
    *(
        (Holder(fc1=norm), "fc1.weight", (*REST, False))
        for norm in (ChannelNorm(weight=tensor(4, 1, 1)), nn.LayerNorm((4, 4)), nn.RMSNorm((4, 4)))
    ),
    (Holder(mlp=Mixer(4, 1, add_bias_kv=True)), "mlp.in_proj_weight", (*ATTENTION, True)),
    (Holder(mlp=Mixer(4, 1, add_bias_kv=True)), "mlp.bias_k", (*ATTENTION, False)),
    (Holder(attn=nn.TransformerEncoderLayer(4, 1, 8)), "attn.linear1.weight", (*MLP, True)),
    (Holder(attn=nn.TransformerEncoderLayer(4, 1, 8)), "attn.self_attn.in_proj_weight", (*ATTENTION, True)),
    (Holder(to_patch=nn.Linear(4, 4), blocks=Holder(a=nn.Linear(4, 4))), "to_patch.weight", (*TOKENS, True)),
    (nn.Sequential(PATCH, DOWN), "0.weight", (*TOKENS, True)),
    (nn.Sequential(PATCH, DOWN), "1.weight", (*REST, True)),
    (nn.Sequential(nn.Conv2d(3, 4, 3, 2), DOWN), "0.weight", (*REST, True)),  # its patches overlap
]
BY_NAME = {  # of parameters that no module with a known type has
    **dict.fromkeys(["cls_token", "register_tokens", "pos_embed", "pe", "position"], ((1, 2, 4), *TOKENS, False)),
    **dict.fromkeys(["q_bias", "norm1"], ((4, 4), *REST, False)),
    "attn_out": ((4, 4), *ATTENTION, True),
    "ffn_in": ((4, 4), *MLP, True),
    "composed": ((4, 4), *REST, True),
    "scalar": ((), *REST, False),
    "layer_scale": ((4,), *REST, False),
    "rel_attn.q": ((4, 4), *ATTENTION, True),  # relative attention: a weight and no position
}


@pytest.mark.parametrize(("model", "name", "expected"), BY_TYPE, ids=[name for _, name, _ in BY_TYPE])
def test_types_decide_before_names(model, name, expected):
    assert table(model, "vit")[name] == expected


@pytest.mark.parametrize("name", BY_NAME)
def test_names_decide_for_bare_parameters(name):
    shape, *expected = BY_NAME[name]
    parent, _, child = name.rpartition(".")
    model = Holder(**{child: tensor(*shape)})
    assert table(Holder(**{parent: model}) if parent else model, "vit")[name] == tuple(expected)


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
