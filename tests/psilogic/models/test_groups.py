"""The group builders on real models: which parameters decay, and the chaos gain of each part."""

from typing import NamedTuple

import pytest
import torch
from example_models import (
    Holder,
    bert,
    build,
    gpt2,
    hand_made,
    llama,
    resnet,
    t5,
    tensor,
    trainable,
    transformer,
    vit,
    whisper,
)
from torch import nn

from psilogic import gpt_groups, nlp_groups, vit_groups

pytestmark = pytest.mark.xdist_group("models")  # one worker loads the models

BUILDERS = {"gpt": gpt_groups, "vit": vit_groups, "nlp": nlp_groups}
NORMS = ("LayerNorm", "BatchNorm2d", "LlamaRMSNorm", "T5LayerNorm")
MODELS = (bert, gpt2, llama, vit, resnet, whisper, t5, transformer, hand_made)


class Placed(NamedTuple):
    """Where a parameter is: its group, and what the group says."""

    group: str  # without "_no_decay"
    gamma: float
    decays: bool


def placed(model: nn.Module, builder: str, **options: float) -> dict[str, Placed]:
    """For each parameter, by every name it has, where it is."""
    by_id = {}
    for group in BUILDERS[builder](model, **options):
        place = Placed(
            group=group["name"].removesuffix("_no_decay"),
            gamma=group["gamma"],
            decays=group.get("weight_decay") != 0,
        )
        for p in group["params"]:
            by_id[id(p)] = place
    by_name = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        if id(p) in by_id:
            by_name[name] = by_id[id(p)]
    return by_name


UNDECAYED = {  # of the matrices
    bert: {"bert.embeddings.position_embeddings.weight"},
    gpt2: {"transformer.wpe.weight"},
    vit: {"vit.embeddings.cls_token", "vit.embeddings.position_embeddings"},
    whisper: {"model.decoder.embed_positions.weight"},
    t5: {
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
    },
}


def params_of_norms(model: nn.Module) -> set[str]:
    """The names of the parameters of normalization layers."""
    names = set()
    for path, module in model.named_modules():
        if type(module).__name__ in NORMS:
            names.update(f"{path}.{name}" for name, _ in module.named_parameters())
    return names


@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize("make", MODELS)
def test_every_parameter_is_in_one_group_and_vectors_norms_positions_and_tokens_do_not_decay(make, builder):
    model = build(make)
    groups = BUILDERS[builder](model)
    trained = trainable(model)
    members = []
    for group in groups:
        assert group["params"]
        members += group["params"]
    assert sorted(map(id, members)) == sorted(map(id, trained.values()))
    assert len({group["name"] for group in groups}) == len(groups)

    norms = params_of_norms(model)
    assert norms
    vectors = {name for name, p in trained.items() if p.ndim < 2 or name.endswith("bias")}
    places = placed(model, builder)
    undecayed = {name for name in trained if not places[name].decays}
    assert undecayed == norms | vectors | UNDECAYED.get(make, set())


GAMMAS = {
    "gpt": {"embeddings": 0.005, "blocks": 0.02, "head": 0.01},
    "vit": {"patch_and_tokens": 0.005, "attention": 0.02, "mlp": 0.03, "rest": 0.03},
    "nlp": {"embeddings": 0.01, "attention": 0.03, "rest": 0.03},
}


class GroupsCase(NamedTuple):
    """A model, and some parameters of each group that a builder makes for it."""

    make: object
    builder: str
    members: dict


GROUPS = []


def expect(make, builder, **members):
    GROUPS.append(GroupsCase(make, builder, members))


expect(
    gpt2,
    "gpt",
    embeddings=["transformer.wte.weight", "transformer.wpe.weight", "lm_head.weight"],
    blocks=["transformer.h.1.attn.c_attn.weight", "transformer.h.1.mlp.c_proj.bias", "transformer.ln_f.weight"],
)
expect(
    llama,
    "gpt",
    embeddings=["model.embed_tokens.weight"],
    blocks=["model.layers.0.self_attn.q_proj.weight", "model.norm.weight"],
    head=["lm_head.weight"],
)
expect(
    hand_made,
    "gpt",
    embeddings=["0.weight"],
    blocks=["1.linear1.weight"],
    head=["3.weight", "3.bias"],
)
expect(transformer, "gpt", blocks=["decoder.layers.0.linear2.weight"])
expect(
    vit,
    "vit",
    patch_and_tokens=[
        "vit.embeddings.patch_embeddings.projection.weight",
        "vit.embeddings.patch_embeddings.projection.bias",
        "vit.embeddings.cls_token",
        "vit.embeddings.position_embeddings",
    ],
    attention=["vit.layers.0.attention.o_proj.weight"],
    mlp=["vit.layers.0.mlp.fc1.weight"],
    rest=["vit.layers.0.layernorm_before.weight", "classifier.weight"],
)
expect(resnet, "vit", rest=["resnet.embedder.embedder.convolution.weight", "classifier.1.weight"])
expect(
    transformer,
    "vit",
    attention=["encoder.layers.0.self_attn.in_proj_weight", "encoder.layers.0.self_attn.out_proj.weight"],
    mlp=["encoder.layers.0.linear1.weight"],
    rest=["encoder.layers.0.norm1.weight"],
)
expect(
    bert,
    "nlp",
    embeddings=["bert.embeddings.word_embeddings.weight", "bert.embeddings.position_embeddings.weight"],
    attention=[
        "bert.encoder.layer.0.attention.self.query.weight",
        "bert.encoder.layer.0.attention.output.dense.weight",
    ],
    rest=[
        "bert.encoder.layer.0.attention.output.LayerNorm.weight",
        "bert.encoder.layer.0.output.dense.weight",
        "classifier.weight",
    ],
)
expect(
    t5,
    "nlp",
    embeddings=["shared.weight", "lm_head.weight"],
    attention=["decoder.block.1.layer.1.EncDecAttention.k.weight"],
    rest=["decoder.block.1.layer.2.DenseReluDense.wi.weight"],
)
expect(
    whisper,
    "nlp",
    embeddings=["proj_out.weight"],
    attention=["model.decoder.layers.0.encoder_attn.q_proj.weight"],
    rest=["model.encoder.conv1.weight"],
)


@pytest.mark.parametrize(("make", "builder", "members"), GROUPS)
def test_gammas_are_those_of_the_table(make, builder, members):
    places = placed(build(make), builder)
    for group, names in members.items():
        for name in names:
            assert places[name].group == group, name
            assert places[name].gamma == GAMMAS[builder][group], name


class ChannelNorm(Holder):
    """A norm that torch does not know, with a weight of three dimensions."""


class Mixer(nn.MultiheadAttention):
    """An attention module with another class name."""


class TypeCase(NamedTuple):
    """A parameter of a model, and where `vit_groups` puts it."""

    model: nn.Module
    name: str
    group: str
    decays: bool


BY_TYPE = []
"""Where the type is known, a name that suggests something different does not matter."""


def by_type(model, name, group, *, decays):
    BY_TYPE.append(TypeCase(model, name, group, decays))


for name in ("pos_proj", "norm_mix"):
    by_type(Holder(**{name: nn.Linear(4, 4)}), f"{name}.weight", "rest", decays=True)
for name in ("cls", "head", "attn"):
    by_type(Holder(**{name: nn.Embedding(4, 4)}), f"{name}.weight", "patch_and_tokens", decays=True)
for norm in (ChannelNorm(weight=tensor(4, 1, 1)), nn.LayerNorm((4, 4)), nn.RMSNorm((4, 4))):
    by_type(Holder(fc1=norm), "fc1.weight", "rest", decays=False)

mixer = Holder(mlp=Mixer(4, 1, add_bias_kv=True))
by_type(mixer, "mlp.in_proj_weight", "attention", decays=True)
by_type(mixer, "mlp.bias_k", "attention", decays=False)

layer = Holder(attn=nn.TransformerEncoderLayer(4, 1, 8))
by_type(layer, "attn.linear1.weight", "mlp", decays=True)
by_type(layer, "attn.self_attn.in_proj_weight", "attention", decays=True)

linear_patches = Holder(to_patch=nn.Linear(4, 4), blocks=Holder(a=nn.Linear(4, 4)))
by_type(linear_patches, "to_patch.weight", "patch_and_tokens", decays=True)

with_patches = nn.Sequential(nn.Conv2d(3, 4, 4, 4), nn.Conv2d(4, 4, 2, 2))
by_type(with_patches, "0.weight", "patch_and_tokens", decays=True)
by_type(with_patches, "1.weight", "rest", decays=True)
overlapping = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.Conv2d(4, 4, 2, 2))
by_type(overlapping, "0.weight", "rest", decays=True)


@pytest.mark.parametrize("case", BY_TYPE, ids=lambda case: case.name)
def test_types_decide_before_names(case):
    place = placed(case.model, "vit")[case.name]
    assert place == Placed(case.group, GAMMAS["vit"][case.group], case.decays)


class NameCase(NamedTuple):
    """A bare parameter, and where `vit_groups` puts it by its name."""

    name: str
    shape: tuple
    group: str
    decays: bool


BY_NAME = [
    NameCase("cls_token", (1, 2, 4), "patch_and_tokens", decays=False),
    NameCase("register_tokens", (1, 2, 4), "patch_and_tokens", decays=False),
    NameCase("pos_embed", (1, 2, 4), "patch_and_tokens", decays=False),
    NameCase("pe", (1, 2, 4), "patch_and_tokens", decays=False),
    NameCase("position", (1, 2, 4), "patch_and_tokens", decays=False),
    NameCase("q_bias", (4, 4), "rest", decays=False),
    NameCase("norm1", (4, 4), "rest", decays=False),
    NameCase("attn_out", (4, 4), "attention", decays=True),
    NameCase("ffn_in", (4, 4), "mlp", decays=True),
    NameCase("composed", (4, 4), "rest", decays=True),
    NameCase("scalar", (), "rest", decays=False),
    NameCase("layer_scale", (4,), "rest", decays=False),
    NameCase("rel_attn.q", (4, 4), "attention", decays=True),  # relative attention: a weight and no position
]


@pytest.mark.parametrize("case", BY_NAME, ids=lambda case: case.name)
def test_names_decide_for_bare_parameters(case):
    parent, _, child = case.name.rpartition(".")
    model = Holder(**{child: tensor(*case.shape)})
    if parent:
        model = Holder(**{parent: model})
    place = placed(model, "vit")[case.name]
    assert place == Placed(case.group, GAMMAS["vit"][case.group], case.decays)


@pytest.mark.parametrize("order", [("lm_head", "wte"), ("wte", "lm_head")])
def test_a_tied_head_belongs_to_the_embeddings_in_any_order(order):
    embedding = nn.Embedding(40, 16)
    head = nn.Linear(16, 40, bias=False)
    head.weight = embedding.weight
    model = Holder()
    for name in order:
        model.add_module(name, embedding if name == "wte" else head)
    (group,) = gpt_groups(model)
    assert group["name"] == "embeddings"
    (param,) = group["params"]
    assert param is embedding.weight


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
    for group in groups:
        expected = 0.0 if group["name"].endswith("no_decay") else 0.3
        assert group["weight_decay"] == expected


def test_decayed_groups_leave_the_weight_decay_to_the_optimizer():
    optimizer = torch.optim.AdamW(gpt_groups(build(hand_made)), weight_decay=0.2)
    decay = {group["name"]: group["weight_decay"] for group in optimizer.param_groups}
    assert decay == {"embeddings": 0.2, "blocks": 0.2, "blocks_no_decay": 0.0, "head": 0.2, "head_no_decay": 0.0}


def test_a_list_of_parameters_is_refused():
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, got list"):
        gpt_groups(list(build(hand_made).parameters()))
