"""The batches of a trial: their content and order depend on the seed alone."""

import hashlib
from typing import Any

import torch

from fairbench.data.splits import Data, Split


class Batches:
    """Batches of the training split: each epoch is a new permutation of the examples, a partial last batch is dropped.

    The whole order is drawn on the CPU before the first step, so that it is the same on every device. The seed is that
    of the order and of the augmentation.
    """

    def __init__(self, data: Data, batch_size: int, steps: int, seed: int, device: torch.device) -> None:
        count = len(data.train)
        if count < batch_size:
            raise ValueError(f"batch_size must be at most the {count} training examples, got {batch_size}")
        generator, per_epoch = torch.Generator().manual_seed(seed), count // batch_size
        epochs = [torch.randperm(count, generator=generator) for _ in range(-(-steps // per_epoch))]
        rows = torch.cat([epoch[: per_epoch * batch_size] for epoch in epochs])
        order = rows.view(-1, batch_size)[:steps]  # the rows of every batch
        self.hash = hashlib.sha256(order.numpy().tobytes()).hexdigest()
        self._data, self._device = data, device
        self._order, self._taken = order.to(data.train.inputs.device), 0
        self._augmentation = torch.Generator(device).manual_seed(seed)

    def __next__(self) -> Split:
        """The next batch as inputs of the model, on the device."""
        batch = self._data.train[self._order[self._taken]]
        self._taken += 1
        if batch.inputs.device != self._device:
            batch = batch.map(torch.Tensor.pin_memory).to(self._device)
        return self._data.read(batch, self._augmentation)

    def state_dict(self) -> dict[str, Any]:
        return {"taken": self._taken, "augmentation": self._augmentation.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._taken = state["taken"]
        self._augmentation.set_state(state["augmentation"].cpu())
