"""Digests of weights and of states, bit by bit."""

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def weights_hash(model: nn.Module) -> str:
    """The sha256 of every parameter and buffer, bit by bit.

    If there are DTensors, every process of their mesh must call this function.
    """
    sha = hashlib.sha256()
    for name, value in model.state_dict().items():
        sha.update(name.encode())
        whole = value.full_tensor() if hasattr(value, "full_tensor") else value
        sha.update(tensor_bytes(whole))
    return sha.hexdigest()


def tensor_bytes(tensor: Tensor) -> memoryview:
    """The bytes of a tensor's values, on any device."""
    values = tensor.detach().cpu().contiguous()
    return values.view(-1).view(torch.uint8).numpy().data


def content_digest(value: Any) -> str:
    """The sha256 of a state, bit by bit. The order of the keys of a dictionary has no meaning."""
    sha = hashlib.sha256()

    def add(value: Any) -> None:
        """Hash the parts of a value, then its type and its number of parts or its text."""
        if isinstance(value, Tensor):
            text = ""
            sha.update(f"{value.dtype} {tuple(value.shape)}".encode())
            sha.update(tensor_bytes(value))
        elif isinstance(value, Mapping):
            text = str(len(value))
            for key in sorted(value, key=repr):
                add(key)
                add(value[key])
        elif isinstance(value, list | tuple):
            text = str(len(value))
            for each in value:
                add(each)
        else:
            text = repr(value)
        sha.update(f"{type(value).__name__} {text};".encode())

    add(value)
    return sha.hexdigest()
