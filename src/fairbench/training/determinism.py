"""What makes a training the same every time: how it adds, and where everybody's random numbers come from."""

import hashlib
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for all arithmetic: sums are then added in the same order wherever the trial runs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def same_order(deterministic: bool) -> Iterator[None]:
    """Have a GPU add in the same order every time, where torch knows how; a CPU does so anyway."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # it would write everything once more
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(deterministic, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def weights_hash(model: nn.Module) -> str:
    """sha256 of every parameter and buffer, bit by bit."""
    sha = hashlib.sha256()
    for name, value in model.state_dict().items():
        sha.update(name.encode())
        sha.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return sha.hexdigest()


def generator_states(device: torch.device) -> dict[str, Any]:
    """The states of the generators that are everybody's, as plain values and tensors.

    Args:
        device: the device of the training, whose generator is among them.
    """
    numpy_state: Any = np.random.get_state(legacy=False)
    key = {"key": numpy_state["state"]["key"].tolist(), "pos": int(numpy_state["state"]["pos"])}
    return {
        "torch": torch.get_rng_state(),
        "device": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        "numpy": {**numpy_state, "state": key},
        "python": random.getstate(),
    }


def set_generator_states(states: dict[str, Any], device: torch.device) -> None:
    """Have everybody's generators go on from where `generator_states` found them."""
    torch.set_rng_state(states["torch"].cpu())
    if device.type == "cuda":
        torch.cuda.set_rng_state(states["device"].cpu(), device)
    key = np.array(states["numpy"]["state"]["key"], dtype=np.uint32)
    np.random.set_state({**states["numpy"], "state": {**states["numpy"]["state"], "key": key}})
    random.setstate(states["python"])
