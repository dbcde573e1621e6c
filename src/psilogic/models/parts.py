"""The part of a model that a parameter belongs to, and whether it decays.

Both follow from the types of the modules around it; names decide only if types do not (a bare `nn.Parameter`, a
user-defined module class).
"""

import re
from enum import IntEnum
from typing import NamedTuple

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd


class Part(IntEnum):
    """The part of a model that a parameter belongs to; a tied weight belongs to the first of its parts."""

    EMBEDDING = 0
    PATCH = 1
    ATTENTION = 2
    MLP = 3
    HEAD = 4
    OTHER = 5


class Position(NamedTuple):
    """A position of a parameter: its dotted path, and the modules around it from the innermost to the model."""

    path: str
    modules: tuple[nn.Module, ...]


NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, _NormBase)
EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
WEIGHTS = (nn.Linear, nn.Bilinear, _ConvNd, nn.RNNBase, nn.MultiheadAttention)
"""Modules whose matrices are weights, regardless of their names."""

# Every library has its own class names (LlamaRMSNorm, T5LayerNorm, BertSelfAttention): the ending is the type.
NORM_CLASS = re.compile(r"norm(\d?d|gated)?$", re.IGNORECASE)
ATTENTIONS = (nn.MultiheadAttention,)
ATTENTION_CLASS = re.compile(r"(Attention|Attn)\d*$")
MLPS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
"""Layers whose own linear layers are an MLP; the attention in them is a module of its own."""
MLP_CLASS = re.compile(r"(MLP|Mlp|FeedForward|FFN|FF)\d*$")


CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def words(alternatives: str) -> re.Pattern[str]:
    """A pattern that matches any of the words in the snake_case names of a dotted path."""
    return re.compile(rf"(?<![a-z])({alternatives})(?![a-z])")


def snake_case(names: str) -> str:
    """The names of a dotted path in lower case, with underscores where camel case has capitals."""
    return CAMEL_CASE_BOUNDARY.sub("_", names).lower()


POSITION = words("pos|position|positions|positional|wpe|pe")
RELATIVE = words("rel|relative|distance")
TOKEN = words("token|tokens|cls")
NORM = words("norm|layernorm|rmsnorm|batchnorm|ln")
BIAS = words("bias")
EMBEDDED = words("embed|embeds|embedding|embeddings|emb")
PART_BY_NAME = (
    (Part.PATCH, words("patch|patches")),
    (Part.ATTENTION, words("attn|attention|attentions")),
    (Part.MLP, words("mlp|ff|ffn|feedforward|feed_forward|fc1|fc2|linear1|linear2|intermediate")),
    (Part.HEAD, words("head|heads|classifier|score|unembed|unembedding")),
)


def positions_of(model: nn.Module) -> dict[nn.Parameter, list[Position]]:
    """Every position of every trainable parameter; a tied weight has several."""
    modules = dict(model.named_modules(remove_duplicate=False))
    positions: dict[nn.Parameter, list[Position]] = {}
    for path, param in model.named_parameters(remove_duplicate=False):
        if not param.requires_grad:
            continue
        around = []
        owner_path = path
        while owner_path:
            owner_path = owner_path.rpartition(".")[0]
            around.append(modules[owner_path])
        positions.setdefault(param, []).append(Position(path, tuple(around)))
    return positions


def patch_projection(model: nn.Module) -> nn.Module | None:
    """The first convolution, if its windows do not overlap: it cuts an image into patches."""
    for module in model.modules():
        if isinstance(module, _ConvNd):
            cuts = module.kernel_size == module.stride and max(module.kernel_size) > 1
            return module if cuts else None
    return None


def output_projection(model: nn.Module) -> nn.Module | None:
    """The last linear layer, if only `nn.Sequential` modules are between it and the model."""
    last = None
    last_path = ""
    for path, module in model.named_modules():
        if isinstance(module, nn.Linear):
            last = module
            last_path = path
    parent_path = last_path.rpartition(".")[0]
    while parent_path:
        if not isinstance(model.get_submodule(parent_path), nn.Sequential):
            return None
        parent_path = parent_path.rpartition(".")[0]
    return last


def part_of(position: Position, landmarks: dict[nn.Module | None, Part]) -> Part:
    """The part of the model for a position: types first, names second; landmarks are known by their whole model."""
    owner = position.modules[0]
    if _is_norm(owner):
        return Part.OTHER
    if isinstance(owner, EMBEDDINGS):
        return Part.EMBEDDING
    if owner in landmarks:
        return landmarks[owner]
    for module in position.modules:
        if is_attention(module):
            return Part.ATTENTION
        if _is_mlp(module):
            return Part.MLP
    names = _names(position)
    if not isinstance(owner, WEIGHTS) and (_is_token_or_position(position) or EMBEDDED.search(names)):
        return Part.EMBEDDING
    for part, rule in PART_BY_NAME:
        if rule.search(names):
            return part
    return Part.OTHER


def decays(param: nn.Parameter, position: Position) -> bool:
    """Whether weight decay applies to a parameter at this position: types first, names second."""
    owner = position.modules[0]
    if param.ndim < 2 or _is_norm(owner) or BIAS.search(_names(position, 1)):
        return False
    if isinstance(owner, WEIGHTS):
        return True
    if isinstance(owner, EMBEDDINGS):
        # "relative" counts only in the last name: a relative attention may contain other embeddings.
        return not (POSITION.search(_names(position)) or RELATIVE.search(_names(position, 2)))
    return not (_is_token_or_position(position) or NORM.search(_names(position, 2)))


def is_attention(module: nn.Module) -> bool:
    """Whether a module is attention, of torch or any library."""
    return isinstance(module, ATTENTIONS) or ATTENTION_CLASS.search(type(module).__name__) is not None


def _is_mlp(module: nn.Module) -> bool:
    """Whether a module is a multilayer perceptron of a transformer, or a layer of torch that contains one."""
    return isinstance(module, MLPS) or MLP_CLASS.search(type(module).__name__) is not None


def _is_norm(module: nn.Module) -> bool:
    """Whether a module is a normalization layer, of torch or any library."""
    return isinstance(module, NORMS) or NORM_CLASS.search(type(module).__name__) is not None


def _is_token_or_position(position: Position) -> bool:
    """Whether the last name of a bare parameter is that of a token, or its path that of a position."""
    return bool(TOKEN.search(_names(position, 1)) or POSITION.search(_names(position)))


def _names(position: Position, last: int | None = None) -> str:
    """The innermost module's class name and the path, or only the path's last names, in snake_case."""
    names = position.path.split(".")
    if last is None:
        names.insert(0, type(position.modules[0]).__name__)
    else:
        names = names[-last:]
    return snake_case(".".join(names))
