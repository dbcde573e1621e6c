"""Examples as they are stored, and how a model reads them."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Split:
    """Examples, or a batch of them.

    Attributes:
        inputs: shape (N, ...): images, or windows of tokens.
        targets: shape (N,): labels, int64; empty where the inputs are all there is.
    """

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        """How many examples."""
        return len(self.inputs)

    def __getitem__(self, rows: Tensor | slice) -> "Split":
        """The examples at these rows."""
        return self.map(lambda part: part[rows] if part.numel() else part)

    def map(self, function: Callable[[Tensor], Tensor]) -> "Split":
        """The split with a function applied to its inputs and to its targets."""
        return Split(function(self.inputs), function(self.targets))

    def to(self, device: torch.device) -> "Split":
        """The examples on a device; a copy from pinned memory is not waited for."""
        return self.map(lambda part: part.to(device, non_blocking=True))

    @property
    def bytes(self) -> int:
        """What they take."""
        return sum(part.numel() * part.element_size() for part in (self.inputs, self.targets))


def fingerprint(splits: Mapping[str, Split]) -> str:
    """sha256 of all of it."""
    sha = hashlib.sha256()
    for split in splits.values():
        for part in (split.inputs, split.targets):
            sha.update(f"{part.dtype} {tuple(part.shape)} ".encode())
            sha.update(part.contiguous().numpy().tobytes())
    return sha.hexdigest()


Read = Callable[[Split, torch.Generator | None], Split]
"""Makes stored examples a model's inputs, on their device; with a generator, of their device, it augments them."""


Pair = tuple[Tensor, Tensor]


def _as_stored(batch: Split, generator: torch.Generator | None) -> Split:
    return batch


@dataclass(frozen=True)
class Data:
    """The data of an arena.

    Attributes:
        splits: "train"; "val", for the selection of the learning rate and for learning curves; "test", for the report.
        fingerprint: sha256 of all of it.
        read: how a model reads them.
        shape: of one input as a model gets it: (channels, height, width), or (tokens,).
        classes: how many labels there are, or tokens in the vocabulary.
        origin: where they are from, and whether they are what their authors published.
        tokens_per_byte: of text, how many tokens stand for a byte of it.
    """

    splits: Mapping[str, Split]
    fingerprint: str
    read: Read
    shape: tuple[int, ...]
    classes: int
    origin: str = "embedded"
    tokens_per_byte: float = 1.0

    @classmethod
    def of(cls, train: Pair, val: Pair, test: Pair, classes: int = 0) -> "Data":
        """Data that a model reads as they are, of tensors.

        Args:
            train: inputs, shape (N, ...), and their targets, shape (N, ...).
            val: the same, for the selection of the learning rate.
            test: the same, for the report.
            classes: how many labels there are; 0 where the targets are no labels.
        """
        splits = {"train": Split(*train), "val": Split(*val), "test": Split(*test)}
        return cls(splits, fingerprint(splits), _as_stored, tuple(splits["train"].inputs.shape[1:]), classes)

    @property
    def train(self) -> Split:
        """The examples for training."""
        return self.splits["train"]

    def to(self, device: torch.device) -> "Data":
        """The data on a device; where a GPU has no room for it, it stays where it is, and batches are sent."""
        taken = sum(split.bytes for split in self.splits.values())
        if device.type == "cuda" and taken > ROOM * _free_memory(device):
            return self
        return replace(self, splits={name: split.to(device) for name, split in self.splits.items()})


ROOM = 0.5
"""The share of a GPU's free memory that data may take."""


def _free_memory(device: torch.device) -> int:
    return torch.cuda.mem_get_info(device)[0]
