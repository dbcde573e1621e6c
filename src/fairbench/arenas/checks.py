"""What an arena must keep to, seen before any trial runs: on its data, and on a first batch of an untrained model."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fairbench.arenas.base import Arena
from fairbench.common.errors import UsageError
from fairbench.data.registry import SPLITS
from fairbench.data.splits import Data, Split


def same_data(arena: Arena, options: Mapping[str, Any], data_root: Path, labelled: bool) -> Data:
    """The data of an arena, which every trial loads again; an arena's own data are loaded twice and compared.

    Args:
        arena: the arena.
        options: the table `data` of the suite.
        data_root: where prepared data lie.
        labelled: whether they must have labels.

    Raises:
        UsageError: they are no data, have no labels, or are others each time.
    """
    data = arena.open_data(options, data_root)
    if "source" in options:
        if labelled and not data.train.targets.numel():
            reason = "has no labels; put the images of each class into a folder of its own"
            raise UsageError(f"data = {dict(options)} {reason}")
        return data
    if not isinstance(data, Data) or not all(data.splits.get(name) for name in SPLITS):
        raise UsageError(f"{_where(arena, 'load_data')} must return Data with examples in each of {', '.join(SPLITS)}")
    for name, split in data.splits.items():
        if split.targets.numel() and len(split.targets) != len(split):
            raise UsageError(
                f"{_where(arena, 'load_data')}: {name} has {len(split)} inputs and {len(split.targets)} targets"
            )
    if arena.open_data(options, data_root).fingerprint != data.fingerprint:
        raise UsageError(f"{_where(arena, 'load_data')} gives other data each time; give its randomness a fixed seed")
    return data


def check_loss(arena: Arena, model: nn.Module, batch: Split) -> None:
    """See that the loss of an untrained model is one finite number that its parameters take part in.

    Raises:
        UsageError: it is not.
    """
    where, examples = _where(arena, "loss"), _examples(arena, batch)
    loss = arena.loss(model, *examples)
    if not isinstance(loss, Tensor) or loss.ndim:
        got = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
        raise UsageError(f"{where} must return a tensor of shape (), as a mean over the batch is; got {got}")
    if not loss.requires_grad:
        raise UsageError(f"{where} has no gradient: no trainable parameter of the model takes part in it")
    if not loss.isfinite():
        raise UsageError(f"{where} is {loss.item()} before any step; look at the data and the initial weights")


def check_scores(arena: Arena, model: nn.Module, batch: Split, data: Data, metrics: Iterable[str]) -> None:
    """See that there is one number for each metric and example, and that the metrics are those of the arena's facts.

    Raises:
        UsageError: it is not so.
    """
    where = _where(arena, "scores")
    with torch.no_grad():
        scores = arena.scores(model, *_examples(arena, batch))
    if not isinstance(scores, dict):
        raise UsageError(f"{where} must return a tensor for each metric, by its name; got {scores!r}")
    for name, values in scores.items():
        if not isinstance(values, Tensor) or values.shape != (len(batch),):
            got = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else repr(values)
            expected = f"a tensor with one number for each example, here of shape ({len(batch)},)"
            raise UsageError(f"{where}: {name!r} must be {expected}; got {got}")
    means = {name: values.double().mean().item() for name, values in scores.items()}
    given, named = {**means, **arena.derived(means, data)}.keys(), set(metrics)
    if given != named:
        reason = f"must give the metrics of the arena's facts, {sorted(named)}; they give {sorted(given)}"
        raise UsageError(f"{where} and derived {reason}")


def _examples(arena: Arena, batch: Split) -> tuple[Tensor, ...]:
    """What the model is shown of a batch."""
    examples = arena.examples(batch, torch.Generator())
    if not isinstance(examples, tuple) or not all(isinstance(x, Tensor) and len(x) == len(batch) for x in examples):
        raise UsageError(f"{_where(arena, 'examples')} must return a tuple of tensors with {len(batch)} rows each")
    return examples


def _where(arena: Arena, method: str) -> str:
    return f"{type(arena).__name__}.{method}"
