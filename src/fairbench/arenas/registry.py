"""Arenas: model, loss and metrics of one kind of work, nothing else; where its data come from is the suite's choice.

An arena is a subclass of `Arena`, whose methods `fairbench.training.trial` calls. Those of fairbench have names;
anyone's own is `module:Class` or `path/to/file.py:Class`, or has a name as an entry point `fairbench.arenas`.
"""

from __future__ import annotations

import inspect
from importlib import metadata
from typing import TYPE_CHECKING

from fairbench.arenas.base import Arena, ArenaFacts
from fairbench.common.errors import UsageError
from fairbench.common.imports import load

if TYPE_CHECKING:
    pass


TRANSFORMER = {"hidden_size": int, "layers": int, "heads": int}

ARENAS = {
    "gpt": ArenaFacts(
        "GPT-2, next token",
        {"loss": "min", "perplexity": "min", "bits_per_byte": "min"},
        "text",
        False,
        TRANSFORMER,
        "fairbench.arenas.gpt:GPT",
    ),
    "vit": ArenaFacts(
        "ViT, image classification",
        {"accuracy": "max", "loss": "min"},
        "images",
        True,
        {**TRANSFORMER, "patch_size": int},
        "fairbench.arenas.vit:ViT",
    ),
    "resnet": ArenaFacts(
        "ResNet-18, image classification",
        {"accuracy": "max", "loss": "min"},
        "images",
        True,
        {"width": int},
        "fairbench.arenas.resnet:ResNet",
    ),
    "ddpm": ArenaFacts(
        "DDPM with a U-Net, image generation",
        {"mse": "min"},
        "images",
        False,
        {"channels": list[int], "norm_groups": int, "attention_levels": list[int]},
        "fairbench.arenas.ddpm:DDPM",
    ),
}


def known_arenas() -> dict[str, str]:
    """`module:Class` of every arena that has a name: those of entry points, and those of fairbench, which go first."""
    offered = {x.name: f"{x.module}:{x.attr}" for x in metadata.entry_points(group="fairbench.arenas")}
    return {**offered, **{name: facts.factory for name, facts in ARENAS.items()}}


def load_arena(task: str) -> Arena:
    """The arena of a task; heavy libraries are imported here.

    Args:
        task: its name, or `module:Class`, or `path/to/file.py:Class`.

    Raises:
        UsageError: there is no such module, file or class, or it is no arena.
    """
    found = load(ARENAS[task].factory if task in ARENAS else task, "arena")
    if not (inspect.isclass(found) and issubclass(found, Arena)):
        raise UsageError(f"arena {task!r} must be a subclass of fairbench.arenas.base.Arena, got {found!r}")
    return found()
