"""Checks of an arena before any trial runs: its data, and loss and scores of a first batch, on an untrained model."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fairbench.arenas.base import Arena
from fairbench.common.errors import UsageError
from fairbench.data.formats.raw import SPLITS
from fairbench.data.splits import Data, Split


def checked_data(arena: Arena, options: Mapping[str, Any], data_root: Path, labelled: bool) -> Data:
    """The data of an arena; an arena's own data are loaded twice and compared, since every trial loads them again.

    Raises:
        UsageError: the data are no `Data`, have no labels although `labelled` demands them, or change between calls.
    """
    data = arena.open_data(options, data_root)
    if "source" in options:
        if labelled and not data.train.targets.numel():
            reason = "has no labels; put the images of each class into a separate folder"
            raise UsageError(f"data = {dict(options)} {reason}")
        return data
    if not isinstance(data, Data) or not all(data.splits.get(name) for name in SPLITS):
        raise UsageError(f"{_name(arena, 'load_data')} must return Data with examples in each of {', '.join(SPLITS)}")
    for name, split in data.splits.items():
        if split.targets.numel() and len(split.targets) != len(split):
            raise UsageError(
                f"{_name(arena, 'load_data')}: {name} has {len(split)} inputs and {len(split.targets)} targets"
            )
    if arena.open_data(options, data_root).fingerprint != data.fingerprint:
        raise UsageError(
            f"{_name(arena, 'load_data')} returns different data each time; give its randomness a fixed seed"
        )
    return data


def check_loss(arena: Arena, model: nn.Module, batch: Split) -> None:
    """Raise UsageError unless the loss of an untrained model is a finite scalar that depends on its parameters."""
    where, examples = _name(arena, "loss"), _examples(arena, batch)
    loss = arena.loss_in_step(1, model, examples)
    if not isinstance(loss, Tensor) or loss.ndim:
        got = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
        raise UsageError(f"{where} must return a tensor of shape (), such as a mean over the batch; got {got}")
    if not loss.requires_grad:
        raise UsageError(f"{where} has no gradient: it does not depend on any trainable parameter of the model")
    if not loss.isfinite():
        raise UsageError(f"{where} is {loss.item()} before any step; check the data and the initial weights")


def check_scores(arena: Arena, model: nn.Module, batch: Split, data: Data, metrics: Iterable[str]) -> None:
    """Raise UsageError unless each score has one number per example, and every metric of the arena's facts is there."""
    where = _name(arena, "scores")
    with torch.no_grad():
        scores = arena.scores(model, *_examples(arena, batch))
    if not isinstance(scores, dict):
        raise UsageError(f"{where} must return a dict with a tensor for each metric; got {scores!r}")
    for name, values in scores.items():
        if not isinstance(values, Tensor) or values.shape != (len(batch),):
            got = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else repr(values)
            expected = f"a tensor with one number per example, here of shape ({len(batch)},)"
            raise UsageError(f"{where}: {name!r} must be {expected}; got {got}")
    means = {name: values.double().mean().item() for name, values in scores.items()}
    for split in SPLITS[1:]:
        try:
            returned = {**means, **arena.derived(means, data, split)}
        except Exception as error:  # a user's code may raise anything
            call = f"{_name(arena, 'derived')}(means, data, split)"
            raise UsageError(f"{call} fails for the {split} split: {type(error).__name__}: {error}") from error
        if not set(metrics) <= returned.keys():
            reason = f"must return the metrics of the arena's facts, {sorted(metrics)}; got {sorted(returned)}"
            raise UsageError(f"{where} and derived {reason}")


def _examples(arena: Arena, batch: Split) -> tuple[Tensor, ...]:
    """The result of `Arena.examples`, checked."""
    examples = arena.examples(batch, torch.Generator())
    if not isinstance(examples, tuple) or not all(isinstance(x, Tensor) and len(x) == len(batch) for x in examples):
        raise UsageError(f"{_name(arena, 'examples')} must return a tuple of tensors with {len(batch)} rows each")
    return examples


def _name(arena: Arena, method: str) -> str:
    return f"{type(arena).__name__}.{method}"
