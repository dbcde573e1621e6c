"""The registered arenas of fairbench and of installed packages, and the sizes of fairbench's models on a ladder.

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

GPT = ArenaFacts(
    title="GPT-2, next token",
    metrics={"loss": "min", "perplexity": "min", "bits_per_byte": "min"},
    kind="text",
    model_options=TRANSFORMER,
    factory="fairbench.arenas.gpt:GPT",
)
VIT = ArenaFacts(
    title="ViT, image classification",
    metrics=CLASSIFIED,
    kind="images",
    labelled=True,
    model_options={**TRANSFORMER, "patch_size": int},
    factory="fairbench.arenas.vit:ViT",
)
RESNET = ArenaFacts(
    title="ResNet-18, image classification",
    metrics=CLASSIFIED,
    kind="images",
    labelled=True,
    model_options={"width": int},
    factory="fairbench.arenas.resnet:ResNet",
)
DDPM = ArenaFacts(
    title="DDPM with a U-Net, image generation",
    metrics={"mse": "min"},
    kind="images",
    model_options={"channels": list[int], "norm_groups": int, "attention_levels": list[int]},
    factory="fairbench.arenas.ddpm:DDPM",
)
ARENAS = {"gpt": GPT, "vit": VIT, "resnet": RESNET, "ddpm": DDPM}
"""The arenas of fairbench by their names."""


Sized = Callable[[Mapping[str, Any], int], tuple[dict[str, Any], int]]
"""A function of the options of a model and another size: the options at that size, and the number of parameters."""


def transformer(model: Mapping[str, Any], size: int) -> tuple[dict[str, Any], int]:
    """A transformer with `size` as its `hidden_size`; depth and number of heads grow in proportion, rounded.

        parameters = 12 layers hidden_size^2

    Returns:
        The options, and the parameters without embeddings, norms and biases.

    Raises:
        ValueError: the size is not a multiple of the number of heads.

    Source of the count: Kaplan et al., "Scaling Laws for Neural Language Models", 2020, section 2.1.
    """
    factor = size / model["hidden_size"]
    layers = max(round(factor * model["layers"]), 1)
    heads = max(round(factor * model["heads"]), 1)
    if size % heads:
        raise ValueError(f"gives {heads} heads, of which {size} is no multiple")
    options = {**model, "hidden_size": size, "layers": layers, "heads": heads}
    parameters = 12 * layers * size**2
    return options, parameters


def resnet(model: Mapping[str, Any], size: int) -> tuple[dict[str, Any], int]:
    """A ResNet-18 with `size` as its `width` and the same depth.

        parameters = 2724 width^2

    The first convolution does not count.
    """
    options = {**model, "width": size}
    parameters = 2724 * size**2
    return options, parameters


SIZED: Mapping[str, Sized] = {"gpt": transformer, "vit": transformer, "resnet": resnet}
"""The rules for other sizes of fairbench's arenas. A user's arena has the method `sized` instead."""


def known_arenas() -> dict[str, str]:
    """The reference `module:Class` of every registered arena. A package cannot replace an arena of fairbench."""
    known = {}
    for entry in entry_points().select(group="fairbench.arenas"):
        known[entry.name] = f"{entry.module}:{entry.attr}"
    for name, facts in ARENAS.items():
        known[name] = facts.factory
    return known


def load_arena(task: str) -> Arena:
    """Make the arena of a task: a name in `ARENAS`, `module:Class`, or `path/to/file.py:Class`.

    This imports torch and other large libraries.
    """
    reference = ARENAS[task].factory if task in ARENAS else task
    loaded = load(reference, "arena")
    if not (inspect.isclass(loaded) and issubclass(loaded, Arena)):
        raise UsageError(f"arena {task!r} must be a subclass of fairbench.arenas.base.Arena, got {loaded!r}")
    return loaded()
