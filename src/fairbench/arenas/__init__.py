"""Arenas: model, loss and metrics of one kind of work, nothing else; where its data come from is the suite's choice.

An arena is a module with five functions, which `fairbench.trial` calls:

    build_model(data, **options) -> nn.Module            initial weights from torch's global generator
    examples(batch, generator) -> tuple[Tensor, ...]     what the model is shown; randomness is drawn here
    loss(model, *examples) -> Tensor                     the training loss of a batch
    scores(model, *examples) -> dict[str, Tensor]        the metrics of each example; a split's is their mean
    derived(means, data) -> dict[str, float]             metrics that follow from the means
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

if TYPE_CHECKING:
    import torch

    from fairbench.data.stored import Data, Split


@dataclass(frozen=True)
class ArenaFacts:
    """What is known of an arena without loading it.

    Attributes:
        title: model and task in a few words.
        kind: the kind of data that it needs.
        labelled: whether the data must have labels.
        metrics: each metric and which direction is better.
        model_options: the arguments of `build_model`: a type where the option must be given, else the default.
    """

    title: str
    kind: Literal["images", "text"]
    labelled: bool
    metrics: dict[str, Literal["min", "max"]]
    model_options: dict[str, Any]


TRANSFORMER = {"hidden_size": int, "layers": int, "heads": int}

ARENAS = {
    "gpt": ArenaFacts(
        "GPT-2, next token", "text", False, {"loss": "min", "perplexity": "min", "bits_per_byte": "min"}, TRANSFORMER
    ),
    "vit": ArenaFacts(
        "ViT, image classification",
        "images",
        True,
        {"accuracy": "max", "loss": "min"},
        {**TRANSFORMER, "patch_size": int},
    ),
    "resnet": ArenaFacts(
        "ResNet-18, image classification", "images", True, {"accuracy": "max", "loss": "min"}, {"width": int}
    ),
    "ddpm": ArenaFacts(
        "DDPM with a U-Net, image generation",
        "images",
        False,
        {"mse": "min"},
        {"channels": list[int], "norm_groups": int, "attention_levels": list[int]},
    ),
}


class Arena(Protocol):
    """What every arena module offers."""

    def build_model(self, data: Data, **options: Any) -> torch.nn.Module:
        """Build the model with fresh weights."""

    def examples(self, batch: Split, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """What the model is shown of a batch."""

    def loss(self, model: torch.nn.Module, *examples: torch.Tensor) -> torch.Tensor:
        """The training loss of a batch."""

    def scores(self, model: torch.nn.Module, *examples: torch.Tensor) -> dict[str, torch.Tensor]:
        """The metrics of each example."""

    def derived(self, means: dict[str, float], data: Data) -> dict[str, float]:
        """Metrics that follow from the means over a split."""


def load_arena(name: str) -> Arena:
    """The arena's module; heavy libraries are imported here."""
    return cast(Arena, importlib.import_module(f"fairbench.arenas.{name}"))
