"""Digests of weights and of states, bit by bit."""

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def weights_hash(model: nn.Module) -> str:
    """sha256 of every parameter and buffer, bit by bit; with DTensors every process of their mesh must call it."""
    sha = hashlib.sha256()
    for name, value in model.state_dict().items():
        sha.update(name.encode())
        sha.update(tensor_bytes(value.full_tensor() if hasattr(value, "full_tensor") else value))
    return sha.hexdigest()


def tensor_bytes(tensor: Tensor) -> memoryview:
    """The bytes of a tensor's values, wherever it is."""
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data


def content_digest(value: Any) -> str:
    """sha256 of a state, bit by bit."""
    sha = hashlib.sha256()

    def add(value: Any) -> None:
        text = repr(value) if not isinstance(value, Tensor | Mapping | list | tuple) else ""
        if isinstance(value, Tensor):
            sha.update(f"{value.dtype} {tuple(value.shape)}".encode())
            sha.update(tensor_bytes(value))
        elif isinstance(value, Mapping | list | tuple):
            text = str(len(value))
            for each in value:
                add(each)
                if isinstance(value, Mapping):
                    add(value[each])
        sha.update(f"{type(value).__name__} {text};".encode())

    add(value)
    return sha.hexdigest()
