"""The batches of a trial: their content and order depend on the seed alone."""

import hashlib
import math
from typing import Any

import torch

from fairbench.data.splits import Data, Split


class Batches:
    """The batches of a training. Each epoch is a new permutation of the examples; a partial last batch is dropped.

    The whole order is drawn on the CPU before the first step, so that the order is the same on every device. It is for
    `next` alone: after the last batch it raises IndexError.

    Args:
        data: the data of the arena.
        batch_size: examples in a batch.
        steps: the number of batches.
        seed: the seed of the order and of the augmentation.
        device: where the model is trained.

    Attributes:
        hash: the sha256 of the order.
    """

    def __init__(self, data: Data, batch_size: int, steps: int, seed: int, device: torch.device) -> None:
        count = len(data.train)
        if count < batch_size:
            raise ValueError(f"batch_size must be at most the {count} training examples, got {batch_size}")
        order = _draw_order(count, batch_size, steps, seed)
        self.hash = hashlib.sha256(order.numpy().tobytes()).hexdigest()
        self._data = data
        self._device = device
        self._order = order.to(data.train.inputs.device)
        self._taken = 0
        self._augmentation = torch.Generator(device).manual_seed(seed)

    def __next__(self) -> Split:
        """The next batch as inputs of the model, on the device."""
        rows = self._order[self._taken]
        batch = self._data.train[rows]
        self._taken += 1
        if batch.inputs.device != self._device:
            batch = batch.map(torch.Tensor.pin_memory).to(self._device)
        return self._data.read(batch, self._augmentation)

    def state_dict(self) -> dict[str, Any]:
        return {"taken": self._taken, "augmentation": self._augmentation.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._taken = state["taken"]
        self._augmentation.set_state(state["augmentation"].cpu())


def _draw_order(count: int, batch_size: int, steps: int, seed: int) -> torch.Tensor:
    """The indices of the examples in each batch, shape (steps, batch_size), out of `count` examples."""
    generator = torch.Generator().manual_seed(seed)
    per_epoch = count // batch_size
    epochs = math.ceil(steps / per_epoch)
    used_examples = per_epoch * batch_size
    permutations = [torch.randperm(count, generator=generator)[:used_examples] for _ in range(epochs)]
    rows = torch.cat(permutations)
    return rows.view(-1, batch_size)[:steps]
