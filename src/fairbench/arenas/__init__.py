"""Arenas: model, loss and metrics of one kind of work, nothing else; where its data come from is the suite's choice.

An arena is a subclass of `Arena`, whose methods `fairbench.trial` calls. Those that come with fairbench have names;
anyone's own is `module:Class` or `path/to/file.py:Class`, or has a name as an entry point `fairbench.arenas`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fairbench.arenas.base import Arena
from fairbench.errors import UsageError
from fairbench.imports import load

if TYPE_CHECKING:
    from fairbench.data.stored import Data

__all__ = ["ARENAS", "Arena", "ArenaFacts", "known_arenas", "load_arena", "load_arena_data"]


@dataclass(frozen=True)
class ArenaFacts:
    """What is known of an arena without loading it.

    Attributes:
        title: model and task in a few words.
        metrics: each metric and which direction is better.
        kind: the kind of data that it needs; "own" where it brings its own.
        labelled: whether the data must have labels.
        model_options: the arguments of `build_model`: a type where the option must be given, else the default. None
            where they are read from the method itself.
        factory: `module:Class` of an arena that is known by a name.
    """

    title: str
    metrics: dict[str, Literal["min", "max"]]
    kind: Literal["images", "text", "own"] = "own"
    labelled: bool = False
    model_options: dict[str, Any] | None = None
    factory: str = ""


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
        raise UsageError(f"arena {task!r} must be a subclass of fairbench.arenas.Arena, got {found!r}")
    return found()


def load_arena_data(arena: Arena, options: Mapping[str, Any], data_root: Path) -> Data:
    """The data of an arena, from the source that its table `data` names, else from the arena itself."""
    from fairbench.data.sources import load_data

    return load_data(options, data_root) if "source" in options else arena.load_data(**options)
