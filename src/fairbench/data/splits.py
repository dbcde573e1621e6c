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
    """Examples, or a batch of them.

    Attributes:
        inputs: shape (N, ...): images, or windows of tokens.
        targets: shape (N,): labels, int64; empty for data without labels.
    """

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, rows: Tensor | slice) -> "Split":
        def chosen(part: Tensor) -> Tensor:
            return part[rows] if part.numel() else part

        return self.map(chosen)

    @property
    def nbytes(self) -> int:
        return self.inputs.nbytes + self.targets.nbytes

    def map(self, function: Callable[[Tensor], Tensor]) -> "Split":
        return Split(function(self.inputs), function(self.targets))

    def to(self, device: torch.device) -> "Split":
        """The examples on a device; a copy from pinned memory is asynchronous."""
        return self.map(lambda part: part.to(device, non_blocking=True))


def fingerprint(splits: Mapping[str, Split]) -> str:
    """sha256 of all examples, with dtypes and shapes."""
    sha = hashlib.sha256()
    for split in splits.values():
        for part in (split.inputs, split.targets):
            sha.update(f"{part.dtype} {tuple(part.shape)} ".encode())
            sha.update(part.contiguous().numpy().tobytes())
    return sha.hexdigest()


Read = Callable[[Split, torch.Generator | None], Split]
"""Transforms stored examples into inputs of a model, on their device; augments them if given a generator."""
Pair = tuple[Tensor, Tensor]


def _split(name: str, pair: Any) -> Split:
    """A split of a user's data, which must be a pair of tensors."""
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
    """How many inputs of a split are also in an earlier one, in words."""
    keys = {}
    for name, split in splits.items():
        rows = split.inputs.contiguous().view(len(split), -1)
        row_bytes = rows.view(torch.uint8).numpy()
        keys[name] = np.array([hash(row.tobytes()) for row in row_bytes])
    counts = shared(keys)
    return "; ".join(f"rows of {pair}: {count}" for pair, count in counts.items())


def _as_stored(batch: Split, generator: torch.Generator | None) -> Split:
    return batch


@dataclass(frozen=True)
class Data:
    """The data of an arena.

    Attributes:
        splits: "train"; "val", for the selection of the learning rate and for learning curves; "test", for the report.
        fingerprint: sha256 of all examples.
        read: the transform of stored examples.
        shape: of one input of a model: (channels, height, width), or (tokens,).
        classes: number of classes, or of tokens in the vocabulary.
        origin: the source, and whether its files are verified.
        tokens_per_byte: of each split of text, the mean number of tokens per byte, where it is not 1.
        shared: which images of prepared data are in two splits, in words.
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
            classes: number of classes; 0 if the targets are no labels.

        Raises:
            UsageError: a split is no pair of tensors.
        """
        splits = {
            "train": _split("train", train),
            "val": _split("val", val),
            "test": _split("test", test),
        }
        shape = tuple(splits["train"].inputs.shape[1:])
        return cls(splits, fingerprint(splits), read=_as_stored, shape=shape, classes=classes)

    @property
    def train(self) -> Split:
        return self.splits["train"]

    def to(self, device: torch.device) -> "Data":
        """The data on a device, or unchanged if a GPU has too little free memory: batches are then copied."""
        if device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            needed = sum(split.nbytes for split in self.splits.values())
            if needed > MEMORY_FRACTION * free:
                return self
        splits = {name: split.to(device) for name, split in self.splits.items()}
        return replace(self, splits=splits)
