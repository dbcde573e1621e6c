"""Checks of an arena before any trial runs: of its data, and of its loss and scores for an untrained model."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fairbench.arenas.base import Arena
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural
from fairbench.data.formats.raw import SPLITS
from fairbench.data.splits import Data, Split


def checked_data(arena: Arena, options: Mapping[str, Any], data_root: Path, labelled: bool) -> Data:
    """Load and check the data of an arena.

    An arena's own data are loaded twice and compared, since every trial loads them again.

    Args:
        arena: the arena.
        options: the suite's table `data`.
        data_root: the folder of prepared data.
        labelled: whether the data must have labels.

    Raises:
        UsageError: the data are missing, wrong, not finite, or different each time.
    """
    where = _name(arena, "load_data")
    try:
        data = arena.open_data(options, data_root)
    except UsageError as error:
        if "source" in options:
            raise
        raise UsageError(f"{where}: {error}") from error
    # The data of a source are checked when they are prepared.
    if "source" in options:
        if labelled and not data.train.targets.numel():
            reason = "has no labels; put the images of each class into a separate folder"
            raise UsageError(f"data = {dict(options)} {reason}")
        return data
    expected = f"{where} must return Data with examples in each of {', '.join(SPLITS)}"
    if not isinstance(data, Data):
        raise UsageError(f"{expected}, got {type(data).__name__}: end it with return Data.of(train=...")
    if not all(data.splits.get(name) for name in SPLITS):
        raise UsageError(expected)
    for name, split in data.splits.items():
        if split.targets.numel() and len(split.targets) != len(split):
            raise UsageError(f"{where}: {name} has {len(split)} inputs and {len(split.targets)} targets")
        _refuse_not_finite(f"{where}: {name} inputs", split.inputs)
        _refuse_not_finite(f"{where}: {name} targets", split.targets)
    again = arena.open_data(options, data_root)
    if again.fingerprint != data.fingerprint:
        raise UsageError(f"{where} returns different data each time; give its randomness a fixed seed")
    return data


def _refuse_not_finite(where: str, values: Tensor) -> None:
    """Raise UsageError if some values are not finite. The message has the position of the first one."""
    positions = (~values.isfinite()).nonzero()
    if not len(positions):
        return
    first = positions[0].tolist()
    place = f"{first} is {values[tuple(first)].item()}: row {first[0] + 1}"
    if len(first) > 1:
        place += f", column {first[1] + 1}"
    rows = positions[:, 0].unique()
    raise UsageError(
        f"{where}{place}, counted from 1. Not finite: {plural(len(positions), 'value')} in "
        f"{plural(len(rows), 'row')}; fill them, or leave out the rows"
    )


def check_outputs(arena: Arena, model: nn.Module, data: Data, metrics: Iterable[str], most: int) -> None:
    """Check the loss and the scores for one or two examples of each split.

    The examples are those with the lowest and the highest label, since a wrong number of classes shows there.

    Args:
        arena: the arena.
        model: an untrained model.
        data: the data of the arena.
        metrics: the metrics of the arena's facts.
        most: the largest number of examples of a batch.
    """
    for name, split in data.splits.items():
        rows = torch.arange(min(most, 2))
        if split.targets.numel() and not split.targets.is_floating_point():
            labels = split.targets.reshape(len(split), -1)
            lowest = labels.amin(1).argmin()
            highest = labels.amax(1).argmax()
            rows = torch.stack([lowest, highest])[:most]
        batch = data.read(split[rows], None)
        if name == "train":
            check_loss(arena, model, batch)
        check_scores(arena, model, batch, data, metrics)


def described(arena: Arena, data: Data) -> str:
    """A description of an arena's own data, for the message on a loss that fails with them."""
    inputs = data.train.inputs
    targets = torch.cat([split.targets.flatten() for split in data.splits.values()])
    text = f"{_name(arena, 'load_data')} gives inputs {inputs.dtype} {tuple(inputs.shape)}, targets {targets.dtype}"
    if not targets.numel():
        return text
    text += f" from {targets.min()} to {targets.max()}"
    if data.classes and targets.max() >= data.classes:
        text += f", but {data.classes} classes have the labels 0 to {data.classes - 1}"
    return text


def check_loss(arena: Arena, model: nn.Module, batch: Split) -> None:
    """Raise UsageError unless the loss of an untrained model is a finite scalar that depends on its parameters."""
    where = _name(arena, "loss")
    examples = _examples(arena, batch)
    loss = arena.loss_in_step(1, model, examples)
    if not isinstance(loss, Tensor) or loss.ndim:
        got = _shape_or_value(loss)
        raise UsageError(f"{where} must return a tensor of shape (), such as a mean over the batch; got {got}")
    if not loss.requires_grad:
        raise UsageError(f"{where} has no gradient: it does not depend on any trainable parameter of the model")
    if not loss.isfinite():
        raise UsageError(f"{where} is {loss.item()} before any step; check the data and the initial weights")


def check_scores(arena: Arena, model: nn.Module, batch: Split, data: Data, metrics: Iterable[str]) -> None:
    """Raise UsageError unless each score has a number for each example, and no metric of the facts is missing."""
    where = _name(arena, "scores")
    with torch.no_grad():
        scores = arena.scores(model, *_examples(arena, batch))
    if not isinstance(scores, dict):
        raise UsageError(f"{where} must return a dict with a tensor for each metric; got {scores!r}")
    for name, values in scores.items():
        if not isinstance(values, Tensor) or values.shape != (len(batch),):
            expected = f"a tensor with one number per example, here of shape ({len(batch)},)"
            raise UsageError(f"{where}: {name!r} must be {expected}; got {_shape_or_value(values)}")
    means = {name: values.double().mean().item() for name, values in scores.items()}
    for split in SPLITS[1:]:
        try:
            derived = arena.derived(means, data, split)
            returned = {**means, **derived}
        except Exception as error:  # a user's code may raise anything
            call = f"{_name(arena, 'derived')}(means, data, split)"
            raise UsageError(f"{call} fails for the {split} split: {type(error).__name__}: {error}") from error
        if not set(metrics) <= returned.keys():
            reason = f"must return the metrics of the arena's facts, {sorted(metrics)}; got {sorted(returned)}"
            raise UsageError(f"{where} and derived {reason}")


def _shape_or_value(value: object) -> str:
    """The shape of a tensor, or any other value."""
    if isinstance(value, Tensor):
        return f"shape {tuple(value.shape)}"
    return repr(value)


def _examples(arena: Arena, batch: Split) -> tuple[Tensor, ...]:
    """The arguments of `loss` and `scores` for a batch. Raises `UsageError` if they are not tensors of its length."""
    examples = arena.examples(batch, torch.Generator())
    are_tensors = isinstance(examples, tuple) and all(isinstance(part, Tensor) for part in examples)
    if not are_tensors or any(len(part) != len(batch) for part in examples):
        raise UsageError(f"{_name(arena, 'examples')} must return a tuple of tensors with {len(batch)} rows each")
    return examples


def _name(arena: Arena, method: str) -> str:
    """The name of a method of an arena, for errors."""
    return f"{type(arena).__name__}.{method}"
