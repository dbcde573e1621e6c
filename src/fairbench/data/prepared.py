"""A folder that `fairbench data` has prepared: arrays, and the manifest that describes them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbench.common.errors import UsageError
from fairbench.common.hashing import digest

FORMAT = 1
"""Version of the folder's format."""
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Prepared:
    """A prepared dataset.

    Attributes:
        folder: the folder.
        manifest: its description: `arrays`, `counts`, `bytes` of text, `classes`, `verified` and more.
    """

    folder: Path
    manifest: Mapping[str, Any]

    def array(self, name: str) -> NDArray[Any]:
        """An array, memory-mapped and read-only.

        Args:
            name: "train", "val" or "test": images, uint8, shape (N, 3, H, W); or tokens, uint16, shape (N,).
                "train_labels", "val_labels" or "test_labels": int64, shape (N,).

        Raises:
            UsageError: its file is missing, or does not match the manifest.
        """
        path = self.folder / f"{name}.npy"
        facts = self.manifest["arrays"][name]
        try:
            array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
            end = path.stat().st_size
        except (OSError, ValueError, EOFError) as error:
            raise UsageError(f"{path} is damaged ({type(error).__name__}: {error})") from error
        is_stated = array.dtype.str == facts["dtype"] and list(array.shape) == facts["shape"]
        if not is_stated or array.offset + array.nbytes != end:  # type: ignore[attr-defined]
            raise UsageError(f"{path} is damaged: it contains {array.dtype.str} {list(array.shape)}, expected {facts}")
        return array

    @property
    def fingerprint(self) -> str:
        """sha256 of the hashes, dtypes and shapes of the arrays."""
        return digest(self.manifest["arrays"])


def read_folder(folder: Path, options: Mapping[str, Any] | None = None) -> Prepared:
    """Read the manifest of a prepared dataset and, if options are given, check these and its arrays.

    Raises:
        UsageError: the manifest is missing, damaged or of a different format, or does not agree with options or arrays.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text())
        checksum = manifest.pop("sha256")
        if manifest["format"] != FORMAT:
            raise UsageError(f"{folder} has format {manifest['format']}, this fairbench reads format {FORMAT}")
        if checksum != digest(manifest):
            raise ValueError("its checksum does not match")
    except FileNotFoundError:
        raise UsageError(f"there is no {path}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is damaged ({type(error).__name__}: {error})") from error
    prepared = Prepared(folder, manifest)
    if options is not None:
        if manifest["options"] != options:
            raise UsageError(f"{folder} was prepared with {manifest['options']}")
        for name in manifest["arrays"]:
            prepared.array(name)
    return prepared


def sealed(manifest: Mapping[str, Any]) -> str:
    """The text of a manifest, with a checksum of its content."""
    return json.dumps({**manifest, "sha256": digest(manifest)}, indent=1) + "\n"
