"""The family of a model, recognized from its modules: vision, decoder-only language, other language."""

import re
from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from psilogic.models.parts import EMBEDDINGS, POSITION, RELATIVE, is_attention, snake_case, words

NamedModules: TypeAlias = Sequence[tuple[str, nn.Module]]
Table: TypeAlias = nn.Embedding | nn.EmbeddingBag


class ModelFamily(Enum):
    """The model families that have a preset."""

    VISION = "vision"
    DECODER = "decoder-only language model"
    LANGUAGE = "encoder or encoder-decoder language model"


class Finding(NamedTuple):
    """The family of a model, and the reason."""

    family: ModelFamily
    reason: str


# Embeddings that are not of tokens: labels, diffusion times, object queries, feature levels.
NO_TOKENS = words("label|labels|class|classes|y|time|timestep|timesteps|query|queries|level|levels")
IMAGE_CONVOLUTIONS = (nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.ConvTranspose3d)
IMAGE_CONVOLUTION_CLASS = re.compile(r"conv(transpose)?[23]d$", re.IGNORECASE)
SERIES_CONVOLUTIONS = (nn.Conv1d, nn.ConvTranspose1d)
IMAGE_CLASS = re.compile(r"Patch|Image|Pixel|Vision|Visual|ViT|[23]D")
IMAGE = words("patch|patches|image|images|img|pixel|pixels")

RECURRENT = (nn.RNNBase, nn.RNNCellBase)
TWO_SIDED = (nn.Transformer, nn.TransformerDecoderLayer)
CROSS_ATTENTION = words("cross_?(attn|attention)|(encoder|enc_?dec|src)_(attn|attention)")
CAUSAL_CLASS = re.compile(r"Causal|GPT|DecoderOnly|DecoderLM")
MASKED_CLASS = re.compile(r"bert|masked_?(lm|language)|mlm", re.IGNORECASE)
MASK_CORNER = 64
"""Rows and columns of a mask that are read: a mask of a long context may have 10^8 elements."""


def recognize(model: nn.Module) -> Finding:
    """Recognize the family of a model: by the types of its modules, then by their attributes, then by names.

    Args:
        model: any module, also in a wrapper (compiled, data-parallel, adapters). Nothing is run.

    Returns:
        The family and the reason. The first of these rules that applies decides:

        1. Vision: convolutions in two or three dimensions, unless a table of tokens comes before them or the
           model predicts tokens (an image-to-text model); or no table, but names of images or patches.
        2. Language, two sides: `config.is_encoder_decoder`; without such a config an `nn.Transformer`, a
           cross-attention, or an encoder and a decoder. Speech to text belongs here, because of its decoder.
        3. Decoder: `config.is_decoder`, an attention that declares `is_causal`, or a stored triangular mask.
        4. Language: attention declares that it is not causal, or a recurrence is bidirectional.
        5. Class names: Causal or GPT for a decoder, BERT or MaskedLM for an encoder.
        6. Decoder: the model predicts tokens. A linear layer is tied to a table of tokens, or the last linear
           layer has as many outputs as the largest table has rows.
        7. Language: any other table of tokens, attention or recurrence.
        8. Vision: convolutions in one dimension.

    Raises:
        ValueError: no rule applies, as for a bare multilayer perceptron.
    """
    named = list(model.named_modules())
    tables = _token_tables(named)
    predicts_tokens = _predicts_tokens(model, tables)
    if not predicts_tokens and _convolves_images(named, tables):
        return Finding(ModelFamily.VISION, "convolutions in two or three dimensions")
    if not tables and _names_images(named):
        return Finding(ModelFamily.VISION, "names of images or patches")
    directed = _direction(named)
    if directed is not None:
        return directed
    if predicts_tokens:
        return Finding(ModelFamily.DECODER, "reads and predicts tokens; assumed to be causal")
    if tables:
        return Finding(ModelFamily.LANGUAGE, "reads tokens and does not predict them")
    if any(_is_sequential(module) for _, module in named):
        return Finding(ModelFamily.LANGUAGE, "attention or recurrence over a sequence")
    if any(isinstance(module, SERIES_CONVOLUTIONS) for _, module in named):
        return Finding(ModelFamily.VISION, "convolutions without attention or recurrence")
    raise ValueError(
        f"cannot recognize the family of this {type(model).__name__}: it has no convolution, attention, recurrence "
        "or embedding; call PsiLogicNLP, PsiLogicGPT or PsiLogicViT with it, or PsiLogic with its parameters"
    )


def _direction(named: NamedModules) -> Finding | None:
    """Whether the model has an encoder and a decoder, or is causal, or bidirectional; None if undeclared."""
    modules = [module for _, module in named]
    config = _config(modules)
    two_sided = getattr(config, "is_encoder_decoder", None)
    if two_sided is None:
        two_sided = _has_two_sides(named)
    if two_sided:
        return Finding(ModelFamily.LANGUAGE, "an encoder and a decoder")
    causal_flags: list[bool] = []
    for module in modules:
        flag = getattr(module, "is_causal", None)
        if isinstance(flag, bool):
            causal_flags.append(flag)
    if getattr(config, "is_decoder", False) is True or any(causal_flags):
        return Finding(ModelFamily.DECODER, "declares causal attention")
    if any(_stores_causal_mask(module) for module in modules):
        return Finding(ModelFamily.DECODER, "stores a causal mask")
    if causal_flags or any(getattr(module, "bidirectional", False) is True for module in modules):
        return Finding(ModelFamily.LANGUAGE, "bidirectional attention or recurrence")
    causal_class = _first_class(modules, CAUSAL_CLASS)
    if causal_class is not None:
        return Finding(ModelFamily.DECODER, f"has a {causal_class}")
    masked_class = _first_class(modules, MASKED_CLASS)
    if masked_class is not None:
        return Finding(ModelFamily.LANGUAGE, f"has a {masked_class}")
    return None


def _config(modules: Sequence[nn.Module]) -> Any:
    """The first module's configuration that says whether there is an encoder and a decoder, as transformers has it."""
    for module in modules:
        config = getattr(module, "config", None)
        if hasattr(config, "is_encoder_decoder"):
            return config
    return None


def _first_class(modules: Sequence[nn.Module], rule: re.Pattern[str]) -> str | None:
    """The first name of a module's class that follows a rule."""
    for module in modules:
        name = type(module).__name__
        if rule.search(name):
            return name
    return None


def _names_images(named: NamedModules) -> bool:
    """Whether the class or the name of a module is that of something that reads images."""
    classes = [type(module).__name__ for _, module in named]
    paths = [snake_case(path) for path, _ in named]
    return any(map(IMAGE_CLASS.search, classes)) or any(map(IMAGE.search, paths))


def _token_tables(named: NamedModules) -> list[Table]:
    """The embeddings of tokens, not those of positions, labels and the like."""
    tables: list[Table] = []
    for path, module in named:
        if not isinstance(module, EMBEDDINGS):
            continue
        last_names = snake_case(".".join(path.split(".")[-2:]))
        if not any(rule.search(last_names) for rule in (POSITION, RELATIVE, NO_TOKENS)):
            tables.append(module)
    return tables


def _predicts_tokens(model: nn.Module, tables: Sequence[Table]) -> bool:
    """Whether a linear layer predicts tokens: by a tied weight, or the last one by its size."""
    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not linears or not tables:
        return False
    for linear in linears:
        if any(linear.weight is table.weight for table in tables):
            return True
    # The largest table is the vocabulary: two segments and two classes do not make a language model.
    return linears[-1].out_features == max(table.num_embeddings for table in tables)


def _convolves_images(named: NamedModules, tables: Sequence[Table]) -> bool:
    """Whether an image convolution comes before every table of tokens, in the order of the modules."""
    for _, module in named:
        if isinstance(module, IMAGE_CONVOLUTIONS) or IMAGE_CONVOLUTION_CLASS.search(type(module).__name__):
            return True
        if any(module is table for table in tables):
            return False
    return False


def _is_sequential(module: nn.Module) -> bool:
    """Whether a module is attention or recurrence."""
    return is_attention(module) or isinstance(module, RECURRENT)


def _has_two_sides(named: NamedModules) -> bool:
    """Whether the model has an encoder and a decoder that reads its output."""
    for path, module in named:
        if _is_side(getattr(module, "encoder", None)) and _is_side(getattr(module, "decoder", None)):
            return True
        names = snake_case(f"{type(module).__name__}.{path}")
        if isinstance(module, TWO_SIDED) or CROSS_ATTENTION.search(names):
            return True
    return False


def _is_side(attribute: Any) -> bool:
    """Whether an attribute named encoder or decoder is a model with its own layers.

    An embedding named encoder and a linear layer named decoder are input and output of one model part.
    """
    return isinstance(attribute, nn.Module) and not isinstance(attribute, (*EMBEDDINGS, nn.Linear))


def _stores_causal_mask(module: nn.Module) -> bool:
    """Whether a buffer or an attribute of a module is a causal mask."""
    stored = [*module.buffers(recurse=False), *vars(module).values()]
    return any(isinstance(value, Tensor) and _is_causal_mask(value) for value in stored)


def _is_causal_mask(tensor: Tensor) -> bool:
    """Whether a tensor of square matrices has one value above the diagonal and another one elsewhere."""
    if tensor.is_meta or tensor.ndim < 2 or 0 in tensor.shape or tensor.shape[-1] != tensor.shape[-2]:
        return False
    first_of_each = (0,) * (tensor.ndim - 2)
    first_matrix = tensor[first_of_each]
    corner = first_matrix[:MASK_CORNER, :MASK_CORNER]
    ahead = torch.ones_like(corner, dtype=torch.bool).triu(1)
    past = corner[~ahead]
    future = corner[ahead]
    if len(future) < 3:  # two positions could be anything
        return False
    past_is_constant = (past == past[0]).all()
    future_is_constant = (future == future[0]).all()
    return bool(past_is_constant and future_is_constant and past[0] != future[0])
