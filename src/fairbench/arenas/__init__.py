"""Arenas: data, model, loss and metrics of one kind of work, nothing else.

An arena is a module with four functions, which `fairbench.trial` calls:

    load_data(**options) -> Data                      the three splits and their fingerprint
    build_model(data, **options) -> nn.Module         initial weights from torch's global generator
    loss(model, batch, generator) -> Tensor           the training loss of one batch
    evaluate(model, split) -> dict[str, float]        every metric of one split, deterministic
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

if TYPE_CHECKING:
    import torch

    from fairbench.data.sources import Data, Split


@dataclass(frozen=True)
class ArenaFacts:
    """What is known of an arena without loading it.

    Attributes:
        title: model and task in a few words.
        data: where the data comes from.
        metrics: each metric and which direction is better.
        data_options: the arguments of `load_data` and their types; all of them must be given, numbers positive.
        model_options: the same for `build_model`.
    """

    title: str
    data: str
    metrics: dict[str, Literal["min", "max"]]
    data_options: dict[str, Any]
    model_options: dict[str, Any]


DIGITS = "scikit-learn's digits, embedded"

TRANSFORMER = {"hidden_size": int, "layers": int, "heads": int}

ARENAS = {
    "gpt": ArenaFacts(
        "GPT-2, next byte",
        "the Python standard library's source, embedded",
        {"loss": "min"},
        {"context": int, "evaluated_windows": int},
        TRANSFORMER,
    ),
    "vit": ArenaFacts(
        "ViT, image classification",
        DIGITS,
        {"accuracy": "max", "loss": "min"},
        {},
        {**TRANSFORMER, "patch_size": int},
    ),
    "resnet": ArenaFacts(
        "ResNet-18, image classification",
        DIGITS,
        {"accuracy": "max", "loss": "min"},
        {"image_size": int},
        {"width": int},
    ),
    "ddpm": ArenaFacts(
        "DDPM with a U-Net, image generation",
        DIGITS,
        {"mse": "min"},
        {},
        {"channels": list[int], "norm_groups": int},
    ),
}


class Arena(Protocol):
    """What every arena module offers."""

    def load_data(self, **options: Any) -> Data:
        """Load the data."""

    def build_model(self, data: Data, **options: Any) -> torch.nn.Module:
        """Build the model with fresh weights."""

    def loss(self, model: torch.nn.Module, batch: Split, generator: torch.Generator) -> torch.Tensor:
        """The training loss of one batch."""

    def evaluate(self, model: torch.nn.Module, split: Split) -> dict[str, float]:
        """Every metric of one split."""


def load_arena(name: str) -> Arena:
    """The arena's module; heavy libraries are imported here."""
    return cast(Arena, importlib.import_module(f"fairbench.arenas.{name}"))
