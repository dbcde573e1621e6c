"""Stored examples in splits, and their transform into inputs of a model."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbench.common.errors import UsageError
from fairbench.data.formats.raw import shared

MEMORY_FRACTION = 0.5
"""The fraction of a GPU's free memory that data may take."""


@dataclass(frozen=True)
class Split:
    """The examples of a split, or a batch of them.

    Attributes:
        inputs: images or windows of tokens, shape (N, ...).
        targets: of shape (N, ...); labels are int64, of shape (N,); empty for data without targets.
    """

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, rows: Tensor | slice) -> "Split":
        """The examples in some rows."""

        def chosen(part: Tensor) -> Tensor:
            # The targets may be empty, and then have no rows.
            return part[rows] if part.numel() else part

        return self.map(chosen)

    @property
    def nbytes(self) -> int:
        """The memory that the examples take."""
        return self.inputs.nbytes + self.targets.nbytes

    def map(self, function: Callable[[Tensor], Tensor]) -> "Split":
        """Apply a function to the inputs and to the targets."""
        return Split(function(self.inputs), function(self.targets))

    def to(self, device: torch.device) -> "Split":
        """Copy the examples to a device. A copy from pinned memory is asynchronous."""
        return self.map(lambda part: part.to(device, non_blocking=True))


def fingerprint(splits: Mapping[str, Split]) -> str:
    """The sha256 of all examples, with their dtypes and shapes."""
    sha = hashlib.sha256()
    for split in splits.values():
        for part in (split.inputs, split.targets):
            sha.update(f"{part.dtype} {tuple(part.shape)} ".encode())
            sha.update(part.contiguous().numpy().tobytes())
    return sha.hexdigest()


Read = Callable[[Split, torch.Generator | None], Split]
"""A function that turns stored examples into inputs of a model, on the device of the examples.

With a generator it also augments the examples, with random numbers of this generator.
"""
Pair = tuple[Tensor, Tensor]
"""Inputs and targets."""


def _checked_split(name: str, pair: Any) -> Split:
    """A split of a user's data. Raises `UsageError` if `pair` is not a pair of tensors."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise UsageError(f"Data.of: {name} must be a pair of tensors (inputs, targets), got {type(pair).__name__}")
    for part, values in zip(("inputs", "targets"), pair, strict=True):
        if not isinstance(values, Tensor):
            raise UsageError(
                f"Data.of: the {part} of {name} must be a tensor, got {type(values).__name__}; torch.as_tensor makes "
                "one of numbers, torch.stack one of a Dataset's items; a label that is a word needs a number, from 0"
            )
    return Split(*pair)


def shared_rows(splits: Mapping[str, Split]) -> str:
    """For each pair of splits the number of inputs of the later one that are also in the earlier one, in words.

    Empty if there are none. Inputs are compared by their bytes.
    """
    hashes = {}
    for name, split in splits.items():
        rows = split.inputs.contiguous().view(len(split), -1)
        row_bytes = rows.view(torch.uint8).numpy()
        hashes[name] = np.array([hash(row.tobytes()) for row in row_bytes])
    counts = shared(hashes)
    return "; ".join(f"rows of {later_in_earlier}: {count}" for later_in_earlier, count in counts.items())


def _as_stored(batch: Split, generator: torch.Generator | None) -> Split:
    """A `Read` that changes nothing."""
    return batch


@dataclass(frozen=True)
class Data:
    """The data of an arena.

    Attributes:
        splits: "train"; "val" for the selection of the learning rate and for learning curves; "test" for the report.
        fingerprint: the sha256 of all examples.
        read: the transform of stored examples into inputs of a model.
        shape: the shape of one input of a model: (channels, height, width), or (tokens,).
        classes: the number of classes, or of tokens in the vocabulary.
        origin: the source, and whether its files are verified.
        tokens_per_byte: the mean number of tokens per byte in each split of text; 1 if a split is not named.
        shared: the number of images that are in two splits, in words; empty if there are none.
    """

    splits: Mapping[str, Split]
    fingerprint: str
    read: Read
    shape: tuple[int, ...]
    classes: int
    origin: str = "embedded"
    tokens_per_byte: Mapping[str, float] = field(default_factory=dict)
    shared: str = ""

    @classmethod
    def of(cls, train: Pair, val: Pair, test: Pair, classes: int = 0) -> "Data":
        """Make data from tensors, without a transform.

        Args:
            train: inputs, shape (N, ...), and their targets, shape (N, ...).
            val: the same, for the selection of the learning rate.
            test: the same, for the report.
            classes: the number of classes; 0 if the targets are not labels.

        Raises:
            UsageError: a split is not a pair of tensors.
        """
        splits = {
            "train": _checked_split("train", train),
            "val": _checked_split("val", val),
            "test": _checked_split("test", test),
        }
        shape = tuple(splits["train"].inputs.shape[1:])
        return cls(splits, fingerprint(splits), read=_as_stored, shape=shape, classes=classes)

    @property
    def train(self) -> Split:
        """The split on which models are trained."""
        return self.splits["train"]

    def to(self, device: torch.device) -> "Data":
        """Copy the data to a device.

        If a GPU has too little free memory, the data stay where they are, and `fairbench.data.batches` copies each
        batch to the GPU.
        """
        if device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            needed = sum(split.nbytes for split in self.splits.values())
            if needed > MEMORY_FRACTION * free:
                return self
        splits = {name: split.to(device) for name, split in self.splits.items()}
        return replace(self, splits=splits)
