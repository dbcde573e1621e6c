"""What a model has learned: every metric of a split."""

import torch
from torch import Tensor, nn

from fairbench.arenas.base import Arena
from fairbench.data.splits import Data
from fairbench.study.trial_spec import TrainingSpec

CHUNK = 256
"""Examples of an evaluation that share a stream of random numbers, however many a model gets at a time."""


def evaluate(arena: Arena, model: nn.Module, data: Data, name: str, batch_size: int) -> dict[str, float]:
    """Every metric of a split, the model in evaluation mode; the batch size changes no more than the last digits.

    Args:
        arena: the arena.
        model: the model.
        data: the data.
        name: which of its splits.
        batch_size: how many the model gets at a time.
    """
    device, split = next(model.parameters()).device, data.splits[name]
    sums: dict[str, Tensor] = {}
    model.eval()
    with torch.no_grad():
        for start in range(0, len(split), CHUNK):
            chunk = data.read(split[start : start + CHUNK].to(device), None)
            examples = arena.examples(chunk, torch.Generator(device).manual_seed(start // CHUNK))
            for parts in zip(*(part.split(batch_size) for part in examples), strict=True):
                for name, values in arena.scores(model, *parts).items():
                    sums[name] = sums.get(name, 0) + values.double().sum()
    model.train()
    means = dict(zip(sums, (torch.stack([*sums.values()]) / len(split)).tolist(), strict=True))
    return {**means, **arena.derived(means, data)}


def evaluation_steps(training: TrainingSpec) -> set[int]:
    """The steps after which the validation split is evaluated: evenly spaced, the last one included."""
    return {round(training.steps * (i + 1) / training.evaluations) for i in range(training.evaluations)}
