"""The data of each source. Every machine has the embedded sources; `fairbench data` prepares the others."""

import sysconfig
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairbench.common.errors import UsageError
from fairbench.data.dataset_config import dataset_config
from fairbench.data.datasets.registry import DATASETS, READING, UNVERIFIED
from fairbench.data.formats.raw import SEED, SPLITS
from fairbench.data.prepared import Prepared
from fairbench.data.splits import Data, Split, fingerprint
from fairbench.data.transforms import ImageTransform, read_tokens


def load_source(options: Mapping[str, Any], data_root: Path) -> Data:
    """The data of the source that the table `data` of an arena names.

    Args:
        options: the table `data`: the source, the options of its preparation and the options of reading.
        data_root: the folder of prepared data.

    Raises:
        UsageError: the data are not prepared, or damaged.
    """
    source = options["source"]
    kind = DATASETS[source].kind
    reading = {name: options.get(name, default) for name, default in READING[kind].items()}
    load_embedded = EMBEDDED.get(source)
    if load_embedded is not None:
        return load_embedded(**reading)
    prepared = dataset_config(source, options).prepared(data_root)
    tensors = {name: _tensor(prepared.array(name)) for name in prepared.manifest["arrays"]}
    if kind == "images":
        return _images(tensors, prepared, **reading)
    return _text(tensors, prepared, **reading)


def _tensor(array: NDArray[Any]) -> torch.Tensor:
    """A tensor that shares the memory of a memory-mapped file. Nothing ever writes to the tensor."""
    if array.dtype == np.uint16:
        # Not every device can index uint16. `read_tokens` undoes this.
        array = array.view(np.int16)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def digits(evaluated: int = 0, **reading: Any) -> Data:
    """scikit-learn's 1797 handwritten digits, 8x8: half for training, a quarter each for validation and test.

    Source: UCI Machine Learning Repository, "Optical Recognition of Handwritten Digits", test set.
    """
    table = torch.from_numpy(np.loadtxt(_digits_file(), dtype=np.uint8, delimiter=","))
    images = table[:, :-1].reshape(-1, 1, 8, 8)  # from 0 to 16
    labels = table[:, -1].long()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(SEED))
    quarter = len(order) // 4
    rows_of_split = {
        "train": order[2 * quarter :],
        "val": order[:quarter],
        "test": order[quarter : 2 * quarter],
    }
    every = {split: Split(images[rows], labels[rows]) for split, rows in rows_of_split.items()}
    splits = _fewer(every, evaluated)
    read = ImageTransform(8.0, **reading)
    return Data(splits, fingerprint(splits), read, shape=read.shape((1, 8, 8)), classes=10)


def _digits_file() -> Path:
    """The file of the digits in scikit-learn. The package is not imported, since that takes two seconds."""
    package = find_spec("sklearn")
    if package is not None:
        for folder in package.submodule_search_locations or ():
            file = Path(folder) / "datasets" / "data" / "digits.csv.gz"
            if file.exists():
                return file
    raise UsageError(
        "the digits are scikit-learn's datasets/data/digits.csv.gz, which is not there: install 'scikit-learn>=1.4'"
    )


@cache
def stdlib_source(context: int, evaluated: int) -> Data:
    """The source text of Python's standard library as bytes; each file belongs to one split.

    The files are in alphabetical order. The ninth of every ten goes to validation, and the tenth to the test split.
    """
    folder = Path(sysconfig.get_path("stdlib"))
    files = sorted(folder.glob("*.py"))
    if sum(file.stat().st_size for file in files) < 1_000_000:
        raise UsageError(f"the source stdlib is the standard library's text, but {folder} has too little of it")
    other_splits = {8: "val", 9: "test"}  # by the last digit of the file's number, from 0
    texts: dict[str, bytearray] = {split: bytearray() for split in SPLITS}
    for number, file in enumerate(files):
        split = other_splits.get(number % 10, "train")
        texts[split] += file.read_bytes()
    tokens = {split: torch.frombuffer(text, dtype=torch.uint8) for split, text in texts.items()}
    splits = _windows(tokens, context, evaluated)
    return Data(splits, fingerprint(splits), read_tokens, shape=(context,), classes=256)


EMBEDDED: Mapping[str, Callable[..., Data]] = {"digits": digits, "stdlib": stdlib_source}
"""The functions that load the datasets which every machine has."""


def _images(tensors: Mapping[str, torch.Tensor], prepared: Prepared, evaluated: int, **reading: Any) -> Data:
    """The data of prepared images. `reading` has the options of `ImageTransform`."""
    every = {}
    for split in SPLITS:
        labels = tensors.get(f"{split}_labels", torch.empty(0))
        every[split] = Split(tensors[split], labels.clone())
    splits = _fewer(every, evaluated)
    read = ImageTransform(127.5, **reading)
    stored_shape = tuple(splits["train"].inputs.shape[1:])
    shared = prepared.manifest["counts"].get("shared", {})
    return Data(
        splits,
        prepared.fingerprint,
        read,
        shape=read.shape(stored_shape),
        classes=len(prepared.manifest.get("classes") or []),
        origin=_origin(prepared),
        shared="; ".join(f"images of {pair}: {count}" for pair, count in shared.items()),
    )


def _text(tokens: Mapping[str, torch.Tensor], prepared: Prepared, context: int, evaluated: int) -> Data:
    """The data of prepared text, in windows of `context` tokens."""
    manifest = prepared.manifest
    return Data(
        _windows(tokens, context, evaluated),
        prepared.fingerprint,
        read_tokens,
        shape=(context,),
        classes=manifest["options"]["vocabulary"],
        origin=_origin(prepared),
        tokens_per_byte={split: len(part) / manifest["bytes"][split] for split, part in tokens.items()},
    )


def _origin(prepared: Prepared) -> str:
    """The source of prepared data, and whether its files are verified."""
    source = str(prepared.manifest["source"])
    if source == "own":  # a user's files have no known hashes
        return source
    verified = "verified" if prepared.manifest["verified"] else UNVERIFIED
    return f"{source}, {verified}"


def _windows(tokens: Mapping[str, torch.Tensor], context: int, evaluated: int) -> dict[str, Split]:
    """Cut texts into rows of `context` tokens and the next token, without overlap. A partial last row is dropped."""
    row_length = context + 1
    splits = {}
    for split, part in tokens.items():
        count = len(part) // row_length
        rows = part[: count * row_length].reshape(-1, row_length)
        splits[split] = Split(rows, torch.empty(0))
    return _fewer(splits, evaluated)


def _fewer(splits: Mapping[str, Split], evaluated: int) -> dict[str, Split]:
    """Keep `evaluated` evenly spaced examples of the val split and of the test split; 0 keeps all examples."""
    fewer = dict(splits)
    for name, split in splits.items():
        if name != "train" and 0 < evaluated < len(split):
            rows = torch.linspace(0, len(split) - 1, evaluated).long()
            fewer[name] = split[rows]
    return fewer
