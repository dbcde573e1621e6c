"""The registered arenas: fairbench's, and those of installed packages.

A user-defined arena is named `module:Class` or `path/to/file.py:Class`, or by its entry point `fairbench.arenas`.
"""

import inspect
from importlib import metadata
from typing import Any, Literal

from fairbench.arenas.base import Arena, ArenaFacts
from fairbench.common.errors import UsageError
from fairbench.common.imports import load

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


def known_arenas() -> dict[str, str]:
    """`module:Class` of every registered arena; a package cannot replace one of fairbench."""
    installed = {x.name: f"{x.module}:{x.attr}" for x in metadata.entry_points(group="fairbench.arenas")}
    return {**installed, **{name: facts.factory for name, facts in ARENAS.items()}}


def load_arena(task: str) -> Arena:
    """The arena of a task: a name in `ARENAS`, `module:Class`, or `path/to/file.py:Class`; loads heavy libraries."""
    loaded = load(ARENAS[task].factory if task in ARENAS else task, "arena")
    if not (inspect.isclass(loaded) and issubclass(loaded, Arena)):
        raise UsageError(f"arena {task!r} must be a subclass of fairbench.arenas.base.Arena, got {loaded!r}")
    return loaded()
