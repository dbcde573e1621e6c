"""The evaluation of a model: every metric of a split."""

import torch
from torch import Tensor, nn

from fairbench.arenas.base import Arena
from fairbench.data.splits import Data

CHUNK = 256
"""The number of examples of an evaluation that share a stream of random numbers, whatever the batch size is."""


def evaluate(
    arena: Arena, model: nn.Module, data: Data, split: str, batch_size: int, most: int | None = None
) -> dict[str, float]:
    """Every metric of a split, with the model in evaluation mode.

    Args:
        arena: the arena.
        model: the model.
        data: the data of the arena.
        split: the name of the split.
        batch_size: the number of examples at once; it affects only the last digits of the metrics.
        most: the largest number of examples that are read; None for all.
    """
    device = next(model.parameters()).device
    examples = data.splits[split][:most]
    sums: dict[str, Tensor] = {}
    model.eval()
    with torch.no_grad():
        for start in range(0, len(examples), CHUNK):
            indices = examples[start : start + CHUNK]
            chunk = data.read(indices.to(device), None)
            noise = torch.Generator(device).manual_seed(start // CHUNK)
            parts = arena.examples(chunk, noise)
            for batch in zip(*(part.split(batch_size) for part in parts), strict=True):
                for metric, values in arena.scores(model, *batch).items():
                    sums[metric] = sums.get(metric, 0) + values.double().sum()
    model.train()
    mean_tensor = torch.stack([*sums.values()]) / len(examples)
    means = dict(zip(sums, mean_tensor.tolist(), strict=True))
    return {**means, **arena.derived(means, data, split)}
