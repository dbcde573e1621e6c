"""What makes a training reproducible: the order of sums, and the global random generators."""

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
    """Use one thread for all arithmetic, so that sums are added in the same order on every machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def same_order(deterministic: bool) -> Iterator[None]:
    """Use torch's deterministic algorithms on a GPU, where they exist; on a CPU sums have one order anyway."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # writes everything twice
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(deterministic, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def weights_hash(model: nn.Module) -> str:
    """sha256 of every parameter and buffer, bit by bit; with DTensors every process of their mesh must call it."""
    sha = hashlib.sha256()
    for name, value in model.state_dict().items():
        sha.update(name.encode())
        sha.update(tensor_bytes(value.full_tensor() if hasattr(value, "full_tensor") else value))
    return sha.hexdigest()


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """The bytes of a tensor's values, wherever it is."""
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def generator_states(device: torch.device) -> dict[str, Any]:
    """The states of the global random generators of torch, a device, numpy and Python, as plain values and tensors."""
    numpy_state: Any = np.random.get_state()
    name, key, *rest = numpy_state
    return {
        "torch": torch.get_rng_state(),
        "device": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        "numpy": (name, key.tolist(), *rest),
        "python": random.getstate(),
    }


def set_generator_states(states: dict[str, Any], device: torch.device) -> None:
    """Restore the global random generators to what `generator_states` returned."""
    torch.set_rng_state(states["torch"].cpu())
    if device.type == "cuda":
        torch.cuda.set_rng_state(states["device"].cpu(), device)
    np.random.set_state(states["numpy"])
    random.setstate(states["python"])
