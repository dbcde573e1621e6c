"""The order in which a trial sees its examples: a function of the seed alone."""

import hashlib
from collections.abc import Iterator

import torch

from fairbench.data.sources import Split


class Batches:
    """Batches without end: each epoch is a new permutation of the examples, a partial last batch is dropped.

    The rows are drawn on the CPU, so that every device and optimizer sees the same order.

    Args:
        split: the examples, on the device of the training.
        batch_size: examples in a batch.
        seed: seed of the order.

    Raises:
        ValueError: the split has fewer examples than one batch.
    """

    def __init__(self, split: Split, batch_size: int, seed: int) -> None:
        self._split, self._batch_size = split, batch_size
        self._sha = hashlib.sha256()
        count = len(split.inputs)
        if count < batch_size:
            raise ValueError(f"batch_size must be at most the {count} training examples, got {batch_size}")
        self._rows = self._draw(count, torch.Generator().manual_seed(seed))

    def _draw(self, count: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
        while True:
            order = torch.randperm(count, generator=generator)
            yield from order[: count - count % self._batch_size].view(-1, self._batch_size)

    def next(self) -> Split:
        """The next batch."""
        rows = next(self._rows)
        self._sha.update(rows.numpy().tobytes())
        return self._split[rows.to(self._split.inputs.device)]

    def hash(self) -> str:
        """sha256 of the order so far."""
        return self._sha.hexdigest()
