"""Parameter groups for language and vision models: which tensors decay, and the chaos gain of each part.

The role of a parameter follows from the types of the modules around it; names decide only if types do not (a bare
`nn.Parameter`, a user-defined module class).
"""

import re
from collections.abc import Sequence
from enum import IntEnum
from itertools import product
from typing import Any, NamedTuple

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

Groups = list[dict[str, Any]]


class Part(IntEnum):
    """The part of a model that a parameter belongs to; a tied weight belongs to the first of its parts."""

    EMBEDDING = 0
    PATCH = 1
    ATTENTION = 2
    MLP = 3
    HEAD = 4
    OTHER = 5


class Section(NamedTuple):
    """One row of a preset's table: some parts of the model and their chaos gain."""

    name: str
    gamma: float
    parts: frozenset[Part]


class Position(NamedTuple):
    """A position of a parameter: its dotted path, and the modules around it from the innermost to the model."""

    path: str
    modules: tuple[nn.Module, ...]


GPT = (
    Section("embeddings", 0.005, frozenset({Part.EMBEDDING})),
    Section("blocks", 0.02, frozenset({Part.PATCH, Part.ATTENTION, Part.MLP, Part.OTHER})),
    Section("head", 0.01, frozenset({Part.HEAD})),
)
VIT = (
    Section("patch_and_tokens", 0.005, frozenset({Part.EMBEDDING, Part.PATCH})),
    Section("attention", 0.02, frozenset({Part.ATTENTION})),
    Section("mlp", 0.03, frozenset({Part.MLP})),
    Section("rest", 0.03, frozenset({Part.HEAD, Part.OTHER})),
)
NLP = (
    Section("embeddings", 0.01, frozenset({Part.EMBEDDING})),
    Section("attention", 0.03, frozenset({Part.ATTENTION})),
    Section("rest", 0.03, frozenset({Part.PATCH, Part.MLP, Part.HEAD, Part.OTHER})),
)

NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, _NormBase)
EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
WEIGHTS = (nn.Linear, nn.Bilinear, _ConvNd, nn.RNNBase, nn.MultiheadAttention)
"""Modules whose matrices are weights, regardless of their names."""

# Every library has its own class names (LlamaRMSNorm, T5LayerNorm, BertSelfAttention): the ending is the type.
NORM_CLASS = re.compile(r"norm(\d?d|gated)?$", re.IGNORECASE)
PART_BY_TYPE = (
    (Part.ATTENTION, (nn.MultiheadAttention,), re.compile(r"(Attention|Attn)\d*$")),
    (
        Part.MLP,
        (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer),
        re.compile(r"(MLP|Mlp|FeedForward|FFN|FF)\d*$"),
    ),
)


def words(alternatives: str) -> re.Pattern[str]:
    """A pattern that matches any of the words in the snake_case names of a dotted path."""
    return re.compile(rf"(?<![a-z])({alternatives})(?![a-z])")


def snake_case(names: str) -> str:
    """The names of a dotted path in lower case, with underscores where camel case has capitals."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", names).lower()


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


def gpt_groups(model: nn.Module, *, gamma: float | None = None, weight_decay: float | None = None) -> Groups:
    """Parameter groups of a decoder-only language model: embeddings, blocks and head.

    The chaos gains are 0.005 for embeddings, 0.01 for the head and 0.02 for all other parts. A head that is
    tied to the embeddings belongs to them. Biases, norms, other tensors with fewer than two dimensions, class
    tokens and position embeddings are not decayed.

    Args:
        model: the model; parameters that need no gradient are left out.
        gamma: chaos gain of all groups, >= 0; None for the gains above.
        weight_decay: decay of the decayed groups, >= 0; None for that of the optimizer that gets the groups.

    Returns:
        Groups for any optimizer of torch, with every trainable parameter exactly once, none of them empty. Each has
        `params`, `name` and `gamma`. Those that end in "_no_decay" have `weight_decay` 0, the others the given one.

    Raises:
        TypeError: `model` is not a module.

    Reference: PsiLogic paper, section 3.1, for groups with different chaos gains.

    Example:
        >>> model = nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 50))
        >>> [(group["name"], group["gamma"], len(group["params"])) for group in gpt_groups(model)]
        [('embeddings', 0.005, 1), ('head', 0.01, 1), ('head_no_decay', 0.01, 1)]
    """
    return _groups(model, GPT, gamma, weight_decay)


def vit_groups(model: nn.Module, *, gamma: float | None = None, weight_decay: float | None = None) -> Groups:
    """Parameter groups of a vision model: patch projection and tokens, attention, MLP, rest.

    The chaos gains are 0.005 for the patch projection, the tokens and the positions, 0.02 for attention, and
    0.03 for the MLPs and all other parts. A convolutional network is all "rest", unless its first
    convolution cuts the image into patches. Decay, arguments, result and errors are those of `gpt_groups`.

    Example:
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 4, stride=4), nn.Flatten(), nn.Linear(32, 10))
        >>> [group["name"] for group in vit_groups(model)]
        ['patch_and_tokens', 'patch_and_tokens_no_decay', 'rest', 'rest_no_decay']
    """
    return _groups(model, VIT, gamma, weight_decay)


def nlp_groups(model: nn.Module, *, gamma: float | None = None, weight_decay: float | None = None) -> Groups:
    """Parameter groups of an encoder or encoder-decoder language model: embeddings, attention, rest.

    The chaos gains are 0.01 for embeddings and 0.03 for attention and all other parts. Decay, arguments, result
    and errors are those of `gpt_groups`.

    Example:
        >>> model = nn.Sequential(nn.Embedding(50, 8), nn.MultiheadAttention(8, 2))
        >>> [group["name"] for group in nlp_groups(model)]
        ['embeddings', 'attention', 'attention_no_decay']
    """
    return _groups(model, NLP, gamma, weight_decay)


def _groups(model: nn.Module, sections: Sequence[Section], gamma: float | None, weight_decay: float | None) -> Groups:
    """The model's trainable parameters by section and by whether they decay."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    landmarks = {_patch_projection(model): Part.PATCH, _output_projection(model): Part.HEAD}
    members: dict[tuple[Part, bool], list[nn.Parameter]] = {}
    for param, positions in _positions(model).items():
        part = min(_part(position, landmarks) for position in positions)
        members.setdefault((part, all(_decays(param, position) for position in positions)), []).append(param)

    groups = []
    for section, decays in product(sections, (True, False)):
        params = [p for part in sorted(section.parts) for p in members.get((part, decays), [])]
        name, decay = (section.name, weight_decay) if decays else (f"{section.name}_no_decay", 0.0)
        group = {"params": params, "name": name, "gamma": section.gamma if gamma is None else gamma}
        groups.append(group if decay is None else {**group, "weight_decay": decay})
    return [group for group in groups if group["params"]]


def _positions(model: nn.Module) -> dict[nn.Parameter, list[Position]]:
    """Every position of every trainable parameter; a tied weight has several."""
    modules = dict(model.named_modules(remove_duplicate=False))
    positions: dict[nn.Parameter, list[Position]] = {}
    for path, param in model.named_parameters(remove_duplicate=False):
        if param.requires_grad:
            names = path.split(".")
            around = tuple(modules[".".join(names[:depth])] for depth in reversed(range(len(names))))
            positions.setdefault(param, []).append(Position(path, around))
    return positions


def _patch_projection(model: nn.Module) -> nn.Module | None:
    """The first convolution, if its windows do not overlap: it cuts an image into patches."""
    first = next((module for module in model.modules() if isinstance(module, _ConvNd)), None)
    cuts = first is not None and first.kernel_size == first.stride and max(first.kernel_size) > 1
    return first if cuts else None


def _output_projection(model: nn.Module) -> nn.Module | None:
    """The last linear layer, if only `nn.Sequential` modules are between it and the model."""
    linears = [(path, module) for path, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not linears:
        return None
    path, last = linears[-1]
    names = path.split(".")
    between = [model.get_submodule(".".join(names[:depth])) for depth in range(1, len(names))]
    return last if all(isinstance(module, nn.Sequential) for module in between) else None


def _part(position: Position, landmarks: dict[nn.Module | None, Part]) -> Part:
    """The part of the model for a position: types first, names second; landmarks are known by their whole model."""
    owner = position.modules[0]
    if _is_norm(owner):
        return Part.OTHER
    if isinstance(owner, EMBEDDINGS):
        return Part.EMBEDDING
    if owner in landmarks:
        return landmarks[owner]
    for module in position.modules:
        for part, types, class_name in PART_BY_TYPE:
            if isinstance(module, types) or class_name.search(type(module).__name__):
                return part
    names = _names(position)
    if not isinstance(owner, WEIGHTS) and (_is_token_or_position(position) or EMBEDDED.search(names)):
        return Part.EMBEDDING
    return next((part for part, rule in PART_BY_NAME if rule.search(names)), Part.OTHER)


def _decays(param: nn.Parameter, position: Position) -> bool:
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


def _is_norm(module: nn.Module) -> bool:
    """Whether a module is a normalization layer, of torch or any library."""
    return isinstance(module, NORMS) or NORM_CLASS.search(type(module).__name__) is not None


def _is_token_or_position(position: Position) -> bool:
    """Whether the last name of a bare parameter is that of a token, or its path that of a position."""
    return bool(TOKEN.search(_names(position, 1)) or POSITION.search(_names(position)))


def _names(position: Position, last: int | None = None) -> str:
    """The innermost module's class name and the path, or only the path's last names, in snake_case."""
    path = position.path.split(".")
    path = [type(position.modules[0]).__name__, *path] if last is None else path[-last:]
    return snake_case(".".join(path))
