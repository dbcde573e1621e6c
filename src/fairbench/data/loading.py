"""The data of each source: embedded ones, which every machine has, and those that `fairbench data` prepares."""

import sysconfig
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fairbench.common.errors import UsageError
from fairbench.data.dataset_config import dataset_config
from fairbench.data.datasets.registry import DATASETS, READING, UNVERIFIED
from fairbench.data.formats.raw import SEED, SPLITS
from fairbench.data.prepared import Prepared
from fairbench.data.splits import Data, Split, fingerprint
from fairbench.data.transforms import ImageTransform, read_tokens


def load_source(options: Mapping[str, Any], data_root: Path) -> Data:
    """The data of the source that an arena's table `data` names, with its options and those of its kind."""
    kind = DATASETS[options["source"]].kind
    reading = {name: options.get(name, default) for name, default in READING[kind].items()}
    if load := EMBEDDED.get(options["source"]):
        return load(**reading)
    prepared = dataset_config(options["source"], options).open(data_root)
    arrays = {name: prepared.array(name) for name in prepared.manifest["arrays"]}  # tokens are uint16
    signed = {name: x.view(np.int16) if x.dtype == np.uint16 else x for name, x in arrays.items()}
    with warnings.catch_warnings():  # the tensors share the memory of the files, which is never written to
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        tensors = {name: torch.from_numpy(array) for name, array in signed.items()}
    return (_images if kind == "images" else _text)(tensors, prepared, **reading)


def digits(evaluated: int = 0, **reading: Any) -> Data:
    """scikit-learn's 1797 handwritten digits, 8x8: half for training, a quarter each for validation and test.

    Source: UCI Machine Learning Repository, "Optical Recognition of Handwritten Digits", test set.
    """
    table = torch.from_numpy(np.loadtxt(_digits_file(), dtype=np.uint8, delimiter=","))
    inputs, targets = table[:, :-1].reshape(-1, 1, 8, 8), table[:, -1].long()  # from 0 to 16
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(SEED))
    quarter = len(order) // 4
    parts = order[2 * quarter :], order[:quarter], order[quarter : 2 * quarter]
    splits = {name: Split(inputs[rows], targets[rows]) for name, rows in zip(SPLITS, parts, strict=True)}
    splits = _fewer(splits, evaluated)
    read = ImageTransform(8.0, **reading)
    return Data(splits, fingerprint(splits), read, read.shape((1, 8, 8)), 10)


def _digits_file() -> Path:
    """The digits' file in scikit-learn, which is not imported: that takes two seconds in every process."""
    package = find_spec("sklearn")
    for folder in (package and package.submodule_search_locations) or ():
        if (file := Path(folder) / "datasets" / "data" / "digits.csv.gz").exists():
            return file
    raise UsageError(
        "the digits are scikit-learn's datasets/data/digits.csv.gz, which is not there: install 'scikit-learn>=1.4'"
    )


@cache
def stdlib_source(context: int, evaluated: int) -> Data:
    """The source text of this Python's standard library as bytes; each file belongs to one split.

    Of every ten modules, in alphabetical order, the ninth goes to validation and the tenth to the test split.
    """
    folder = Path(sysconfig.get_path("stdlib"))
    files = sorted(folder.glob("*.py"))
    if sum(file.stat().st_size for file in files) < 1_000_000:
        raise UsageError(f"the source stdlib is the standard library's text, but {folder} has too little of it")
    roles = {8: "val", 9: "test"}
    texts: dict[str, bytearray] = {name: bytearray() for name in SPLITS}
    for i, file in enumerate(files):
        texts[roles.get(i % 10, "train")] += file.read_bytes()
    tokens = {name: torch.frombuffer(text, dtype=torch.uint8) for name, text in texts.items()}
    splits = _windows(tokens, context, evaluated)
    return Data(splits, fingerprint(splits), read_tokens, (context,), 256)


EMBEDDED: Mapping[str, Callable[..., Data]] = {"digits": digits, "stdlib": stdlib_source}
"""The datasets that every machine has."""


def _images(tensors: Mapping[str, torch.Tensor], prepared: Prepared, evaluated: int, **reading: Any) -> Data:
    labels = {name: tensors.get(f"{name}_labels", torch.empty(0)).clone() for name in SPLITS}
    splits = _fewer({name: Split(tensors[name], labels[name]) for name in SPLITS}, evaluated)
    read = ImageTransform(127.5, **reading)
    classes = len(prepared.manifest.get("classes") or [])
    shape = read.shape(tuple(splits["train"].inputs.shape[1:]))
    shared = prepared.manifest["counts"].get("shared", {})
    named = "; ".join(f"images of {pair}: {count}" for pair, count in shared.items())
    return Data(splits, prepared.fingerprint, read, shape, classes, _origin(prepared), shared=named)


def _text(tokens: Mapping[str, torch.Tensor], prepared: Prepared, context: int, evaluated: int) -> Data:
    splits, manifest = _windows(tokens, context, evaluated), prepared.manifest
    per_byte = {split: len(part) / manifest["bytes"][split] for split, part in tokens.items()}
    vocabulary = manifest["options"]["vocabulary"]
    return Data(splits, prepared.fingerprint, read_tokens, (context,), vocabulary, _origin(prepared), per_byte)


def _origin(prepared: Prepared) -> str:
    source, verified = str(prepared.manifest["source"]), prepared.manifest["verified"]
    return source if source == "own" else f"{source}, {'verified' if verified else UNVERIFIED}"


def _windows(tokens: Mapping[str, torch.Tensor], context: int, evaluated: int) -> dict[str, Split]:
    """Texts as rows of `context` tokens and the next one, without overlap; an incomplete last row is dropped."""
    long = context + 1
    rows = {name: part[: len(part) // long * long].reshape(-1, long) for name, part in tokens.items()}
    return _fewer({name: Split(part, torch.empty(0)) for name, part in rows.items()}, evaluated)


def _fewer(splits: Mapping[str, Split], evaluated: int) -> dict[str, Split]:
    """The splits with `evaluated` evenly spaced examples for validation and for test; 0 keeps all."""

    def fewer(split: Split) -> Split:
        return split[torch.linspace(0, len(split) - 1, evaluated).long()] if 0 < evaluated < len(split) else split

    return {name: split if name == "train" else fewer(split) for name, split in splits.items()}
