"""A folder that `fairbench data` has prepared: arrays, and the manifest that describes them."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from fairbench.common.coercion import build
from fairbench.common.errors import UsageError, one_line
from fairbench.common.files import stamp, write_atomically
from fairbench.common.hashing import digest
from fairbench.common.reading import read_json, read_text

FORMAT = 1
"""Version of the folder's format."""
MANIFEST = "manifest.json"
HASHED = ".hashed.json"
"""The sizes and times that the files had when their content was last compared with the manifest."""
CHUNK = 1 << 20


class _Array(TypedDict):
    sha256: str
    dtype: str
    shape: list[int]


class _Manifest(TypedDict):
    dataset: str
    options: dict[str, Any]
    files: list[dict[str, Any]]
    verified: bool
    counts: dict[str, dict[str, Any]]
    arrays: dict[str, _Array]


@dataclass(frozen=True)
class Prepared:
    """A prepared dataset; its manifest has `arrays`, `counts`, `bytes` of text, `classes`, `verified` and more."""

    folder: Path
    manifest: Mapping[str, Any]

    def array(self, name: str) -> NDArray[Any]:
        """An array, memory-mapped and read-only: "train", "val" or "test", or one of these with "_labels", int64, (N,).

        Images are uint8, shape (N, 3, H, W); tokens are uint16, shape (N,).
        """
        path = self.folder / f"{name}.npy"
        facts = self.manifest["arrays"][name]
        try:
            array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
            end = path.stat().st_size
        except Exception as error:  # numpy reads the header as Python code, which raises errors of many kinds
            raise UsageError(f"{path} is damaged ({one_line(error)})") from error
        is_stated = array.dtype.str == facts["dtype"] and list(array.shape) == facts["shape"]
        if not (is_stated and array.flags.c_contiguous) or array.offset + array.nbytes != end:  # type: ignore[attr-defined]
            order = "" if array.flags.c_contiguous else " in Fortran order"
            found = f"{array.dtype.str} {list(array.shape)}{order}"
            raise UsageError(f"{path} is damaged: it contains {found}, expected {facts}")
        return array

    @property
    def files(self) -> dict[str, str]:
        """The sha256 of every file; of a .npy file, that of its values alone."""
        hashes = {f"{name}.npy": stated["sha256"] for name, stated in self.manifest["arrays"].items()}
        tokenizer = self.manifest.get("tokenizer", {})
        return hashes | ({"tokenizer.json": tokenizer["sha256"]} if "sha256" in tokenizer else {})

    def differences(self) -> Iterator[str]:
        """Hash every file again, and describe each difference from the manifest."""
        for name, expected in self.files.items():
            try:
                if name.endswith(".npy"):
                    self.array(name.removesuffix(".npy"))
                if (actual := content_sha256(self.folder / name)) != expected:
                    yield f"{self.folder / name} has sha256 {actual}, expected {expected}"
            except (UsageError, OSError) as error:
                yield str(error)

    def check_content(self) -> None:
        """Raise `UsageError` if a file was changed: by size and times if it was hashed before, otherwise by hash."""
        paths = {name: self.folder / name for name in self.files}
        stamps = {name: stamp(path.stat()) for name, path in paths.items() if path.exists()}
        state = json.dumps({"files": self.files, "stamps": stamps})
        hashed = self.folder / HASHED
        if read_text(hashed) == state:
            return
        if differing := "; ".join(self.differences()):
            raise UsageError(differing)
        with suppress(UsageError):  # the folder may be read-only
            write_atomically(hashed, state)

    @property
    def fingerprint(self) -> str:
        return digest(self.manifest["arrays"])


def read_folder(folder: Path, options: Mapping[str, Any] | None = None) -> Prepared:
    """The prepared dataset of a folder, by its manifest; if options are given, these and its arrays are checked."""

    def interpret(value: Any) -> Prepared:
        manifest = dict(build(dict[str, Any], value, ()))
        if (version := manifest.get("format")) != FORMAT:
            raise ValueError(f"it has format {version}, and this fairbench reads format {FORMAT}")
        if manifest.pop("sha256", None) != digest(manifest):
            raise ValueError("its checksum does not match")
        return Prepared(folder, build(_Manifest, manifest, ()))

    prepared = read_json(path := folder / MANIFEST, interpret)
    if not isinstance(prepared, Prepared):
        if prepared is None:
            raise UsageError(f"there is no {path}")
        raise UsageError(f"{path} {'cannot be read' if prepared.locked else 'is damaged'} ({prepared.reason})")
    if options is not None:
        if prepared.manifest["options"] != options:
            raise UsageError(f"{folder} was prepared with {prepared.manifest['options']}")
        for name in prepared.manifest["arrays"]:
            prepared.array(name)
    return prepared


def content_sha256(path: Path) -> str:
    """sha256 of a file; of a .npy file, that of its values alone."""
    sha = hashlib.sha256()
    with path.open("rb") as file:
        if path.suffix == ".npy":
            np.lib.format.read_magic(file)
            np.lib.format.read_array_header_1_0(file)
        while chunk := file.read(CHUNK):
            sha.update(chunk)
    return sha.hexdigest()


def sealed(manifest: Mapping[str, Any]) -> str:
    """The text of a manifest, with a checksum of its content."""
    return json.dumps({**manifest, "sha256": digest(manifest)}, indent=1) + "\n"
