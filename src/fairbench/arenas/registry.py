"""The registered arenas, fairbench's and those of installed packages, and fairbench's models at other sizes.

A user-defined arena is named `module:Class` or `path/to/file.py:Class`, or by its entry point `fairbench.arenas`.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal

from fairbench.arenas.base import Arena, ArenaFacts
from fairbench.common.errors import UsageError
from fairbench.common.imports import entry_points, load

TRANSFORMER: dict[str, Any] = {"hidden_size": int, "layers": int, "heads": int}
CLASSIFIED: dict[str, Literal["min", "max"]] = {"accuracy": "max", "loss": "min"}

ARENAS = {
    "gpt": ArenaFacts(
        "GPT-2, next token",
        {"loss": "min", "perplexity": "min", "bits_per_byte": "min"},
        "text",
        model_options=TRANSFORMER,
        factory="fairbench.arenas.gpt:GPT",
    ),
    "vit": ArenaFacts(
        "ViT, image classification",
        CLASSIFIED,
        "images",
        labelled=True,
        model_options={**TRANSFORMER, "patch_size": int},
        factory="fairbench.arenas.vit:ViT",
    ),
    "resnet": ArenaFacts(
        "ResNet-18, image classification",
        CLASSIFIED,
        "images",
        labelled=True,
        model_options={"width": int},
        factory="fairbench.arenas.resnet:ResNet",
    ),
    "ddpm": ArenaFacts(
        "DDPM with a U-Net, image generation",
        {"mse": "min"},
        "images",
        model_options={"channels": list[int], "norm_groups": int, "attention_levels": list[int]},
        factory="fairbench.arenas.ddpm:DDPM",
    ),
}


Sized = Callable[[Mapping[str, Any], int], tuple[dict[str, Any], int]]
"""From the options of a model and another size, from which width, depth and heads follow, to options and parameters."""


def transformer(model: Mapping[str, Any], size: int) -> tuple[dict[str, Any], int]:
    """A transformer with `size` as its `hidden_size`; depth and number of heads grow in proportion, rounded.

        parameters = 12 layers hidden_size^2

    Returns:
        The options, and the parameters without embeddings, norms and biases.

    Raises:
        ValueError: the width is no multiple of the number of heads.

    Source of the count: Kaplan et al., "Scaling Laws for Neural Language Models", 2020, section 2.1.
    """
    factor = size / model["hidden_size"]
    layers, heads = (max(round(factor * model[key]), 1) for key in ("layers", "heads"))
    if size % heads:
        raise ValueError(f"gives {heads} heads, of which {size} is no multiple")
    return {**model, "hidden_size": size, "layers": layers, "heads": heads}, 12 * layers * size**2


def resnet(model: Mapping[str, Any], size: int) -> tuple[dict[str, Any], int]:
    """A ResNet-18 with `size` as its `width`; its depth stays.

        parameters = 2724 width^2

    The first convolution does not count.
    """
    return {**model, "width": size}, 2724 * size**2


SIZED: Mapping[str, Sized] = {"gpt": transformer, "vit": transformer, "resnet": resnet}
"""The rule of each included arena that has one; a user's has the method `fairbench.arenas.base.Arena.sized`."""


def known_arenas() -> dict[str, str]:
    """`module:Class` of every registered arena; a package cannot replace one of fairbench."""
    installed = {x.name: f"{x.module}:{x.attr}" for x in entry_points().select(group="fairbench.arenas")}
    return {**installed, **{name: facts.factory for name, facts in ARENAS.items()}}


def load_arena(task: str) -> Arena:
    """The arena of a task: a name in `ARENAS`, `module:Class`, or `path/to/file.py:Class`; loads heavy libraries."""
    loaded = load(ARENAS[task].factory if task in ARENAS else task, "arena")
    if not (inspect.isclass(loaded) and issubclass(loaded, Arena)):
        raise UsageError(f"arena {task!r} must be a subclass of fairbench.arenas.base.Arena, got {loaded!r}")
    return loaded()
