"""The means of a reproducible training: a fixed order of sums, and the states of the global random generators."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


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
def same_order(deterministic: bool, device: str) -> Iterator[None]:
    """Fix the order of sums: use one thread and, on a GPU, torch's deterministic algorithms where they exist.

    Args:
        deterministic: whether to use the deterministic algorithms.
        device: the kind of the device, "cpu" or "cuda".
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # writes everything twice
    was_deterministic = torch.are_deterministic_algorithms_enabled()
    was_warning_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(deterministic and device == "cuda", warn_only=True)
    try:
        with one_thread():
            yield
    finally:
        torch.use_deterministic_algorithms(was_deterministic, warn_only=was_warning_only)


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
    """Set the global random generators to the states that `generator_states` returned."""
    torch.set_rng_state(states["torch"].cpu())
    if device.type == "cuda":
        torch.cuda.set_rng_state(states["device"].cpu(), device)
    np.random.set_state(states["numpy"])
    random.setstate(states["python"])
