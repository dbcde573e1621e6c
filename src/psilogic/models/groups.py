"""Parameter groups for language and vision models: which tensors decay, and the chaos gain of each part."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import nn

from psilogic.models.parts import Part, decays, output_projection, part_of, patch_projection, positions_of

Groups = list[dict[str, Any]]


class Section(NamedTuple):
    """One row of a preset's table: some parts of the model and their chaos gain."""

    name: str
    gamma: float
    parts: tuple[Part, ...]


GPT = (
    Section("embeddings", gamma=0.005, parts=(Part.EMBEDDING,)),
    Section("blocks", gamma=0.02, parts=(Part.PATCH, Part.ATTENTION, Part.MLP, Part.OTHER)),
    Section("head", gamma=0.01, parts=(Part.HEAD,)),
)
VIT = (
    Section("patch_and_tokens", gamma=0.005, parts=(Part.EMBEDDING, Part.PATCH)),
    Section("attention", gamma=0.02, parts=(Part.ATTENTION,)),
    Section("mlp", gamma=0.03, parts=(Part.MLP,)),
    Section("rest", gamma=0.03, parts=(Part.HEAD, Part.OTHER)),
)
NLP = (
    Section("embeddings", gamma=0.01, parts=(Part.EMBEDDING,)),
    Section("attention", gamma=0.03, parts=(Part.ATTENTION,)),
    Section("rest", gamma=0.03, parts=(Part.PATCH, Part.MLP, Part.HEAD, Part.OTHER)),
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
    landmarks = {patch_projection(model): Part.PATCH, output_projection(model): Part.HEAD}
    decayed: dict[Part, list[nn.Parameter]] = {part: [] for part in Part}
    not_decayed: dict[Part, list[nn.Parameter]] = {part: [] for part in Part}
    for param, positions in positions_of(model).items():
        part = min(part_of(position, landmarks) for position in positions)
        if all(decays(param, position) for position in positions):
            decayed[part].append(param)
        else:
            not_decayed[part].append(param)

    groups = []
    for section in sections:
        section_gamma = section.gamma if gamma is None else gamma
        params = _params_of(section, decayed)
        if params:
            group: dict[str, Any] = {"params": params, "name": section.name, "gamma": section_gamma}
            if weight_decay is not None:
                group["weight_decay"] = weight_decay
            groups.append(group)
        params = _params_of(section, not_decayed)
        if params:
            name = f"{section.name}_no_decay"
            groups.append({"params": params, "name": name, "gamma": section_gamma, "weight_decay": 0.0})
    return groups


def _params_of(section: Section, members: dict[Part, list[nn.Parameter]]) -> list[nn.Parameter]:
    """The parameters of a section's parts, part by part."""
    params: list[nn.Parameter] = []
    for part in section.parts:
        params.extend(members[part])
    return params
