"""Real data that every machine has: scikit-learn's digits and the Python standard library's source."""

import hashlib
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from fairbench.errors import UsageError

SPLIT_SEED = 20_260_101
"""Seed of the division into splits: the same for every trial, independent of the trials' seeds."""


@dataclass(frozen=True)
class Split:
    """Examples, or a batch of them.

    Attributes:
        inputs: shape (N, ...).
        targets: shape (N,); empty where the inputs are all there is.
    """

    inputs: Tensor
    targets: Tensor

    def __getitem__(self, rows: Tensor) -> "Split":
        """The examples at these rows."""
        return self.map(lambda part: part[rows] if part.numel() else part)

    def first(self, count: int) -> "Split":
        """The first examples."""
        return self.map(lambda part: part[:count])

    def map(self, function: Callable[[Tensor], Tensor]) -> "Split":
        """The split with a function applied to its inputs and to its targets."""
        return Split(function(self.inputs), function(self.targets))


@dataclass(frozen=True)
class Data:
    """The data of an arena.

    Attributes:
        train: for training.
        val: for the selection of the learning rate and for learning curves.
        test: for the report.
        fingerprint: sha256 of all of it.
    """

    train: Split
    val: Split
    test: Split
    fingerprint: str

    def to(self, device: torch.device) -> "Data":
        """The data on a device."""
        train, val, test = (split.map(lambda part: part.to(device)) for split in (self.train, self.val, self.test))
        return Data(train, val, test, self.fingerprint)


def with_fingerprint(train: Split, val: Split, test: Split) -> Data:
    """The splits as `Data`."""
    sha = hashlib.sha256()
    for split in (train, val, test):
        for part in (split.inputs, split.targets):
            sha.update(f"{part.dtype} {tuple(part.shape)} ".encode())
            sha.update(part.contiguous().numpy().tobytes())
    return Data(train, val, test, sha.hexdigest())


@cache
def digits() -> Data:
    """scikit-learn's 1797 handwritten digits, 8x8, in [-1, 1]: half for training, a quarter each to validate and test.

    Returns:
        Inputs of shape (N, 1, 8, 8), float32; targets of shape (N,), int64.

    Source: UCI Machine Learning Repository, "Optical Recognition of Handwritten Digits", test set.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    inputs = torch.from_numpy(images).float().reshape(-1, 1, 8, 8) / 8 - 1
    targets = torch.from_numpy(labels).long()
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(SPLIT_SEED))
    quarter = len(order) // 4
    parts = order[2 * quarter :], order[:quarter], order[quarter : 2 * quarter]
    return with_fingerprint(*(Split(inputs[rows], targets[rows]) for rows in parts))


@cache
def stdlib_source(context: int, evaluated_windows: int) -> Data:
    """The source text of this Python's standard library as bytes, cut into windows; files are never shared by splits.

    Of every ten modules, in the order of their names, the ninth goes to validation and the tenth to the test split.

    Args:
        context: bytes that a model sees; a window has one more.
        evaluated_windows: windows in each of the validation and test splits, evenly spaced.

    Returns:
        Inputs of shape (N, context + 1), uint8; no targets.

    Raises:
        UsageError: the standard library's source is not there (some systems ship it compiled).
    """
    folder = Path(sysconfig.get_path("stdlib"))
    files = sorted(folder.glob("*.py"))
    if sum(file.stat().st_size for file in files) < 1_000_000:
        raise UsageError(f"the gpt arena reads the standard library's source, but {folder} has too little of it")
    roles = {8: "val", 9: "test"}
    texts: dict[str, list[bytes]] = {"train": [], "val": [], "test": []}
    for i, file in enumerate(files):
        texts[roles.get(i % 10, "train")].append(file.read_bytes())
    train, val, test = (_windows(b"".join(texts[role]), context + 1) for role in ("train", "val", "test"))
    return with_fingerprint(train, _evenly_spaced(val, evaluated_windows), _evenly_spaced(test, evaluated_windows))


def _windows(text: bytes, length: int) -> Split:
    """The text as rows of `length` bytes; what is left at the end is dropped."""
    stream = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    rows = stream[: len(stream) // length * length].reshape(-1, length)
    return Split(rows, torch.empty(0))


def _evenly_spaced(split: Split, count: int) -> Split:
    return split[torch.linspace(0, len(split.inputs) - 1, count).long()]
